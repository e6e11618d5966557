"""docs/campaign-file.md agrees with the reader of campaign files: keys, types, ranges, defaults and examples."""

from __future__ import annotations

import re
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Any

import pytest
import yaml

from enpire.campaign.campaign import Campaign, read_campaign
from enpire.campaign.recipe import read_recipe
from enpire.errors import EnpireError
from enpire.files import plain
from enpire.parts import TASKS

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "campaign-file.md").read_text(encoding="utf-8")
SECTION = re.compile(r"^## (?P<title>[^\n]*)\n(?P<text>.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`]+)`")
FENCE = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TOP = ""
LONGEST_SENTENCE = 25
"""Words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of a table: a key of a section."""

    meaning: str
    values: str
    default: str
    example: str

    @property
    def written(self) -> dict[str, Any]:
        """The YAML of the example; several lines stand in several code spans."""
        return yaml.safe_load("\n".join(SPAN.findall(self.example)))


def documented() -> dict[tuple[str, str], Row]:
    """(section, key) -> its row; the top level has the section "". Each key has one row."""
    found: dict[tuple[str, str], Row] = {}
    for match in SECTION.finditer(PAGE):
        section = TOP if match["title"] == "Top level" else "".join(SPAN.findall(match["title"]))
        for line in match["text"].splitlines():
            if line.startswith("| `"):
                key, *rest = (cell.strip() for cell in line.strip("|").split("|"))
                meaning, values, default, example = rest
                place = (section, key.strip("`"))
                assert place not in found, place
                found[place] = Row(meaning=meaning, values=values, default=default, example=example)
    return found


def members(cls: Any) -> Iterator[tuple[Field[Any], Any, type | None]]:
    """(field, type, dataclass of the section) of each field; the last is None for a key that is no section."""
    hints = typing.get_type_hints(cls)
    for item in fields(cls):
        inner = [one for one in (hints[item.name], *typing.get_args(hints[item.name])) if is_dataclass(one)]
        yield item, hints[item.name], typing.cast("type", inner[0]) if inner else None


def declared() -> dict[tuple[str, str], tuple[Field[Any], Any]]:
    """(section, key) -> its field and type, of every key that the reader knows."""
    found: dict[tuple[str, str], tuple[Field[Any], Any]] = {}
    for item, hint, section in members(Campaign):
        if section is None:
            found[TOP, item.name] = item, hint
            continue
        for inner, inner_hint, deeper in members(section):
            assert deeper is None, (
                f"{item.name}.{inner.name} is a section inside a section: describe it, extend this test"
            )
            found[item.name, inner.name] = inner, inner_hint
    return found


ROWS, KEYS = documented(), declared()
PLACES = sorted(ROWS.keys() & KEYS.keys())
LISTS = [item.name for item, hint, section in members(Campaign) if section and typing.get_origin(hint) is tuple]


def read(tmp_path: Path, written: Mapping[str, object]) -> Campaign:
    """The campaign of these keys, over those of the smallest file, by the product's reader."""
    path = tmp_path / "campaign.yaml"
    smallest = yaml.safe_load(FENCE.findall(PAGE)[0][1])
    path.write_text(yaml.safe_dump({**smallest, **written}), encoding="utf-8")
    return read_campaign(path)


def with_value(row: Row, place: tuple[str, str], value: object) -> dict[str, Any]:
    """The example with another value of the key."""
    section, key = place
    whole = row.written
    inside = whole if section == TOP else whole[section]
    (inside[0] if isinstance(inside, list) else inside)[key] = value
    return whole


def test_every_key_has_a_row_and_every_row_is_a_key() -> None:
    assert ROWS.keys() - KEYS.keys() == set(), "The page names keys that do not exist."
    assert KEYS.keys() - ROWS.keys() == set(), "Write a row for these keys."


def test_paths_in_the_text_are_keys() -> None:
    paths = [
        tuple(span.split("."))
        for span in SPAN.findall(FENCE.sub("", PAGE))
        if re.fullmatch(r"[a-z]\w*\.[a-z]\w*", span)
    ]
    known = KEYS.keys() | {("first", "yaml")}
    assert len(paths) >= 5
    assert set(paths) <= known


