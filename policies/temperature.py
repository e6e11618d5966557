"""The sampling temperature of the next version: how much noise it acts with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from policies.flow_policy import FlowVersion
from policies.training_data import RecordedEpisode


class CoolingSettings(Protocol):
    """The settings that `next_temperature` reads."""

    @property
    def cooling(self) -> float:
        """Factor on the temperature in each round."""
        ...

    @property
    def least_temperature(self) -> float:
        """Cooling stops here."""
        ...


def next_temperature(
    parent: FlowVersion, policy_id: str, settings: CoolingSettings, rollouts: Sequence[RecordedEpisode]
) -> float:
    """The temperature of a version that is trained from a parent: one step cooler, or warmer if less noise hurt.

    Noise spoils the commands of a good version, and frees a poor one where it is stuck. If the parent collects data
    with more noise than it is deployed with, its rollouts show which holds: the next version is warmer if those
    without that noise succeeded less often than the others, by more than one standard error. A rollout that was stopped
    early counts as a failure.

    Args:
        parent: the version.
        policy_id: its id, or the name of its folder.
        settings: of the recipe.
        rollouts: of any versions.
    """
    cooled = max(min(settings.least_temperature, parent.temperature), parent.temperature * settings.cooling)
    if parent.collect_temperature <= parent.temperature or not settings.cooling:
        return cooled
    own = [item for item in rollouts if item.policy_id == policy_id and not item.supervised]
    deployed, explored = ([item.success for item in own if item.explored == wanted] for wanted in (False, True))
    if not deployed or not explored or not _succeeds_less(deployed, explored):
        return cooled
    return min(parent.collect_temperature, parent.temperature / settings.cooling)


def _succeeds_less(first: Sequence[bool], second: Sequence[bool]) -> bool:
    """Whether the first rollouts succeed less often than the second, by more than one standard error."""
    rates = [(sum(each) + 1) / (len(each) + 2) for each in (first, second)]
    variance = sum(p * (1 - p) / len(each) for p, each in zip(rates, (first, second), strict=True))
    return rates[1] - rates[0] > variance**0.5
