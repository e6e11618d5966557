"""One word, one meaning: names that say nothing, and names that the word table rules out."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Mapping

import pytest

from tests.architecture.retired_words import places, retired_in_name, retired_in_prose, room_of
from tests.architecture.sources import EVERYWHERE, PACKAGES, classes, files, functions, imports, nodes, where

EMPTY_NAMES = {"utils", "util", "helpers", "helper", "common", "manager", "managers", "base", "misc", "core", "stuff"}
BANNED = {
    "obs": "observation", "trajectory": "episode", "trajectories": "episodes", "cfg": "recipe or the noun it holds",
    "ckpt": "version", "eval": "gate", "evals": "gates", "eps": "episodes or a unit", "game": "task", "utils": "a noun",
    "helper": "a noun", "manager": "a noun", "override": "intervention", "overrides": "interventions",
}  # fmt: skip
"""Part of a public name -> what to say instead."""
OF_OTHERS = ("gym_env", "lerobot", "ros2", "dds", "policy_lerobot")
"""Files that speak another project's interface use its words."""
PICKLERS = {"pickle", "cloudpickle", "dill", "shelve", "marshal"}


def test_no_file_has_an_empty_name() -> None:
    named = [where(path) for path in files(EVERYWHERE) if EMPTY_NAMES & {path.stem, path.parent.name}]
    assert not named, f"Call these after what they hold: {named}"


def test_public_names_use_the_word_table() -> None:
    wrong: list[str] = []
    for path in files(PACKAGES):
        if any(word in path.stem for word in OF_OTHERS):
            continue
        nodes = [*functions(path), *classes(path)]
        for node in (node for node in nodes if not node.name.startswith("_")):
            parts = set(re.findall(r"[a-z]+|[A-Z][a-z]*", node.name))
            for part in {part.lower() for part in parts} & set(BANNED):
                wrong.append(f"{where(path, node)} {node.name}: say {BANNED[part]}")
    assert not wrong, wrong


def test_parameters_use_the_word_table() -> None:
    wrong: list[str] = []
    for path in files(PACKAGES):
        if any(word in path.stem for word in OF_OTHERS):
            continue
        for function in functions(path):
            arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
            found = {part for one in arguments for part in one.arg.split("_")} & set(BANNED)
            wrong += [f"{where(path, function)} {function.name}: {part} -> {BANNED[part]}" for part in found]
    assert not wrong, wrong


OPEN: Mapping[str, int] = {
    "README.md": 8, "docs": 1, "enpire": 16, "enpire/campaign": 43, "enpire/datasets": 1, "enpire/gate": 2,
    "enpire/monitor": 11, "enpire/queries": 1, "enpire/requests": 1, "enpire/steps": 40, "enpire/store": 2,
    "policies": 1, "sim": 1, "web_ui": 9,
}  # fmt: skip
"""Where retired words still stand, and how many at most: these numbers only go down."""


def test_no_retired_word_comes_back() -> None:
    found = places()
    counts = Counter(room_of(place.file) for place in found)
    too_many = {room for room, count in counts.items() if count > OPEN.get(room, 0)}
    assert not too_many, "\n".join(str(place) for place in found if room_of(place.file) in too_many)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("the deed of an operator", "deed"), ("It goes on.", "goes on"), ("4.04 of 3.49 nats", "of 3.49 nats"),
        ("Nobody knows", "Nobody"), ("orders were taken back", "taken back"), ("it thinks", "thinks"),
    ],
)  # fmt: skip
def test_a_retired_word_is_found_in_prose(text: str, word: str) -> None:
    assert [hit for hit, _ in retired_in_prose(text)] == [word]


@pytest.mark.parametrize(
    "text", ["a folder of manifolds", "Hugging Face", "the best policy beats the base", "fresh data"]
)
def test_ordinary_words_are_not_retired(text: str) -> None:
    assert not list(retired_in_prose(text))


@pytest.mark.parametrize(
    ("name", "word"),
    [("_told", "told"), ("FindingView", "finding"), ("is_taken_back", "taken back"), ("VERBS", "verbs")],
)
def test_a_retired_word_is_found_in_a_name(name: str, word: str) -> None:
    assert [hit for hit, _ in retired_in_name(name)] == [word]


def test_nothing_is_pickled() -> None:
    found = [
        where(path, node)
        for path in files(EVERYWHERE)
        for node, module in imports(path)
        if module.partition(".")[0] in PICKLERS
    ]
    loads = [
        where(path, node)
        for path in files(PACKAGES)
        for node in nodes(path)
        if isinstance(node, ast.keyword) and node.arg == "allow_pickle" and ast.unparse(node.value) != "False"
    ]
    assert not found + loads, "Pickle runs code of whoever wrote the file; use msgpack, JSON, npz or safetensors."


def test_tests_use_real_things() -> None:
    found = [
        where(path, node)
        for path in files(("tests",))
        for node, module in imports(path)
        if module.startswith(("unittest.mock", "mock", "pytest_mock"))
    ]
    assert not found, f"Use the fakes that the packages ship: {found}"


def test_nothing_untyped_passes_a_border() -> None:
    found = [
        f"{where(path)}:{number}"
        for path in files(("enpire",))
        if path.name != "files.py"
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if re.search(r"\b[Dd]ict\[str, Any\]|Mapping\[str, Any\]", line)
    ]
    assert not found, f"Parse these into dataclasses at the border: {found}"
