"""The rollout loop with a simulated operator, who may take over in supervised episodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from enpire.interfaces import Policy, Rig, Task
from enpire.interventions import OPERATORS, Intervener
from enpire.offline.rollouts import Rollout, RolloutLoop, RunningRollout
from enpire.policy_calls import LoadedPolicy
from enpire.types import SOURCE_HUMAN, SOURCE_POLICY, Observation, Order, Start


class SupervisedLoop(RolloutLoop):
    """Whether an episode is supervised is drawn before it begins, from the start alone."""

    def __init__(self, task: Task, rig: Rig, seed: int, share: float) -> None:
        """`share` of the episodes is supervised, in [0, 1]."""
        super().__init__(task, rig)
        self._share, self._seed = share, seed
        self._operator: Intervener | None = None
        self._held: dict[int, list[bool]] = {}
        """id of a supervised episode under way -> for every command, whether the operator gave it."""

    def run(self, policy: Policy, starts: Sequence[Start], source: int = SOURCE_POLICY) -> list[Rollout]:
        """As `RolloutLoop.run`; frames that the operator commanded have the source of a human."""
        if self._share and source == SOURCE_POLICY and self._operator is None:
            opened = OPERATORS.load("simulated")
            self._operator = opened(self.task, self.rig, self._seed, {})
        return super().run(policy, starts, source)

    def _begin(self, policy: Policy, lane: int, start: Start) -> RunningRollout:
        begun = super()._begin(policy, lane, start)
        drawn = np.random.default_rng((start.seed, 41)).random()
        if self._operator is not None and drawn < self._share:
            order = Order(
                order_id="", campaign_id="", station="benchmark", task=self.task.spec.name, policy_id="",
                start=start, purpose="collect", round=0, supervised=True,
            )  # fmt: skip
            self._operator.begin(lane, order, LoadedPolicy(policy_id="", policy=policy, source=SOURCE_POLICY))
            self._held[id(begun)] = []
        return begun

    def _step(self, policy: Policy, lanes: Mapping[int, RunningRollout], observation: Observation) -> None:
        supervised = np.array([lane for lane, item in lanes.items() if id(item) in self._held], np.int64)
        held = np.zeros(0, np.int64)
        if self._operator is not None and len(supervised):
            ticks = np.array([len(lanes[int(lane)].actions) for lane in supervised], np.int64)
            holds = self._operator.watch(observation, supervised, ticks)
            held = supervised[holds]
            for lane, now in zip(supervised, holds, strict=True):
                self._held[id(lanes[int(lane)])].append(bool(now))
        if self._operator is not None and len(held):
            for lane, command in zip(held, self._operator.act(observation, held), strict=True):
                # A decision of one command, used up at once: the policy decides anew when it gets the robot back.
                item = lanes[int(lane)]
                item.chunk = np.repeat(command[None], policy.execute, axis=0)
                item.sent = policy.execute - 1
        super()._step(policy, lanes, observation)

    def _judge(self, item: RunningRollout, last: np.ndarray, source: int) -> Rollout:
        done = super()._judge(item, last, source)
        if id(item) not in self._held:
            return done
        sources = np.where(self._held.pop(id(item)), SOURCE_HUMAN, source).astype(np.uint8)
        return replace(done, supervised=True, arrays=replace(done.arrays, source=sources))