def check_default(place: tuple[str, str], _: Path) -> None:
    item, _ = KEYS[place]
    if item.default is MISSING and item.default_factory is MISSING:
        assert ROWS[place].default == "required"
        return
    default = item.default_factory() if item.default_factory is not MISSING else item.default
    written = yaml.safe_load(ROWS[place].default.strip("`"))
    assert (type(written), written) == (type(plain(default)), plain(default))


def check_type(place: tuple[str, str], _: Path) -> None:
    hint, written = KEYS[place][1], ROWS[place].values
    names = {float: "number", int: "whole number", str: "text", bool: "true or false"}
    origin, options = typing.get_origin(hint), [typing.get_args(one) for one in typing.get_args(hint)]
    if origin is typing.Literal:
        assert SPAN.findall(written) == [str(one) for one in typing.get_args(hint)]
    elif origin in {UnionType, typing.Union}:
        assert written == "list of texts, or `all`"
        assert options == [(str, ...), ("all",)]
    elif origin is tuple:
        assert (written, typing.get_args(hint)) == ("list of texts", (str, ...))
    elif origin is not None:
        assert (written, issubclass(origin, Mapping)) == ("mapping", True)
    else:
        assert re.split(r",| in ", written)[0] == names[hint]


def check_range(place: tuple[str, str], tmp_path: Path) -> None:
    row, hint = ROWS[place], KEYS[place][1]
    if hint not in {int, float}:
        return
    interval = re.search(r"`([\[(])0, 1([\])])`", row.values)
    least = re.search(r"at least (\d+)$", row.values)
    assert (interval is None) != (least is None), row.values
    if interval:
        ends = {0.0: interval[1] == "[", 1.0: interval[2] == "]", -0.001: False, 1.001: False, 0.001: True, 0.999: True}
    else:
        assert least
        ends = {int(least[1]): True, int(least[1]) - 1: False}
    for value, allowed in ends.items():
        try:
            read(tmp_path, with_value(row, place, value))
        except EnpireError:
            assert not allowed, f"{place} refuses {value}"
        else:
            assert allowed, f"{place} takes {value}"


def check_example(place: tuple[str, str], tmp_path: Path) -> None:
    section, key = place
    written = typing.cast("Any", ROWS[place].written)
    campaign = read(tmp_path, written)
    of = getattr(campaign, section) if section else typing.cast("Any", campaign)
    inside = written[section] if section else written
    if section in LISTS:
        of, inside = of[0], inside[0]
    assert plain(getattr(of, key)) == inside[key], place


@pytest.mark.parametrize("check", [check_default, check_type, check_range, check_example])
def test_every_row_agrees_with_the_reader(check: Callable[[tuple[str, str], Path], None], tmp_path: Path) -> None:
    assert len(PLACES) >= 60
    for place in PLACES:
        check(place, tmp_path)


def test_whole_files_are_read_and_name_parts_that_exist(tmp_path: Path) -> None:
    files = [yaml.safe_load(text) for info, text in FENCE.findall(PAGE) if info == "yaml"]
    assert len(files) == 3
    assert set(files[0]) == {"name", "task", "recipe"}, "the first file is the smallest"
    path = tmp_path / "whole.yaml"
    for content in files:
        path.write_text(yaml.safe_dump(content), encoding="utf-8")
        campaign = read_campaign(path)
        assert TASKS.make(campaign.task).spec.name == campaign.task
        for name in campaign.recipes:
            read_recipe(name)


def test_sections_that_are_lists_state_their_default() -> None:
    texts = {"".join(SPAN.findall(one["title"])): one["text"] for one in SECTION.finditer(PAGE)}
    assert LISTS == ["verifiers", "agents"]
    assert all(texts[name].strip().startswith("A list; the default is `[]`") for name in LISTS)


def test_a_former_spelling_is_named() -> None:
    former = {item.metadata["formerly"] for item, _ in KEYS.values() if "formerly" in item.metadata}
    assert former
    assert all(f"`{name}`" in PAGE for name in former)


def test_sentences_are_short() -> None:
    text = FENCE.sub("\n\n", PAGE)
    prose = [line for line in re.split(r"\n\n+", text) if not line.startswith(("|", "#"))]
    for piece in [*prose, *(row.meaning for row in ROWS.values())]:
        for sentence in re.split(r"(?<=[.:?!])\s+", " ".join(SPAN.sub("code", piece).split())):
            assert len(sentence.split()) <= LONGEST_SENTENCE, sentence
