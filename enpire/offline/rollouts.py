"""Rollouts without a station: one rig, one policy, all lanes in step. It feeds camera images to policies that use them.

`enpire gate`, the grading of verifiers, learners that search in simulation, and the benchmarks all use this loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from enpire.interfaces import Evidence, Policy, Rig, Task, Verifier
from enpire.policy_calls import with_images
from enpire.types import (
    SOURCE_POLICY,
    EpisodeArrays,
    FloatArray,
    ImageArray,
    IntArray,
    MaskArray,
    Observation,
    Start,
    Verdict,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """One finished rollout."""

    start: Start
    arrays: EpisodeArrays
    verdict: Verdict
    images: Mapping[str, ImageArray] = field(default_factory=dict[str, ImageArray])
    """camera -> image (height, width, 3) uint8 at the end; empty unless the verifier needs images."""
    supervised: bool = False
    """Whether an operator was allowed to take over."""
    explored: bool = False
    """Whether the version's collector acted."""

    @property
    def success(self) -> bool:
        """Whether the verifier called it a success."""
        return self.verdict.kind == "success"

    @property
    def ticks(self) -> int:
        """Control periods that were commanded."""
        return len(self.arrays.action)


@dataclass(slots=True, kw_only=True)
class RunningRollout:
    """One rollout under way."""

    lane: int
    start: Start
    sent: int
    """Actions of the current chunk that were sent."""
    chunk: FloatArray = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    """(horizon, action_dim) float32: the chunk that is being executed, in the units of the task's actions."""
    decision: int = -1
    """Number of the current chunk, from 0."""
    states: list[FloatArray] = field(default_factory=list[FloatArray])
    """(state_dim,) float32 before each action."""
    actions: list[FloatArray] = field(default_factory=list[FloatArray])
    """(action_dim,) float32 as sent, after limits."""
    decisions: list[int] = field(default_factory=list[int])
    """For each action, the chunk that it belongs to."""


class RolloutLoop:
    """Runs a policy from a list of starts. A lane takes the next start as soon as its rollout has ended.

    With at most as many starts as the rig has lanes, start k runs in lane k, and lane k stays as its rollout left it.
    """

    def __init__(self, task: Task, rig: Rig, verifier: Verifier | None = None) -> None:
        """Roll out on a rig of the task; several loops may use the rig one after another.

        Args:
            task: gives the time limit and the dimensions.
            rig: stays open.
            verifier: ends and judges the rollouts; the task's own when None.
        """
        self.task, self.rig = task, rig
        self.verifier: Verifier = verifier or task.verifier()

    def run(self, policy: Policy, starts: Sequence[Start], source: int = SOURCE_POLICY) -> list[Rollout]:
        """Roll out once from each start; the rollouts come in the order of the starts.

        Args:
            policy: gets one observation row for each lane that needs a new chunk, with images where it needs them.
            starts: any number.
            source: SOURCE_ code of the recorded frames.

        Raises:
            EnpireError: the rig, the policy or the verifier failed.
        """
        waiting = list(enumerate(starts))[::-1]
        running: dict[int, tuple[int, RunningRollout]] = {}
        done: dict[int, Rollout] = {}
        while waiting or running:
            for lane in range(self.rig.lanes):
                if lane not in running and waiting:
                    index, start = waiting.pop()
                    running[lane] = (index, self._begin(policy, lane, start))
            observation = self.rig.observe()
            for lane in self._finished(running, observation):
                index, rollout = running.pop(lane)
                done[index] = self._judge(rollout, observation.state[lane], source)
            if running:
                self._step(policy, {lane: item for lane, (_, item) in running.items()}, observation)
        return [done[index] for index in range(len(starts))]

    def _begin(self, policy: Policy, lane: int, start: Start) -> RunningRollout:
        self.rig.place(lane, start)
        policy.begin(lane, start.seed)
        return RunningRollout(lane=lane, start=start, sent=policy.execute)

    def _finished(self, running: Mapping[int, tuple[int, RunningRollout]], observation: Observation) -> list[int]:
        """Lanes that the verifier calls finished, or that have reached the time limit; at least one action each."""
        ticks: IntArray = np.array([len(item.actions) for _, item in running.values()], np.int64)
        ended: MaskArray = self.verifier.finished(observation.state[list(running)], ticks) & (ticks > 0)
        ended |= ticks >= self.task.spec.limit_ticks
        return [lane for lane, over in zip(running, ended, strict=True) if over]

    def _step(self, policy: Policy, lanes: Mapping[int, RunningRollout], observation: Observation) -> None:
        """Get new chunks where the old ones are used up, and command one period."""
        due = np.array([lane for lane, item in lanes.items() if item.sent >= policy.execute], np.int64)
        if len(due):
            rows = with_images(policy, observation, due, self.rig.look)
            for lane, chunk in zip(due, policy.act(rows, due), strict=True):
                item = lanes[int(lane)]
                item.chunk, item.sent, item.decision = chunk, 0, item.decision + 1
        action = np.zeros((self.rig.lanes, self.task.spec.action_dim), np.float32)
        moving = np.zeros(self.rig.lanes, np.bool_)
        for lane, item in lanes.items():
            action[lane], moving[lane] = item.chunk[item.sent], True
        sent = self.rig.act(action, moving)
        for lane, item in lanes.items():
            item.states.append(observation.state[lane].copy())
            item.actions.append(sent[lane].copy())
            item.decisions.append(item.decision)
            item.sent += 1

    def _judge(self, item: RunningRollout, last: FloatArray, source: int) -> Rollout:
        """Judge a rollout that has ended in the state `last` (state_dim,)."""
        arrays = EpisodeArrays(
            state=np.stack([*item.states, last]),
            action=np.stack(item.actions),
            source=np.full(len(item.actions), source, np.uint8),
            chunk=np.array(item.decisions, np.int32),
        )
        images = self.rig.look(item.lane) if self.verifier.needs_images else dict[str, ImageArray]()
        verdict = self.verifier.judge(Evidence(arrays=arrays, images=images))
        return Rollout(start=item.start, arrays=arrays, verdict=verdict, images=images)
