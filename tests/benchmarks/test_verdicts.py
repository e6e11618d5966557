"""A run that missed its goal counts as a miss in the verdicts of the benchmarks of whole campaigns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from benchmarks import demo, scale, search
from benchmarks.branches import PROMISED_S, Run, curve, goals_of_all, more_stations, promises
from benchmarks.demo import Result, numbers
from benchmarks.fake_stations import Delays, Load
from benchmarks.fleet import Row
from benchmarks.intervals import LEAST_SEEDS
from benchmarks.measured import Measured, read, report
from benchmarks.tuning_seeds import SEARCH, machine_verdict, verdict
from enpire.campaign.campaign import read_campaign

ONE, EIGHT = "blind_insertion, 1 x 4 robots", "blind_insertion, 8 x 4 robots"


def run(variant: str, hours: float, *, reached: bool = True) -> Run:
    view = {
        "state": "reached" if reached else "ended", "robot_h": 2 * hours if reached else hours, "mru": 0.99,
        "robot_h_to_goal": hours if reached else None, "time_to_goal_s": 100.0 if reached else None,
        "confirm": None, "motion": 0.9, "real_time_factor": 40.0, "rollouts_used": {"used": 9, "n": 10, "share": 0.9},
    }  # fmt: skip
    return Run(variant=variant, seed=0, view=view, core=0.05, whole_core=0.05, per_s=50.0, equal=True)


def verdicts(one: list[Run], eight: list[Run]) -> list[bool]:
    return [holds for _, holds in more_stations("blind_insertion", {ONE: one, EIGHT: eight})]


def test_eight_stations_that_miss_the_goal_fail() -> None:
    one = [run(ONE, 1.0), run(ONE, 1.0)]
    assert verdicts(one, [run(EIGHT, 1.1), run(EIGHT, 1.1)]) == [True]
    assert verdicts(one, [run(EIGHT, 1.3), run(EIGHT, 1.3)]) == [False]
    assert verdicts(one, [run(EIGHT, 0.1), run(EIGHT, 0.1, reached=False)]) == [False]
    assert verdicts(one, [run(EIGHT, 0.1, reached=False)] * 2) == [False], "none reached it: no result is no success"


def test_a_single_station_that_missed_the_goal_counts_with_the_hours_that_it_used() -> None:
    assert verdicts([run(ONE, 1.0, reached=False)], [run(EIGHT, 1.3)]) == [False]
    assert verdicts([run(ONE, 1.0, reached=False)], [run(EIGHT, 1.1)]) == [True]
    assert more_stations("blind_insertion", {"blind_insertion": [run("blind_insertion", 1.0)]}) == []


def test_the_table_counts_missed_goals_and_the_curve_never_reaches_them() -> None:
    made = {ONE: [run(ONE, 1.0), run(ONE, 2.0, reached=False)]}
    line, *_ = goals_of_all("blind_insertion", made)
    assert "goal reached in 1 of 2 runs; at least 1.50 robot-hours" in line
    assert curve(made, [0.5, 1.0, 4.0]).splitlines()[1].split()[-3:] == ["0%", "50%", "50%"]


@pytest.mark.parametrize("name", ["best_regime", "blind_insertion", "fragile_insertion"])
def test_a_missed_goal_of_a_shipped_campaign_is_a_miss(name: str) -> None:
    campaign = read_campaign(name)
    assert campaign.branches.recipes
    assert campaign.budget.wall_s >= PROMISED_S[name]
    assert all(holds for _, holds in promises(name, [run("x", 1.0)]))
    assert promises(name, [run("x", 1.0), run("x", 1.0, reached=False)])[0][1] is False
    late = replace(run("x", 1.0), view={**run("x", 1.0).view, "time_to_goal_s": PROMISED_S[name] + 1})
    assert promises(name, [late])[0][1] is False


def confirmed(success: float, bound: float) -> Mapping[str, Any]:
    return {"n": 400, "success": success, "low": bound, "high": 1.0, "bound": bound}


def result(
    confirm: Mapping[str, Any] | None, seconds: float = 90.0, left: tuple[str, ...] = (), decision: str = "promote"
) -> Result:
    rounds = [{"gate": None}, {"gate": {"decision": decision}}]
    view = {"confirm": confirm, "base": {"success": 0.3}, "mru": 0.95, "rounds": rounds}
    return Result(seed=1, view=view, seconds=seconds, recomputed=True, left=left)


@pytest.mark.parametrize(
    ("confirm", "counts"),
    [
        (confirmed(0.99, 0.975), True), (confirmed(0.9875, 0.975), False), (confirmed(0.995, 0.974), False),
        ({**confirmed(1.0, 0.99), "n": 300}, False), (None, False),
    ],
)  # fmt: skip
def test_a_seed_of_the_demo_is_confirmed_by_both_numbers(confirm: Mapping[str, Any] | None, counts: bool) -> None:
    missed = [what for what, holds in demo.promises([result(confirmed(1.0, 0.99)), result(confirm)]) if not holds]
    assert (missed == []) is counts
    assert all(what.startswith("champion confirmed on 400 fresh starts") for what in missed)


def test_a_demo_whose_rounds_promoted_nothing_is_a_miss() -> None:
    [missed] = [one for one, holds in demo.promises([result(confirmed(1.0, 0.99), decision="hold")]) if not holds]
    assert missed.startswith("policy improved by its rounds")


def test_the_times_of_the_demo_are_the_median_and_the_slowest_seed() -> None:
    good = confirmed(1.0, 0.99)
    median, worst, *_ = numbers([result(good, 90.0), result(good, 99.0), result(good, 201.0)])
    assert (median.value, median.kept) == (99.0, True)
    assert (worst.value, worst.kept) == (201.0, False)


def test_a_process_that_outlives_the_demo_is_a_miss() -> None:
    good = confirmed(1.0, 0.99)
    assert all(holds for _, holds in demo.promises([result(good)]))
    missed = [what for what, holds in demo.promises([result(good, left=("python station",))]) if not holds]
    assert missed == ["no process outlives the command"]


def test_a_number_that_is_none_keeps_no_promise(capsys: pytest.CaptureFixture[str]) -> None:
    assert not Measured(name="x", value=float("nan"), most=1.0).kept
    assert not Measured(name="x", value=float("-inf"), most=1.0).kept
    assert Measured(name="x", value=float("nan")).kept, "without a limit it promises nothing"
    assert report([Measured(name="x", value=0.5, least=0.6)]) == 1
    assert report([], [("it holds", False)]) == 1
    assert "FAIL  it holds" in capsys.readouterr().out


def test_an_orchestrator_that_answers_no_message_misses_its_promise() -> None:
    row = Row(
        load=Load(stations=1000, seconds=20.0), mru=1.0, core=0.1, episodes_per_s=1.0, delays=Delays(),
        memory_mb=(100.0, 100.0, 100.0), images_mb_per_s=0.0, pid=1,
    )  # fmt: skip
    missed = [number.name for number in scale.numbers(row) if not number.kept]
    assert missed == ["1000 stations: message p99"]
    row.delays.heartbeat.append(0.1)
    assert all(number.kept for number in scale.numbers(row))


def test_numbers_are_kept_for_the_overview(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "kept.jsonl"
    monkeypatch.setenv("ENPIRE_MEASURED", str(file))
    first, second = Measured(name="a", value=1.0, low=0.5, high=2.0), Measured(name="b", value=2.0, most=1.0, by="peer")
    assert (report([first]), report([second])) == (0, 1)
    assert read(file) == [first, second]
    assert read(tmp_path / "none") == []


def test_a_benchmark_of_one_machine_is_judged_on_its_repetitions() -> None:
    assert machine_verdict(True, 5) == "verdict: every promise is kept on this machine, over 5 repetitions"
    assert "too few repetitions for a claim (4 of at least 5)" in machine_verdict(True, 4)
    assert machine_verdict(False, 9) == verdict(False, 9)


def test_the_search_says_that_its_former_seeds_are_not_fresh() -> None:
    assert len(search.FRESH) == LEAST_SEEDS
    assert "NOT fresh" not in SEARCH.line(search.FRESH)
    assert "seeds 0, 1 are NOT fresh: settings were chosen on them" in SEARCH.line([0, 1])
