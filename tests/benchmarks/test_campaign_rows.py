"""Tables of whole campaigns show exact bounds, more than utilisation, and intervals clustered by seed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from benchmarks import branches, chunks, demo, early_stop, unattended
from benchmarks.branches import Run
from benchmarks.campaign_rows import ROBOTS, confirmed, of_all, robots
from benchmarks.chunks import ArmResult
from benchmarks.early_stop import Run as EarlyStopRun
from benchmarks.intervals import LEAST_SEEDS, rate_by_seed
from benchmarks.tuning_seeds import CAMPAIGNS, EARLY_STOP, UNATTENDED, Tuning, listed, verdict
from benchmarks.unattended import Progress
from enpire.gate.intervals import lower_bound, wilson


def view(successes: int = 398, n: int = 400, **more: Any) -> dict[str, Any]:
    confirm = {
        "successes": successes, "n": n, "success": successes / n, "low": 0.9, "high": 1.0, "median": 39,
        "bound": lower_bound(successes, n),
    }  # fmt: skip
    base = {"successes": 60, "n": 200, "success": 0.3, "low": 0.24, "high": 0.37}
    return {
        "state": "reached", "confirm": confirm, "base": base, "gates": [], "rounds": [{}], "episodes": {"total": 900},
        "mru": 0.958, "motion": 0.912, "real_time_factor": 41.26, "rollouts_used": {"used": 8, "n": 10, "share": 0.8},
        "time_to_goal_s": 80.0, "robot_h_to_goal": 1.5, "robot_h": 1.6, "wall_s": 90.0, "early_stops": None, **more,
    }  # fmt: skip


def rows(of: dict[str, Any]) -> list[str]:
    return [
        demo.Result(seed=440, view=of, seconds=90.0, recomputed=True).line(),
        Run(variant="best_regime", seed=1, view=of, core=0.05, whole_core=0.1, per_s=50.0, equal=True).line(),
        EarlyStopRun(seed=450, below=0.05, view=of).line(),
    ]


def test_every_row_shows_the_bound_and_what_robots_did() -> None:
    for line in rows(view()):
        assert "398 of 400, at least 98.4%" in line
        assert [part for part in ("95.8%", "91.2%", "41.3", "80.0%") if part not in line] == []


def test_a_row_of_branches_shows_what_an_episode_costs_the_orchestrator() -> None:
    assert "5.0% (10.0%)   50/s of 1.00 ms  equal" in rows(view())[1]


def test_rows_of_a_campaign_without_these_numbers_have_a_dash() -> None:
    bare = view(confirm=None, motion=None, real_time_factor=None, rollouts_used={"used": 0, "n": 0, "share": None})
    assert confirmed(bare) == "-"
    assert robots(bare).split() == ["95.8%", "-", "-", "-"]
    assert len(robots(bare)) == len(robots(view())) == len(ROBOTS)
    assert [line.split(" over")[0] for line in of_all([bare])] == ["robot utilisation"]


def test_intervals_over_seeds_are_wider_than_those_over_all_starts() -> None:
    counts = (400, 400, 400, 400, 300)
    first, *_ = of_all([view(one) for one in counts])
    clustered, plain = rate_by_seed(counts, (400,) * 5), wilson(sum(counts), 2000)
    assert clustered.low < plain.low - 0.05
    assert first == f"confirmed success over seeds: 95.0% [{clustered.low:.1%}, {clustered.high:.1%}], 5 seeds"
    assert of_all([view()])[0] == "confirmed success over seeds: 99.5%, 1 seed"
    lines = of_all([view(), view(mru=0.9)])
    assert [line for line in lines if line.startswith("robot utilisation over seeds: 92.9% [")]
    assert "real-time factor over seeds: 41.3 [41.3, 41.3], 2 seeds" in lines


def test_the_head_says_how_settings_were_chosen_and_which_seeds_are_fresh() -> None:
    found = Tuning(how="sizes were chosen by hand", seeds=frozenset({*range(6), 9}), published=frozenset({7}))
    assert found.line([3, 7, 8]) == (
        "settings  sizes were chosen by hand (tuning seeds 0 to 5, 9); seeds 8 are fresh; "
        "seeds 7 are NOT fresh: their results were published before; "
        "seeds 3 are NOT fresh: settings were chosen on them"
    )
    assert listed([5, 3, 4, 1]) == "1, 3, 4, 5"
    for tuning, seeds in ((CAMPAIGNS["pin_insertion"], demo.FRESH), (EARLY_STOP, early_stop.FRESH), (UNATTENDED, [1])):
        assert "NOT fresh" not in tuning.line(seeds)


def test_default_seeds_of_claims_are_fresh_and_enough() -> None:
    for seeds, tunings in (
        (demo.FRESH, [CAMPAIGNS["pin_insertion"]]), (early_stop.FRESH, [EARLY_STOP]),
        (branches.FRESH, CAMPAIGNS.values()),
    ):  # fmt: skip
        assert len(seeds) == LEAST_SEEDS
        assert not any((one.seeds | one.published) & set(seeds) for one in tunings)
    assert len(chunks.FRESH) == LEAST_SEEDS


@pytest.mark.parametrize(("kept", "seeds", "word"), [(False, 9, "missed"), (True, 4, "too few"), (True, 5, "kept")])
def test_a_verdict_on_few_seeds_claims_nothing(kept: bool, seeds: int, word: str) -> None:
    assert word in verdict(kept, seeds).split("; ")[0]


def arm(successes: int, idle: float) -> ArmResult:
    """Ten episodes of 10 periods of 0.1 s, of which the robot does not move in a share `idle`."""
    took = 1.0 / (1 - idle)
    episodes = [
        SimpleNamespace(outcome="success" if k < successes else "failure", ticks=10, began_s=0.0, ended_s=took)
        for k in range(10)
    ]
    return ArmResult(cast("Any", episodes), 1.0, 0, 1.0)


def arms(waiting: float, overlapped: float, along: float) -> dict[str, ArmResult]:
    return {
        "no delay": arm(9, 0.0), "robots wait": arm(9, waiting), "overlapped": arm(9, overlapped),
        "overlapped, goes along": arm(9, along),
    }  # fmt: skip


def test_idle_time_is_judged_over_five_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    found = [arms(0.4, 0.04, 0.08)] * 4
    left = chunks.left_idle(found, 0.1)
    assert left.mean == pytest.approx(0.2)
    assert chunks.verdict(left, len(found)) == 0
    assert "PASS" not in capsys.readouterr().out
    assert chunks.verdict(left, 5) == 0
    assert "PASS  idle time" in capsys.readouterr().out
    assert chunks.verdict(chunks.left_idle([arms(0.4, 0.04, 0.12)] * 5, 0.1), 5) == 1
    row = chunks.line("overlapped", [arm(10, 0.1), arm(4, 0.2)], 0.1)
    wide = rate_by_seed([10, 4], [10, 10])
    assert f"70.0% [{wide.low:.1%}, {wide.high:.1%}] of 20" in row
    assert "still 15.0% [" in row


def test_unattended_success_is_clustered_by_seed() -> None:
    def end(success: int, failure: int) -> Progress:
        outcomes = {"success": success, "failure": failure, "aborted": 3}
        return Progress(hours=1.0, outcomes=outcomes, causes={}, alarms=0, calls={})

    rate = rate_by_seed([90, 40], [100, 100])
    low, high = 100 * rate.low, 100 * rate.high
    assert unattended.success([end(90, 10), end(40, 60)]) == f"success 130/200 = 65.0 % ({low:.1f} to {high:.1f})"
    assert unattended.success([end(0, 0)]) == "success: no episode has a verdict"
    assert end(1, 1).kept
    assert not Progress(hours=1.0, outcomes={"open": 1}, causes={}, alarms=0, calls={}).kept
    assert not Progress(hours=1.0, outcomes={"unsafe": 1}, causes={}, alarms=0, calls={}).kept
