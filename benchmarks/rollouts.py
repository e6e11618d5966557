"""A rollout loop without a fleet: one rig, many lanes, episodes into a folder store."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from enpire.ids import mint
from enpire.interfaces import Evidence, Policy, Rig, Task, Verifier
from enpire.store.arrays import pack
from enpire.store.episodes import FolderStore, Recording
from enpire.types import (
    SOURCE_EXPERT,
    SOURCE_POLICY,
    Episode,
    EpisodeArrays,
    FloatArray,
    Observation,
    Order,
    Purpose,
    Start,
    Verdict,
)


@dataclass(slots=True)
class Lane:
    """One episode under way."""

    start: Start
    states: list[FloatArray]
    actions: list[FloatArray]
    chunks: list[int]
    chunk: FloatArray
    """(horizon, action_dim), the decision being executed."""
    decision: int = -1
    sent: int = 0
    """Actions of the decision that were sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """One finished episode in memory."""

    start: Start
    verdict: Verdict
    arrays: EpisodeArrays

    @property
    def success(self) -> bool:
        """Whether the verifier said so."""
        return self.verdict.kind == "success"

    @property
    def ticks(self) -> int:
        """Commanded periods."""
        return len(self.arrays.action)


class Loop:
    """Runs a policy from a list of starts, every lane taking the next start as soon as it is free."""

    def __init__(self, task: Task, rig: Rig) -> None:
        """Use a rig of the task; it may be used by several loops one after another."""
        self.task, self.rig = task, rig
        self.verifier: Verifier = task.verifier()

    def run(self, policy: Policy, starts: Sequence[Start], source: int = SOURCE_POLICY) -> list[Rollout]:
        """One rollout per start, in the order of the starts."""
        waiting = list(enumerate(starts))[::-1]
        running: dict[int, tuple[int, Lane]] = {}
        done: dict[int, Rollout] = {}
        while waiting or running:
            for lane in range(self.rig.lanes):
                if lane not in running and waiting:
                    index, start = waiting.pop()
                    running[lane] = (index, self._begin(policy, lane, start))
            observation = self.rig.observe()
            for lane in self._finished(running, observation):
                index, episode = running.pop(lane)
                done[index] = self._judge(episode, observation.state[lane], source)
            if running:
                self._step(policy, {lane: item[1] for lane, item in running.items()}, observation)
        return [done[i] for i in range(len(starts))]

    def _begin(self, policy: Policy, lane: int, start: Start) -> Lane:
        self.rig.place(lane, start)
        policy.begin(lane, start.seed)
        return Lane(start, [], [], [], np.zeros((0, 0), np.float32), sent=policy.execute)

    def _finished(self, running: dict[int, tuple[int, Lane]], observation: Observation) -> list[int]:
        lanes = list(running)
        ticks = np.array([len(running[lane][1].actions) for lane in lanes])
        over = self.verifier.finished(observation.state[lanes], ticks) | (ticks >= self.task.spec.limit_ticks)
        return [lane for lane, ended in zip(lanes, over, strict=True) if ended]

    def _step(self, policy: Policy, lanes: dict[int, Lane], observation: Observation) -> None:
        deciding = np.array([lane for lane, item in lanes.items() if item.sent >= policy.execute], dtype=np.int64)
        if len(deciding):
            seen = Observation(stamp_ns=observation.stamp_ns, state=observation.state[deciding])
            for lane, chunk in zip(deciding, policy.act(seen, deciding), strict=True):
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
            item.chunks.append(item.decision)
            item.sent += 1

    def _judge(self, item: Lane, last: FloatArray, source: int) -> Rollout:
        arrays = EpisodeArrays(
            state=np.stack([*item.states, last]),
            action=np.stack(item.actions),
            source=np.full(len(item.actions), source, np.uint8),
            chunk=np.array(item.chunks, np.int32),
        )
        return Rollout(start=item.start, verdict=self.verifier.judge(Evidence(arrays=arrays, images={})), arrays=arrays)


def keep(store: FolderStore, rollouts: Sequence[Rollout], policy_id: str, round_: int, campaign: str) -> list[Path]:
    """Put rollouts into an episode store as the fleet would; returns their folders."""
    return store.put_many([_recording(item, policy_id, round_, campaign) for item in rollouts])


def _recording(item: Rollout, policy_id: str, round_: int, campaign: str) -> Recording:
    purpose: Purpose = "demonstrate" if item.arrays.source[0] == SOURCE_EXPERT else "collect"
    order = Order(
        order_id=mint(),
        campaign_id=campaign,
        station="benchmark",
        task="",
        policy_id=policy_id,
        start=item.start,
        purpose=purpose,
        round=round_,
    )
    data = pack(item.arrays)
    episode = Episode(
        order=order,
        outcome=item.verdict.kind,
        cause="",
        confidence=item.verdict.confidence,
        ran_policy_id=policy_id,
        ticks=item.ticks,
        began_s=0.0,
        ended_s=0.0,
        sha256=hashlib.sha256(data).hexdigest(),
    )
    return Recording(episode=episode, arrays_file=data)
