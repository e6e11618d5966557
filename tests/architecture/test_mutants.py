"""The lists of mutants name lines and tests that exist; `make mutate` shows that the tests kill them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.mutants import ROOT, hand_made, modules, scores, survivors
from benchmarks.mutants.__main__ import drawn
from benchmarks.mutants.generate import essence
from benchmarks.mutants.scores import Score


def test_every_mutant_that_people_made_changes_one_line_that_is_there() -> None:
    mutants = hand_made()
    assert len(mutants) >= 40
    for mutant in mutants:
        compile(mutant.source, mutant.file, "exec")
        assert mutant.source != (ROOT / mutant.file).read_text(encoding="utf-8")
    assert len({mutant.name for mutant in mutants}) == len(mutants)


NAMED = {test for named in (*hand_made(), *modules().values()) for test in named.tests}


@pytest.mark.parametrize("test", sorted(NAMED))
def test_the_tests_that_must_kill_a_mutant_exist(test: str) -> None:
    file, _, name = test.partition("::")
    assert (ROOT / file).is_file()
    assert not name or f"def {name}(" in (ROOT / file).read_text(encoding="utf-8")


def test_modules_and_survivors_name_files_that_exist() -> None:
    for name, module in modules().items():
        assert [path for path in module.files if not (ROOT / path).exists()] == [], name
    assert all(len(why) > 20 for why in survivors().values())


@pytest.mark.parametrize(
    ("line", "nth", "number"),
    [
        ("b = 1", {}, 2),
        ("a = 0", {"nth": 1}, 1),
        ("a = 0", {"nth": 2}, 3),
        ("a = 0", {}, None),
        ("a = 0", {"nth": 0}, None),
        ("a = 0", {"nth": 3}, None),
        ("c = 0", {}, None),
    ],
)
def test_an_entry_that_names_several_lines_or_none_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, nth: dict[str, int], number: int | None
) -> None:
    monkeypatch.setattr("benchmarks.mutants.ROOT", tmp_path)
    monkeypatch.setattr("benchmarks.mutants.HERE", tmp_path)
    (tmp_path / "x.py").write_text("a = 0\nb = 1\na = 0\n")
    entry = {"file": "x.py", "line": line, "mutant": "pass", "why": "it is tried here", "tests": [], **nth}
    for name, read in (("survivors.yaml", survivors), ("hand_made.yaml", hand_made)):
        (tmp_path / name).write_text(json.dumps([entry]))
        if number is None:
            with pytest.raises(ValueError, match=r"x\.py has the line '. = .' \d times"):
                read()
    if number is not None:
        assert list(survivors()) == [("x.py", number, "pass")]
        assert [mutant.line for mutant in hand_made()] == [number]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("def f(x: int | str) -> A | B: ...", "def f(x: int & str) -> A & B: ...", True),
        ("x: Literal[1] = 1", "x: Literal[2] = 1", True),
        ("x: int = 1", "x: int = 2", False),
        ("raise E(f'{a + 1} of {b}')", "raise E(f'{a - 1} of {b}')", True),
        ("raise E(a + 1)", "raise E(a - 1)", False),
        ("if TYPE_CHECKING: import a", "if not TYPE_CHECKING: import a", True),
        ("if CHECKING: import a", "if not CHECKING: import a", False),
        ("@lru_cache(maxsize=1)\ndef f(): ...", "@lru_cache(maxsize=2)\ndef f(): ...", True),
        ("y = not a == b", "y = a != b", True),
        ("y = not a < b", "y = a >= b", False),
        ("@dataclass(frozen=True)\nclass A: ...", "@dataclass(frozen=False)\nclass A: ...", True),
    ],
)
def test_a_mutant_counts_only_where_it_changes_what_a_program_does(one: str, other: str, same: bool) -> None:
    assert (essence(one) == essence(other)) == same
    assert essence("no program") == ""


def test_a_sample_keeps_its_mutants_when_others_are_excused() -> None:
    mutants = hand_made()
    sample = drawn(mutants, 10)
    assert drawn(list(reversed(mutants)), 10) == sample
    assert drawn([one for one in mutants if one != sample[3]], 9) == [one for one in sample if one != sample[3]]
    assert len(drawn(mutants, 10_000)) == len(mutants)


def test_a_score_is_written_in_the_row_of_its_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scores, "TABLE", tmp_path / "scores.md")
    of = Score(module="gate", killed=57, tried=60, mutants=200, excused=3, too_slow=1, took_s=9.0, commit="abc")
    scores.record([of, replace(of, module="latch", killed=60, mutants=60)])
    scores.record([replace(of, killed=60)])
    rows = [line for line in scores.TABLE.read_text().splitlines() if line.startswith(("| gate", "| latch"))]
    assert rows == [
        "| gate | 60 | 60 | 200 | 100.0% [94.0%, 100.0%] | 3 | abc |",
        "| latch | 60 | 60 | 60 | 100.0% | 3 | abc |",
    ]
    assert (of.share, of.shown_share()) == (0.95, "95.0% [86.3%, 98.3%]")
