"""Reads the episodes that a learner may learn from out of the episode store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from enpire.errors import LearningProblem
from enpire.store.arrays import unpack
from enpire.store.episodes import FolderStore
from enpire.types import IMPORTED_STATION, SOURCE_EXPERT, SOURCE_HUMAN, Episode, EpisodeArrays

LEARNED_FROM = frozenset({"success", "failure", "unsafe"})
"""Outcomes with a verdict. Aborted, invalid and unknown episodes are not learned from. One exception: critics with
`bootstrap` learn from aborted rollouts that were stopped early."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedEpisode:
    """One episode, as a learner reads it: with a verdict, or stopped early."""

    order_id: str
    round: int
    """Round in which it was recorded."""
    success: bool
    """False also where the outcome is not known."""
    supervised: bool
    """Whether an operator was allowed to take over."""
    arrays: EpisodeArrays
    rollout_weight: float = 1.0
    """Number of rollouts that it represents: above 1 for an episode of the early-stop control arm whose failure was
    predicted, because such episodes outside the control arm were stopped."""
    imported: bool = False
    """Whether it comes from a dataset and not from a station."""
    stopped: bool = False
    """Whether it was ended for a predicted failure, so that its outcome is not known."""
    policy_id: str = ""
    """The version that acted."""
    explored: bool = False
    """Whether the version's collector acted, and not the version as it is deployed."""

    @property
    def demonstration(self) -> bool:
        """Whether the task's expert commanded every frame."""
        return bool((self.arrays.source == SOURCE_EXPERT).all())

    @property
    def touched(self) -> bool:
        """Whether an operator commanded some frame."""
        return bool((self.arrays.source == SOURCE_HUMAN).any())

    @property
    def ticks(self) -> int:
        """Number of frames."""
        return len(self.arrays.action)


def read_episodes(folders: Sequence[Path], *, stopped: bool = False) -> list[RecordedEpisode]:
    """Episodes with a verdict and at least one frame, in the order given; with `stopped` also those stopped early.

    Raises:
        LearningProblem: an episode began from a hidden start or holds numbers that are not finite, no episode is left,
            or the episodes have different widths.
        FileProblem: a folder is missing or its files do not fit.
    """
    found = [item for folder in folders if (item := read_episode(folder)) is not None]
    if not found:
        raise _nothing_judged(len(folders))
    found = found if stopped else judged(found)
    found = _with_possible_interventions(found)
    widths = {(item.arrays.state.shape[1], item.arrays.action.shape[1]) for item in found}
    if len(widths) > 1:
        raise LearningProblem(
            f"The episodes have different state and action widths, {sorted(widths)}; give episodes of one task."
        )
    return found


def judged(episodes: Sequence[RecordedEpisode]) -> list[RecordedEpisode]:
    """The episodes that were not stopped early; LearningProblem if there is none."""
    found = [item for item in episodes if not item.stopped]
    if not found:
        raise _nothing_judged(len(episodes))
    return found


def _nothing_judged(given: int) -> LearningProblem:
    return LearningProblem(
        f"None of the {given} episodes given has a verdict and frames to learn from; collect episodes first."
    )


def read_episode(folder: Path) -> RecordedEpisode | None:
    """One episode; None without frames, or if it has no verdict and was not stopped early.

    LearningProblem as in `read_episodes`.
    """
    store = FolderStore(folder.parent.parent)
    facts = store.facts(folder)
    order = facts.order
    if order.start.split != "train":
        raise LearningProblem(
            f"Episode {order.order_id} began from a {order.start.split} start; only train starts may be learned from, "
            "so leave it out."
        )
    if (facts.outcome not in LEARNED_FROM and not facts.stopped_early) or not facts.sha256:
        return None
    arrays = unpack(store.arrays_file(folder))
    if not len(arrays.action):
        return None
    if not (np.isfinite(arrays.state).all() and np.isfinite(arrays.action).all()):
        raise LearningProblem(f"Episode {order.order_id} holds numbers that are not finite; leave it out.")
    return RecordedEpisode(
        order_id=order.order_id,
        round=order.round,
        success=facts.outcome == "success",
        supervised=order.supervised,
        arrays=arrays,
        rollout_weight=rollout_weight(facts),
        imported=order.station == IMPORTED_STATION,
        stopped=facts.stopped_early,
        policy_id=facts.ran_policy_id,
        explored=facts.explored,
    )


def _with_possible_interventions(episodes: list[RecordedEpisode]) -> list[RecordedEpisode]:
    """The episodes; if an operator intervened in an imported one, all imported ones count as supervised.

    A dataset does not say in which episodes an operator was allowed to take over.
    """
    if not any(item.imported and item.touched for item in episodes):
        return episodes
    return [replace(item, supervised=item.supervised or item.imported) for item in episodes]


def rollout_weight(facts: Episode) -> float:
    """Inverse-propensity weight of an outcome: 1 over the probability that a rollout with this prediction has one.

    1 for a rollout that was stopped early, because it has no outcome.
    """
    rule = facts.order.early_stop
    flagged = rule is not None and facts.predicted_failure_at >= 0 and not facts.stopped_early
    return 1 / rule.control if rule is not None and flagged else 1.0


def stacked_states(episodes: Iterable[RecordedEpisode]) -> np.ndarray:
    """All states before a command: (frames, state_dim) float32, units of the robot."""
    return np.concatenate([item.arrays.state[:-1] for item in episodes])


def stacked_actions(episodes: Iterable[RecordedEpisode]) -> np.ndarray:
    """All commands sent: (frames, action_dim) float32, units of the robot."""
    return np.concatenate([item.arrays.action for item in episodes])
