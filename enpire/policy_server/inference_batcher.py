"""Batched inference of one version at a policy server: calls that fit together run as one call of the policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from enpire.errors import PolicyProblem
from enpire.field_reader import Fields
from enpire.interfaces import ContinuesChunks, Policy
from enpire.policy_calls import PLUGIN_ERRORS
from enpire.types import FloatArray, IntArray, Observation
from enpire.wire.rpc import Message, array_out, error_out, floats_in, observation_in
from enpire.wire.server_socket import Peer

MOST_SLOTS = 4096
"""Most episodes that one version keeps state for."""


@dataclass(slots=True, kw_only=True)
class InferenceCall:
    """One call of a station for inference of a version, read and checked."""

    peer: Peer
    sequence: int
    method: str
    """`act` or `act_along`."""
    policy_id: str
    client: str
    lanes: Sequence[int]
    begins: Sequence[tuple[int, int]]
    """(lane, seed) of episodes that begin with this call."""
    observation: Observation
    left: FloatArray | None
    """float32 (lanes, any, action_dim), rest of the present chunks for `act_along`; nan behind their ends."""
    delay: int
    """Commands that are sent before the answer is used, for `act_along`."""
    collects: bool
    """Whether the episodes only collect data, so that the version's collector acts."""

    @property
    def batch(self) -> tuple[object, ...]:
        """Calls with the same key fit into one batch."""
        pictures = sorted((name, picture.shape[1:]) for name, picture in self.observation.images.items())
        return self.method, self.policy_id, self.observation.state.shape[1:], tuple(pictures), self.delay, self.collects


InferenceReply = tuple[InferenceCall, Message]


@dataclass(slots=True)
class InferenceBatcher:
    """A version in memory and the lanes that use it. Any thread, one call at a time."""

    policy: Policy
    collector: Policy | None = None
    """Collects data for the policy, if it is another one."""
    slots: dict[tuple[str, int], int] = field(default_factory=dict[tuple[str, int], int])
    """(client, lane) -> lane of the policy for that episode, in the order in which the episodes began."""

    def infer(self, batch: Sequence[InferenceCall]) -> list[InferenceReply]:
        """Run calls that fit together (`InferenceCall.batch`) as one call of the policy; returns all replies."""
        refused: list[InferenceReply] = []
        begun: list[InferenceCall] = []
        policy = self.collector if batch[0].collects and self.collector else self.policy
        for call in batch:
            try:
                for lane, seed in call.begins:
                    policy.begin(self._slot(call.client, lane), seed)
                begun.append(call)
            except PLUGIN_ERRORS as problem:
                refused.append((call, _refusal(problem)))
        known: list[InferenceCall] = []
        for call in begun:
            if all((call.client, lane) in self.slots for lane in call.lanes):
                known.append(call)
            else:
                anew = PolicyProblem("the policy server was restarted during the episode")
                refused.append((call, error_out(anew)))
        return refused + (self._call(policy, known) if known else [])

    def _call(self, policy: Policy, batch: Sequence[InferenceCall]) -> list[InferenceReply]:
        lanes = np.asarray([self.slots[call.client, lane] for call in batch for lane in call.lanes], np.int64)
        try:
            answer = np.asarray(_run(policy, batch, lanes), np.float32)
            if len(answer) != len(lanes):
                raise PolicyProblem(f"it returned {len(answer)} rows for {len(lanes)} lanes")
        except PLUGIN_ERRORS as problem:
            return [(call, _refusal(problem)) for call in batch]
        ends = np.cumsum([len(call.lanes) for call in batch])
        rows = np.split(answer, ends[:-1])
        return [(call, {"error": "", "answer": array_out(mine)}) for call, mine in zip(batch, rows, strict=True)]

    def _slot(self, client: str, lane: int) -> int:
        """The policy's lane for an episode that begins: its own, a new one, or that of the oldest episode."""
        slot = self.slots.pop((client, lane), None)
        if slot is None:
            full = len(self.slots) >= MOST_SLOTS
            slot = self.slots.pop(next(iter(self.slots))) if full else len(self.slots)
        self.slots[client, lane] = slot
        return slot


def _refusal(problem: Exception) -> Message:
    return error_out(PolicyProblem(f"{type(problem).__name__}: {problem}"[:500]))


def read_call(peer: Peer, sequence: int, method: str, policy_id: str, message: Fields) -> InferenceCall:
    """Read a call.

    Raises:
        TransportProblem: a field is missing or wrong, or the fields do not fit together.
    """
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
    along = method == "act_along"
    left = floats_in(message, "left") if along else None
    if left is not None and (left.ndim != 3 or len(left) != len(lanes)):
        raise message.refuse("left", f"({len(lanes)}, any, action_dim)")
    return InferenceCall(
        peer=peer, sequence=sequence, method=method, policy_id=policy_id, client=message.identifier("client"),
        lanes=lanes, begins=begins, observation=observation, left=left, delay=message.whole("delay") if along else 0,
        collects="collects" in message and message.flag("collects"),
    )  # fmt: skip


def _run(policy: Policy, batch: Sequence[InferenceCall], lanes: IntArray) -> FloatArray:
    """One call of the policy for all rows of a batch: float32 (rows, horizon, action_dim)."""
    rows = _together([call.observation for call in batch])
    method = batch[0].method
    if method == "act":
        return policy.act(rows, lanes)
    if method == "act_along" and isinstance(policy, ContinuesChunks):
        left = [call.left for call in batch if call.left is not None]
        widest = max(item.shape[1] for item in left)
        padded = [
            np.pad(item, ((0, 0), (0, widest - item.shape[1]), (0, 0)), constant_values=np.nan) for item in left
        ]  # nan behind the end
        return policy.act_along(rows, lanes, np.concatenate(padded), batch[0].delay)
    raise PolicyProblem(f"this version has no {method}")


def _together(observations: Sequence[Observation]) -> Observation:
    """One observation with the rows of several, in order."""
    first = observations[0]
    images = {camera: np.concatenate([item.images[camera] for item in observations]) for camera in first.images}
    state = np.concatenate([item.state for item in observations])
    return Observation(stamp_ns=first.stamp_ns, state=state, images=images)
