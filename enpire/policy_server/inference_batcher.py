"""What a policy server does with questions to one version: those that fit together are answered by one call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np

from enpire.errors import PolicyProblem
from enpire.fields import Fields
from enpire.interfaces import Continues, Policy
from enpire.station.chunks import PLUGIN_ERRORS
from enpire.types import FloatArray, IntArray, Observation
from enpire.wire.rpc import Message, array_out, error_out, floats_in, observation_in

MOST_SLOTS = 4096
"""Episodes that one version has in mind."""


@dataclass(slots=True, kw_only=True)
class InferenceCall:
    """What somebody wants of a version, read and checked."""

    peer: bytes
    sequence: int
    verb: str
    policy_id: str
    client: str
    lanes: Sequence[int]
    begins: Sequence[tuple[int, int]]
    """(lane, seed)."""
    observation: Observation
    left: FloatArray | None
    delay: int

    @property
    def batch(self) -> tuple[object, ...]:
        """Questions with the same key fit into one call."""
        pictures = sorted((name, picture.shape[1:]) for name, picture in self.observation.images.items())
        return self.verb, self.policy_id, self.observation.state.shape[1:], tuple(pictures), self.delay


InferenceReply = tuple[InferenceCall, Message]


@dataclass(slots=True)
class InferenceBatcher:
    """A version in memory and the lanes that use it. Any thread, one at a time."""

    policy: Policy
    slots: dict[tuple[str, int], int] = field(default_factory=dict[tuple[str, int], int])
    """(client, lane) -> the lane under which the policy knows that episode; those that began last, last."""

    def think(self, batch: Sequence[InferenceCall]) -> list[InferenceReply]:
        """InferenceReply questions that fit together (`InferenceCall.batch`) with one call of the policy."""
        refused: list[InferenceReply] = []
        begun: list[InferenceCall] = []
        for question in batch:
            try:
                for lane, seed in question.begins:
                    self.policy.begin(self._slot(question.client, lane), seed)
                begun.append(question)
            except PLUGIN_ERRORS as problem:
                refused.append((question, _refusal(problem)))
        known: list[InferenceCall] = []
        for question in begun:
            if all((question.client, lane) in self.slots for lane in question.lanes):
                known.append(question)
            else:
                anew = PolicyProblem("the policy server was started anew during the episode")
                refused.append((question, error_out(anew)))
        return refused + (self._call(known) if known else [])

    def _call(self, batch: Sequence[InferenceCall]) -> list[InferenceReply]:
        lanes = np.asarray(
            [self.slots[question.client, lane] for question in batch for lane in question.lanes], np.int64
        )
        try:
            answer = np.asarray(_asked(self.policy, batch, lanes), np.float32)
            if len(answer) != len(lanes):
                raise PolicyProblem(f"it answered {len(answer)} rows to {len(lanes)}")
        except PLUGIN_ERRORS as problem:
            return [(question, _refusal(problem)) for question in batch]
        ends = np.cumsum([len(question.lanes) for question in batch])
        rows = np.split(answer, ends[:-1])
        return [
            (question, {"error": "", "answer": array_out(mine)}) for question, mine in zip(batch, rows, strict=True)
        ]

    def _slot(self, client: str, lane: int) -> int:
        """The lane for an episode that begins: its own, a new one, or that of the episode that began longest ago."""
        slot = self.slots.pop((client, lane), None)
        if slot is None:
            full = len(self.slots) >= MOST_SLOTS
            slot = self.slots.pop(next(iter(self.slots))) if full else len(self.slots)
        self.slots[client, lane] = slot
        return slot


def _refusal(problem: Exception) -> Message:
    return error_out(PolicyProblem(f"{type(problem).__name__}: {problem}"[:500]))


def read_call(peer: bytes, sequence: int, verb: str, policy_id: str, message: Fields) -> InferenceCall:
    """A question, read; TransportProblem for what does not fit together."""
    lanes, observation = message.wholes("lanes"), observation_in(Fields(message.get("observation"), "The observation"))
    seen = [observation.state, *observation.images.values()]
    if [item.ndim for item in seen] != [2, *[4] * len(observation.images)]:
        raise message.refuse("observation", "a state (n, state_dim) and pictures (n, height, width, 3)")
    if not lanes or len(set(lanes)) != len(lanes) or any(len(item) != len(lanes) for item in seen):
        raise message.refuse("lanes", f"{len(observation.state)} different lanes, one for each row of the observation")
    begins: list[tuple[int, int]] = []
    for item in message.items("begins"):
        pair = Fields({"begin": item}, "An episode that begins").wholes("begin")
        if len(pair) != 2:
            raise message.refuse("begins", "pairs of a lane and a seed")
        begins.append((pair[0], pair[1]))
    along = verb == "act_along"
    left = floats_in(message, "left") if along else None
    if left is not None and (left.ndim != 3 or len(left) != len(lanes)):
        raise message.refuse("left", f"({len(lanes)}, any, action_dim)")
    return InferenceCall(
        peer=peer, sequence=sequence, verb=verb, policy_id=policy_id, client=message.identifier("client"), lanes=lanes,
        begins=begins, observation=observation, left=left, delay=message.whole("delay") if along else 0,
    )  # fmt: skip


def _asked(policy: Policy, batch: Sequence[InferenceCall], lanes: IntArray) -> FloatArray:
    """One call for all the rows of a batch."""
    rows = _together([question.observation for question in batch])
    verb = batch[0].verb
    if verb == "act":
        return policy.act(rows, lanes)
    if verb == "act_along" and isinstance(policy, Continues):
        left = [cast("FloatArray", question.left) for question in batch]
        widest = max(item.shape[1] for item in left)
        padded = [
            np.pad(item, ((0, 0), (0, widest - item.shape[1]), (0, 0)), constant_values=np.nan) for item in left
        ]  # nan behind the end, as everywhere
        return policy.act_along(rows, lanes, np.concatenate(padded), batch[0].delay)
    raise PolicyProblem(f"this version has no {verb}")


def _together(observations: Sequence[Observation]) -> Observation:
    """One observation with the rows of several."""
    first = observations[0]
    images = {camera: np.concatenate([item.images[camera] for item in observations]) for camera in first.images}
    state = np.concatenate([item.state for item in observations])
    return Observation(stamp_ns=first.stamp_ns, state=state, images=images)
