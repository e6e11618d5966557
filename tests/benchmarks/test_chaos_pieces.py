"""Runs of the chaos benchmark add up with the bad ones, and only what belongs together."""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import chaos
from benchmarks.chaos_pieces import Piece, check, keep, read, summary
from benchmarks.chaos_stops import Stops
from benchmarks.machine import commit
from enpire.errors import UsageError
from tests.chaos.harness import Audit

GOOD = Piece(
    seed=1, wall_s=1.0, events={"cut": 2}, in_commit={}, restarted={}, verdicts=3, stops=Stops(), code=3, error="",
    commit="abc", load=1.0,
    found=Audit(
        events=9, orders=4, outcomes={"success": 3}, open=0, doubled=(), lost=(), witnessed=3, refused=0, different=(),
        store="",
    ),
)  # fmt: skip
BROKEN = replace(GOOD, seed=2, found=None, code=None, error="RuntimeError: it hangs", verdicts=5)


def test_a_run_that_broke_off_counts_in_the_sum(tmp_path: Path) -> None:
    file = tmp_path / "kept"
    keep(file, GOOD)
    pieces = keep(file, BROKEN)
    assert [problem for piece in pieces for problem in piece.problems()] == [
        "seed 2: the run broke off: RuntimeError: it hangs"
    ]
    text = summary(pieces)
    assert "ended     1 of 2 campaigns by their operator, 1 were audited" in text
    assert "the chain verifies in 1 of 2 campaigns" in text
    assert "lost      0 of 3:" in text, "what was not audited is no evidence"


def test_a_campaign_that_did_not_end_by_its_operator_is_a_problem() -> None:
    assert replace(GOOD, code=1).problems() == ["seed 1: the orchestrator ended with 1"]
    assert not GOOD.problems()


@pytest.mark.parametrize(
    ("seed", "at", "why"), [(2, "def", "of the commit abc, and this is def"), (1, "abc", "a run with the seed 1")]
)
def test_runs_that_do_not_belong_together_are_refused(tmp_path: Path, seed: int, at: str, why: str) -> None:
    file = tmp_path / "kept"
    check(file, 1, "abc")
    keep(file, GOOD)
    check(file, 2, "abc")
    with pytest.raises(UsageError, match=why):
        check(file, seed, at)


@pytest.mark.parametrize(("cut", "why"), [(-5, "not whole"), (0, "no result of this benchmark")])
def test_a_damaged_file_is_refused_before_the_run(tmp_path: Path, cut: int, why: str) -> None:
    file = tmp_path / "kept"
    keep(file, GOOD)
    file.write_text(file.read_text()[:cut] if cut else "{}\n")
    with pytest.raises(UsageError, match=why):
        check(file, 2, "abc")


def test_a_world_that_fails_leaves_a_result_and_the_next_run_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class FailingWorld:
        def __init__(self, home: Path, draw: object) -> None:
            self.disks: dict[str, Any] = {}
            self.hot, self.restarted = Counter[str](), Counter[str]()
            self.witness = SimpleNamespace(seen={})

        def start(self) -> None:
            raise ValueError("no port")

        def logs(self) -> str:
            return ""

        def close(self) -> None:
            pass

    file = tmp_path / "kept"
    keep(file, replace(GOOD, seed=7, commit=commit(), code=1))
    monkeypatch.setattr(chaos, "World", FailingWorld)
    monkeypatch.setattr(sys, "argv", ["chaos", "--keep", str(file), "--seed", "8"])
    assert chaos.main() == 1
    told = capsys.readouterr().out
    assert "PROBLEM   seed 7: the orchestrator ended with 1" in told
    assert "PROBLEM   seed 8: the run broke off: ValueError: no port" in told
    assert [piece.error for piece in read(file)] == ["", "ValueError: no port"]
    assert json.loads(file.read_text().splitlines()[-1])["found"] is None
    with pytest.raises(SystemExit):
        chaos.main()
    assert "holds a run with the seed 8" in capsys.readouterr().err
