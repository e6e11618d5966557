"""Rollouts inside a learner, for regimes that try things out in a simulation of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from enpire.interfaces import Evidence, Policy, Rig, Task, Verifier
from enpire.types import EpisodeArrays, Start


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """One rollout: what the verifier said, and what was sensed and sent."""

    success: bool
    arrays: EpisodeArrays

    @property
    def ticks(self) -> int:
        """Commanded periods."""
        return len(self.arrays.action)


def rehearse(task: Task, rig: Rig, policy: Policy, starts: Sequence[Start]) -> list[Tried]:
    """One rollout per start (at most as many as the rig has lanes), all lanes in step, judged from sensors alone."""
    lanes, verifier, execute = np.arange(len(starts)), task.verifier(), policy.execute
    for lane, start in enumerate(starts):
        rig.place(lane, start)
        policy.begin(lane, start.seed)
    moving, seen = np.arange(rig.lanes) < len(starts), rig.observe()
    states, sent, length = [seen.state], [], np.zeros(rig.lanes, np.int64)
    chunk = np.zeros((rig.lanes, policy.horizon, task.spec.action_dim), np.float32)
    for tick in range(task.spec.limit_ticks):
        going = lanes[moving[lanes]]
        if not len(going):
            break
        if tick % execute == 0:
            chunk[going] = policy.act(replace(seen, state=seen.state[going]), going)
        sent.append(rig.act(chunk[:, tick % execute], moving))
        seen = rig.observe()
        states.append(seen.state)
        length[going] += 1
        moving = moving & ~verifier.finished(seen.state, length)
    every, commands = np.stack(states), np.stack(sent)
    return [_judged(verifier, _arrays(every[:, lane], commands[:, lane], int(length[lane]), execute)) for lane in lanes]


def _arrays(states: np.ndarray, sent: np.ndarray, ticks: int, execute: int) -> EpisodeArrays:
    return EpisodeArrays(
        state=states[: ticks + 1],
        action=sent[:ticks],
        source=np.zeros(ticks, np.uint8),
        chunk=(np.arange(ticks) // execute).astype(np.int32),
    )


def _judged(verifier: Verifier, arrays: EpisodeArrays) -> Tried:
    verdict = verifier.judge(Evidence(arrays=arrays, images={}))
    return Tried(success=verdict.kind == "success", arrays=arrays)
