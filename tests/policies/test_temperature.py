"""The next version's temperature: cooler, unless the parent's own rollouts show that less noise hurt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from policies.clone import RoundSettings
from policies.flow_policy import FlowVersion
from policies.temperature import next_temperature
from policies.training_data import RecordedEpisode
from tests.policies.recorded import driven
from tests.policies.test_flow_policy import version

SETTINGS = RoundSettings(cooling=0.7, least_temperature=0.35, collect_temperature=1.0)
PARENT = replace(version(temperature=0.5), collect_temperature=1.0)
MADE = driven(0, expert=False)


def rollouts(varied: bool, successes: int, count: int) -> Sequence[RecordedEpisode]:
    return [replace(MADE, policy_id="p", varied=varied, success=index < successes) for index in range(count)]


def following(parent: FlowVersion, deployed: Sequence[RecordedEpisode], varied: Sequence[RecordedEpisode]) -> float:
    return next_temperature(parent, "p", SETTINGS, [*deployed, *varied])


@pytest.mark.parametrize(
    ("deployed", "varied", "wanted"), [(25, 60, 0.35), (18, 60, 0.35), (8, 60, 0.5 / 0.7)]
)
def test_a_version_cools_unless_it_succeeds_less_without_the_noise(deployed: int, varied: int, wanted: float) -> None:
    found = following(PARENT, rollouts(False, deployed, 75), rollouts(True, varied, 225))
    assert found == pytest.approx(wanted)


def test_warming_stops_at_the_temperature_of_collecting() -> None:
    warm = replace(PARENT, temperature=0.9)
    assert following(warm, rollouts(False, 0, 75), rollouts(True, 60, 225)) == 1.0


def test_without_rollouts_of_both_kinds_it_cools() -> None:
    for deployed, varied in (((), ()), (rollouts(False, 0, 75), ()), ((), rollouts(True, 225, 225))):
        assert following(PARENT, deployed, varied) == pytest.approx(0.35)


def test_rollouts_of_other_versions_and_those_that_an_operator_may_have_saved_do_not_count() -> None:
    deployed, varied = rollouts(False, 0, 75), rollouts(True, 225, 225)
    for change in ({"policy_id": "q"}, {"supervised": True}, {"stopped": True}):
        assert following(PARENT, [replace(item, **change) for item in deployed], varied) == pytest.approx(0.35)


def test_a_version_that_collects_as_it_is_deployed_cools() -> None:
    for collect in (0.0, 0.5):
        same = replace(PARENT, collect_temperature=collect)
        assert following(same, rollouts(False, 0, 75), rollouts(True, 225, 225)) == pytest.approx(0.35)
