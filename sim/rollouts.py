"""Rollouts without a station, to grade experts and verifiers: one rig, one policy, all lanes in step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np

from enpire.errors import UsageError
from enpire.interfaces import Evidence, Policy, Rig, Task, Verifier
from enpire.types import EpisodeArrays, ImageArray, Start, Verdict
from sim.truth import KnowsTruth, Truth


@runtime_checkable
class GradedRig(Rig, Protocol):
    """A simulated rig, which knows the truth."""

    def truth(self, lane: int) -> Truth:
        """Ground truth of one lane."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Rolled:
    """What came of one rollout."""

    start: Start
    arrays: EpisodeArrays
    verdict: Verdict
    graded: Truth | None
    """What the simulator knows; None where the rig is no simulation."""
    images: Mapping[str, ImageArray] = field(default_factory=dict[str, ImageArray])
    """camera -> picture at the end, as the verdict was given; empty unless the verifier looks at pictures."""

    @property
    def truth(self) -> Truth:
        """What the simulator knows; UsageError where the rig has no `truth`."""
        if self.graded is None:
            raise UsageError("This rig knows no truth, so its rollouts cannot be graded; give it `truth(lane)`.")
        return self.graded

    @property
    def ticks(self) -> int:
        """Commanded periods."""
        return len(self.arrays.action)


def roll_out(
    task: Task, rig: Rig, policy: Policy, starts: Sequence[Start], verifier: Verifier | None = None
) -> list[Rolled]:
    """One rollout in each of the first lanes, until the verifier calls it finished or the limit is reached."""
    count, limit, verifier = len(starts), task.spec.limit_ticks, verifier or task.verifier()
    for lane, start in enumerate(starts):
        rig.place(lane, start)
        policy.begin(lane, start.seed)
    moving = np.arange(rig.lanes) < count
    ended = np.full(rig.lanes, limit)
    state = rig.observe().state
    states, sent = [state], []
    chunk = np.zeros((rig.lanes, policy.horizon, task.spec.action_dim), dtype=np.float32)
    for tick in range(limit):
        if tick % policy.execute == 0:
            lanes = np.flatnonzero(moving)
            seen = rig.observe()
            chunk[lanes] = policy.act(type(seen)(stamp_ns=seen.stamp_ns, state=seen.state[lanes]), lanes)
        sent.append(rig.act(chunk[:, tick % policy.execute], moving))
        state = rig.observe().state
        states.append(state)
        done = moving & verifier.finished(state, np.full(rig.lanes, tick + 1))
        ended[done] = tick + 1
        moving &= ~done
        if not moving.any():
            break
    seen_all, sent_all = np.stack(states), np.stack(sent)
    arrays = [
        EpisodeArrays(
            state=seen_all[: ended[lane] + 1, lane],
            action=sent_all[: ended[lane], lane],
            source=np.zeros(ended[lane], dtype=np.uint8),
            chunk=np.arange(ended[lane], dtype=np.int32) // policy.execute,
        )
        for lane in range(count)
    ]
    images = [rig.look(lane) if verifier.needs_images else {} for lane in range(count)]
    return [
        Rolled(
            start=start,
            arrays=arrays[lane],
            verdict=verifier.judge(Evidence(arrays=arrays[lane], images=images[lane])),
            graded=rig.truth(lane) if isinstance(rig, KnowsTruth) else None,
            images=images[lane],
        )
        for lane, start in enumerate(starts)
    ]
