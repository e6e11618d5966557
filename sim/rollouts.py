"""Rollouts with the simulator's ground truth, to grade experts and verifiers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from enpire.errors import UsageError
from enpire.interfaces import Policy, Rig, Task, Verifier
from enpire.offline.rollouts import Rollout, RolloutLoop
from enpire.types import Start
from sim.truth import KnowsTruth, Truth


@dataclass(frozen=True, slots=True, kw_only=True)
class GradedRollout(Rollout):
    """One finished rollout with its ground truth."""

    known_truth: Truth | None
    """Ground truth at the end; None where the rig has no `truth`."""

    @property
    def truth(self) -> Truth:
        """Ground truth at the end.

        Raises:
            UsageError: the rig has no `truth`.
        """
        if self.known_truth is None:
            raise UsageError("This rig knows no truth, so its rollouts cannot be graded; give it `truth(lane)`.")
        return self.known_truth


def roll_out(
    task: Task, rig: Rig, policy: Policy, starts: Sequence[Start], verifier: Verifier | None = None
) -> list[GradedRollout]:
    """Roll out once from each start, start k in lane k, until the verifier calls it finished or the time limit.

    Args:
        task: whose time limit applies.
        rig: with at least as many lanes as there are starts; its lanes stay as the rollouts left them.
        policy: decides for all lanes.
        starts: one for each of the first lanes.
        verifier: ends and judges the rollouts; the task's own when None.

    Raises:
        UsageError: there are more starts than lanes.
    """
    if len(starts) > rig.lanes:
        raise UsageError(f"{len(starts)} starts need as many lanes, and this rig has {rig.lanes}; give it more lanes.")
    return [
        GradedRollout(
            start=done.start,
            arrays=done.arrays,
            verdict=done.verdict,
            images=done.images,
            known_truth=rig.truth(lane) if isinstance(rig, KnowsTruth) else None,
        )
        for lane, done in enumerate(RolloutLoop(task, rig, verifier).run(policy, starts))
    ]
