"""The benchmark of the gate fails where a line breaks what docs/gate.md promises for it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks import gate, gate_campaigns
from benchmarks.gate import Change, Counted, Row, broken, limits, tables, verdict, watched
from benchmarks.gate_campaigns import Losses, lost_too_much, small_losses
from benchmarks.measured import Measured
from enpire.gate.intervals import wilson
from enpire.gate.rule import GateRule

ROWS = {row.name: row for row in tables(GateRule(early_hold=False))}
NULL = "0.97 → 0.97, "


def problems(name: str, promoted: int = 0, worse: int = 0, unsafe: int = 0, n: int = 200) -> list[str]:
    row = ROWS[name]
    counts: dict[Counted, int] = {"promoted": promoted, "worse": worse, "unsafe": unsafe}
    return broken({one: wilson(hits, n) for one, hits in counts.items()}, limits(row, 0.05), row.least)


@pytest.mark.parametrize(
    "name",
    [
        "0.9 → 0.9, half of the starts with shared luck", f"{NULL}0.3 % faster", f"{NULL}equal",
        f"{NULL}10 % faster in 70 %, 3 times slower in 30 %", f"{NULL}10 % faster in 95 %, 50 times slower in 5 %",
        f"{NULL}0.3 % faster, Student-t times (2 degrees)", "0.97 → 0.90, 30 % faster",
        "20.0% → 20.0% unsafe, ceiling 5 %", "0.0% → 0.5% unsafe, no ceiling",
        "0.7 → 0.7, 1 logits of drift, blocks of 16", "0.6 → 0.5, none of the starts with shared luck",
    ],
)  # fmt: skip
def test_a_candidate_that_is_not_better_may_not_be_promoted_often(name: str) -> None:
    assert any("promoted 0.900, at most 0.05" in one for one in problems(name, promoted=180))
    kept = problems(name, promoted=8)
    assert not any("promoted" in one for one in kept)


@pytest.mark.parametrize(
    "name",
    [
        "2.0% → 2.0% unsafe, no ceiling", "5.0% → 5.0% unsafe, ceiling 5 %", "20.0% → 20.0% unsafe, no ceiling",
        f"{NULL}12 % faster", "0.4 → 0.4, none of the starts with shared luck",
        "0.7 → 0.7, 0.5 logits of drift, blocks of 16",
    ],
)  # fmt: skip
@pytest.mark.parametrize("reason", ["worse", "unsafe"])
def test_a_candidate_that_is_not_worse_may_not_be_rejected_often(name: str, reason: str) -> None:
    assert problems(name, **{reason: 54}) == [f"{reason} 0.270, at most 0.05"]
    assert problems(name, **{reason: 10}) == []


def test_power_that_the_document_names_is_required() -> None:
    assert problems("0.4 → 0.68, none of the starts with shared luck", promoted=150) == [
        "promoted 0.750, at least 0.95"
    ]
    assert problems("0.97 → 0.90, 30 % faster", worse=100) == ["worse 0.500, at least 0.95"]
    assert problems("2.0% → 10.0% unsafe, no ceiling", unsafe=100) == ["unsafe 0.500, at least 0.85"]
    assert problems("0.4 → 0.68, none of the starts with shared luck", promoted=200) == []


def test_only_drift_without_blocks_and_nothing_else_has_no_limit() -> None:
    free = [row.name for row in ROWS.values() if not row.false and not row.least]
    assert free == [f"0.7 → 0.7, {drift} logits of drift, blocks of 1" for drift in ("0.5", "1")]
    assert problems(free[0], promoted=200, worse=200) == []


def test_a_line_says_whether_it_is_within_its_limit() -> None:
    assert verdict([], promises=True) == "pass"
    assert verdict([], promises=False) == "–"
    assert verdict(["worse 0.3, at most 0.05"], promises=True) == "FAIL: worse 0.3, at most 0.05"


def test_the_change_detector_has_a_verdict() -> None:
    line, found = watched(Change(), 6)
    assert line.endswith("| pass |")
    assert not found
    line, found = watched(Change(least={"found": 0.95}), 6)
    assert line.endswith("| FAIL: found 0.000, at least 0.95 |")
    assert found


def test_a_line_beyond_its_limit_fails_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    row = ROWS["0.4 → 0.68, none of the starts with shared luck"]
    wrong = [replace(row, false=frozenset({"promoted"}))]
    for rows, code in ((wrong, 1), ([row], 0)):
        monkeypatch.setattr(gate, "tables", lambda rule, rows=rows: iter(rows))
        assert gate.main(["-n", "8", "--only", "success"]) == code
        assert ("FAIL  0.4 → 0.68" in capsys.readouterr().out) == bool(code)


def test_a_campaign_that_loses_more_than_the_margin_too_often_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    assert lost_too_much([0.02] * 190 + [0.025] * 10, 0.02).rate == pytest.approx(0.05)
    plan = Losses(gates=2, loss=0.01, pairs=40)
    monkeypatch.setattr(gate_campaigns, "LOSSES", (plan,))
    for lost, kept in ((0.03, False), (0.02, True)):
        monkeypatch.setattr(gate_campaigns, "small_losses", lambda plan, draw, lost=lost: (lost, 3))
        [(_, holds)] = gate_campaigns.losses(20)[1]
        assert holds is kept


def test_small_losses_are_counted_along_the_champions() -> None:
    ends = [small_losses(Losses(gates=2, loss=loss, pairs=800), np.random.default_rng(1)) for loss in (0.0, 0.3, -0.01)]
    assert ends[0][0] == 0
    assert ends[1] == (0, 0), "a candidate that loses 30 points is not promoted"
    assert ends[2][0] == 0
    assert ends[2][1] >= 1, "one that gains a point is"


def test_every_row_is_a_row_of_a_table() -> None:
    assert all(isinstance(row, Row) for row in ROWS.values())
    assert {row.table for row in ROWS.values()} == {"success", "speed", "unsafe", "drift", "blocks"}


def test_no_false_promotion_in_few_campaigns_has_an_interval_and_shows_little() -> None:
    table, numbers = gate_campaigns.campaigns(GateRule(pairs=20), 3)
    assert len(numbers) == len(gate_campaigns.CAMPAIGNS)
    null = numbers[0]
    assert (null.value, null.low) == (0, 0)
    assert null.high == pytest.approx(1 - 0.025 ** (1 / 3))
    assert null.name.partition(": ")[2] in table
    what, kept = gate_campaigns.false_share(numbers, 0.05)
    assert kept
    assert "too few campaigns to show" in what


@pytest.mark.parametrize(
    ("low", "high", "kept", "few"), [(0.0, 0.04, True, False), (0.0, 0.3, True, True), (0.06, 0.2, False, False)]
)
def test_the_false_share_fails_where_its_interval_lies_above_the_limit(
    low: float, high: float, kept: bool, few: bool
) -> None:
    what, holds = gate_campaigns.false_share([Measured(name="x", value=high / 2, low=low, high=high)], 0.05)
    assert (holds, "too few" in what) == (kept, few)
