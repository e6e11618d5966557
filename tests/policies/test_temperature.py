"""The next version's temperature: cooler, unless the parent's own rollouts show that less noise hurt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from enpire.interfaces import ImprovementJob, Learner
from enpire.plugins import load
from policies import flow_policy
from policies.clone import Clone, RoundSettings
from policies.flow_policy import FlowVersion
from policies.temperature import next_temperature
from policies.training_data import RecordedEpisode
from tests.policies.habc.first_round import SIZES
from tests.policies.recorded import driven, write
from tests.policies.test_flow_policy import version

SETTINGS = RoundSettings(cooling=0.7, least_temperature=0.35, collect_temperature=1.0)
PARENT = replace(version(temperature=0.5), collect_temperature=1.0)
MADE = driven(0, expert=False)


def rollouts(explored: bool, successes: int, count: int) -> Sequence[RecordedEpisode]:
    return [replace(MADE, policy_id="p", explored=explored, success=index < successes) for index in range(count)]


def following(parent: FlowVersion, deployed: Sequence[RecordedEpisode], explored: Sequence[RecordedEpisode]) -> float:
    return next_temperature(parent, "p", SETTINGS, [*deployed, *explored])


@pytest.mark.parametrize(("deployed", "explored", "wanted"), [(25, 60, 0.35), (18, 60, 0.35), (8, 60, 0.5 / 0.7)])
def test_a_version_cools_unless_it_succeeds_less_without_the_noise(deployed: int, explored: int, wanted: float) -> None:
    found = following(PARENT, rollouts(False, deployed, 75), rollouts(True, explored, 225))
    assert found == pytest.approx(wanted)


def test_a_rollout_that_was_stopped_early_counts_as_a_failure() -> None:
    ended = [*rollouts(False, 30, 37), *(replace(item, stopped=True) for item in rollouts(False, 0, 38))]
    assert following(PARENT, ended, rollouts(True, 135, 225)) == pytest.approx(0.5 / 0.7)


def test_warming_stops_at_the_temperature_of_collecting() -> None:
    warm = replace(PARENT, temperature=0.9)
    assert following(warm, rollouts(False, 0, 75), rollouts(True, 60, 225)) == 1.0


def test_without_rollouts_of_both_kinds_it_cools() -> None:
    for deployed, explored in (((), ()), (rollouts(False, 0, 75), ()), ((), rollouts(True, 225, 225))):
        assert following(PARENT, deployed, explored) == pytest.approx(0.35)


def test_rollouts_of_other_versions_and_those_that_an_operator_may_have_saved_do_not_count() -> None:
    deployed, explored = rollouts(False, 0, 75), rollouts(True, 225, 225)
    for change in ({"policy_id": "q"}, {"supervised": True}):
        assert following(PARENT, [replace(item, **change) for item in deployed], explored) == pytest.approx(0.35)


def test_a_version_that_collects_as_it_is_deployed_cools() -> None:
    for collect in (0.0, 0.5):
        same = replace(PARENT, collect_temperature=collect)
        assert following(same, rollouts(False, 0, 75), rollouts(True, 225, 225)) == pytest.approx(0.35)


@pytest.mark.parametrize("learner", ["clone", "habc", "recap"])
def test_learners_choose_it_from_stored_rollouts_of_the_parent(learner: str, tmp_path: Path) -> None:
    shown = [write(tmp_path / "episodes", driven(seed, expert=True)) for seed in range(12)]
    base = job_of(tmp_path / "parent", recipe("clone", {"temperature": 0.5, "collect_temperature": 1.0}), shown)
    Clone().improve(base, lambda _: None)
    own = [
        write(
            tmp_path / "episodes",
            replace(
                driven(100 + seed, expert=False, round_=1), policy_id="parent", explored=seed % 2 > 0,
                success=seed % 2 > 0,
            ),
        )
        for seed in range(40)
    ]  # fmt: skip
    data = {"data": "successes"} if learner == "clone" else {}
    chosen = recipe(learner, {"cooling": 0.7, "least_temperature": 0.1, "collect_temperature": 1.0} | data)
    for name, episodes, wanted in (("warmer", [*shown, *own], 0.5 / 0.7), ("cooler", [*shown, *own[1::2]], 0.35)):
        job = replace(job_of(tmp_path / name, chosen, episodes), parent=base.output, round=1)
        cast("type[Learner]", load("learners", learner))().improve(job, lambda _: None)
        made = flow_policy.read(job.output)
        assert made.temperature == pytest.approx(wanted, abs=1e-5)
        assert made.collect_temperature == 1.0


def recipe(learner: str, settings: Mapping[str, object]) -> dict[str, object]:
    quick = {"critic_steps": 20} if learner == "habc" else {}
    return {
        "name": "test",
        "learner": learner,
        "settings": {**SIZES, "most_steps": 20, "least_steps": 20, **quick, **settings},
    }


def job_of(output: Path, chosen: dict[str, object], episodes: Sequence[Path]) -> ImprovementJob:
    return ImprovementJob(
        recipe=chosen, task="point", parent=None, episodes=episodes, work=output.with_suffix(".work"), output=output,
        round=0, seed=3,
    )  # fmt: skip
