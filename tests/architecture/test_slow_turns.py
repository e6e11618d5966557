"""Every slow test has a turn: over the days of .ci/slow-turns.toml each comes once, and no day takes too long."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.architecture.sources import ROOT
from tests.architecture.test_ci import env

SLOW = "slow and not gpu and not hardware and not ros"


def _slow_turns() -> ModuleType:
    found = spec_from_file_location("slow_turns", ROOT / ".ci" / "slow_turns.py")
    assert found is not None
    assert found.loader is not None
    module = module_from_spec(found)
    sys.modules[found.name] = module  # where dataclasses look for the types of fields
    found.loader.exec_module(module)
    return module


slow_turns = _slow_turns()


def table(**changes: Any) -> Any:
    return dataclasses.replace(
        slow_turns.Turns(days=3, limit_s=40.0, unknown_s=10.0, by_hand={}, seconds={}), **changes
    )


@pytest.fixture(scope="module")
def collected() -> list[str]:
    """Every slow test. Only files that hold the word can hold one, and collecting all others costs minutes."""
    files = [str(path) for path in (ROOT / "tests").rglob("test_*.py") if "slow" in path.read_text(encoding="utf-8")]
    found = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--collect-only", "-m", SLOW, *files], cwd=ROOT,
        capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stdout[-2000:] + found.stderr[-2000:]
    return slow_turns.collected_in(found.stdout)


def test_over_the_days_every_slow_test_comes_once_and_no_day_is_over_the_limit(collected: list[str]) -> None:
    turns = slow_turns.read()
    assert len(collected) > 300
    days = turns.days_of(collected)
    assert len(days) == turns.days
    assert sorted(test for day in days for test in day) == sorted(set(collected) - turns.by_hand.keys())
    for day in days:
        assert turns.cost_s(day) <= turns.limit_s


@pytest.mark.parametrize("document", ["AGENTS.md", "CONTRIBUTING.md"])
def test_the_documents_say_in_how_many_days_every_slow_test_comes(document: str) -> None:
    text = " ".join((ROOT / document).read_text(encoding="utf-8").split())
    assert f"every one comes once in {slow_turns.read().days} days" in text


def test_what_runs_by_hand_only_is_a_slow_test_and_has_a_reason(collected: list[str]) -> None:
    by_hand = slow_turns.read().by_hand
    assert by_hand.keys() <= set(collected)
    assert all(len(reason.split()) > 4 for reason in by_hand.values())


def test_a_test_that_is_no_more_has_no_record(collected: list[str]) -> None:
    gone = slow_turns.read().seconds.keys() - set(collected)
    assert not gone, "take these lines out of .ci/slow-turns.toml"


RECORDED = st.dictionaries(
    st.sampled_from([f"{file}::{letter}" for file in "fgh" for letter in "abc"]), st.floats(0.1, 9)
)
NEW = st.sets(st.sampled_from([f"{file}::{letter}" for file in "fi" for letter in "wxyz"]))


@given(recorded=RECORDED, new=NEW)
def test_each_test_has_one_day_and_no_day_is_over_the_limit(recorded: dict[str, float], new: set[str]) -> None:
    turns = table(seconds=recorded, limit_s=80.0)
    days = turns.days_of(sorted(recorded.keys() | new))
    assert sorted(test for day in days for test in day) == sorted(recorded.keys() | new)
    assert max(turns.cost_s(day) for day in days) <= 80.0


@given(recorded=RECORDED, new=NEW)
def test_a_new_test_moves_none_that_has_a_record(recorded: dict[str, float], new: set[str]) -> None:
    turns = table(seconds=recorded, limit_s=80.0)
    before = turns.days_of(sorted(recorded))
    after = turns.days_of(sorted(recorded.keys() | new))
    assert [[test for test in day if test in recorded] for day in after] == before


def test_the_tests_of_a_file_share_a_day_unless_they_take_more_than_half_of_it() -> None:
    seconds = {"f::a": 10.0, "f::b": 10.0, "g::a": 10.0, "g::b": 11.0}
    assert table(seconds=seconds).days_of(seconds) == [["f::a", "f::b"], ["g::b"], ["g::a"]]


def test_more_than_the_days_can_take_is_refused() -> None:
    seconds = dict.fromkeys("abc", 40.0)
    assert table(seconds=seconds).days_of("abc") == [["a"], ["b"], ["c"]]
    said = (
        r"3 days are too few. 4 slow tests, 1 of them without a record, take 130 s of CPU, and one day 50 s; 40 s are"
    )
    with pytest.raises(SystemExit, match=said):
        table(seconds=seconds).days_of("abcd")


def test_a_test_by_hand_has_no_day_and_takes_no_room() -> None:
    turns = table(seconds={"a": 41.0, "b": 1.0}, by_hand={"a": "it takes longer than a day may"})
    assert turns.days_of("ab") == [["b"], [], []]


def test_today_says_which_part_of_the_slow_tests_it_runs(capsys: pytest.CaptureFixture[str]) -> None:
    turns = table(seconds={"a": 3.0, "b": 2.0}, by_hand={"c": "wants a key"})
    assert slow_turns.today(list("abcd"), turns, 2) == ["d"]
    said = capsys.readouterr().err
    assert "Day 2 of 0 to 2: 1 of 4 slow tests, about 10 s of CPU. 3 days run all but 1 of them" in said


HEAD = "# why\ndays = 2\nlimit_s = 9\nunknown_s = 5\n[by_hand]\n"
COSTLY = """
import subprocess, sys, time, pytest

BUSY = "import time\\nwhile time.process_time() < 1.5: pass"

def test_by_itself():
    began = time.process_time()
    while time.process_time() - began < 1.0:
        pass

def test_by_a_child():
    subprocess.run([sys.executable, "-c", BUSY], check=True)

def test_that_fails():
    assert False

def test_cheap():
    pass
"""


@pytest.mark.parametrize("processes", [0, 2])
def test_what_tests_cost_is_written_and_kept(tmp_path: Path, processes: int) -> None:
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["tests.strict_run"]\n')
    (tmp_path / "test_it.py").write_text(COSTLY)
    line = ["-q", "-p", "no:cacheprovider", "-n", str(processes), "--costs", "costs.txt", "test_it.py"]
    subprocess.run(
        [sys.executable, "-m", "pytest", *line], cwd=tmp_path, env=env(), capture_output=True, timeout=600, check=False
    )
    kept = tmp_path / "turns.toml"
    kept.write_text(f'{HEAD}[seconds]\n"old" = 7.5\n"test_it.py::test_cheap" = 9.0\n')
    slow_turns.record((tmp_path / "costs.txt").read_text(), kept)
    seconds = dict(slow_turns.read(kept).seconds)
    assert seconds.pop("old") == 7.5
    assert seconds.pop("test_it.py::test_cheap") < 0.9
    assert 1.0 <= seconds.pop("test_it.py::test_by_itself") < 1.5 <= seconds.pop("test_it.py::test_by_a_child")
    assert not seconds, "the test that failed cost nothing that counts"
    assert kept.read_text().startswith(HEAD)
