"""Inference that overlaps with motion: the next chunk is decided while the robot executes the present one.

The policy is called early, by the delay of its latest answers, on a thread of its own. Until the answer arrives, the
robot continues with the rest of its old chunk (a policy plans `horizon` actions, of which `execute` are normally sent).
The new chunk is aligned in time: its first action belongs to the time of the observation, so as many actions are
skipped as commands were sent since. A robot whose old chunk is used up holds until the answer arrives. The control loop
never waits for inference, and calls no policy again before it has answered.

A policy that can begin a chunk while the last one is still being executed (`ContinuesChunks`: real-time chunking, Black
et al., arXiv 2506.07339) gets the rest of that chunk.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from enpire.interfaces import ContinuesChunks, Policy
from enpire.policy_calls import NOT_FINITE, LoadedPolicy, call_policy, finite_rows, with_images
from enpire.station.chunks import Chunks
from enpire.types import FloatArray, IntArray, MaskArray, Observation

PATIENCE_S = 10.0
"""How long inference may take before the episodes end."""
_REMEMBERED = 32
"""Number of latest answers whose largest delay decides how early to call."""


@dataclass(slots=True)
class _Call:
    """One inference call, and its answer when it has arrived."""

    policy: Policy
    lanes: IntArray
    episodes: IntArray
    """int64 (n,), number of the episode of each lane."""
    sent: IntArray
    """int64 (n,), commands that each lane had sent."""
    begins: Mapping[int, int]
    """Lanes whose episode begins with this call -> seed of their noise."""
    called_s: float = field(default_factory=time.monotonic)
    answered_s: float = math.inf
    answer: FloatArray | str = ""
    ready: threading.Event = field(default_factory=threading.Event)


class OverlappedChunks(Chunks):
    """Chunks of policies that run inference during motion. One call is in progress at a time.

    Args:
        lanes: of the rig.
        action_dim: width of a command.
        period_s: seconds from one command to the next.
    """

    def __init__(self, lanes: int, action_dim: int, period_s: float) -> None:
        super().__init__(lanes, action_dim)
        self._period_s = period_s
        self._left = np.zeros(lanes, np.int64)
        """Index behind the last action of the present chunk that may be sent if no new chunk arrives."""
        self._episode = np.zeros(lanes, np.int64)
        self._sent = np.zeros(lanes, np.int64)
        self._seeds: dict[int, int] = {}
        """Lanes whose policy has not begun their episode yet -> seed of their noise."""
        self._begun_s = np.zeros(lanes)
        self._call: _Call | None = None
        self._stuck: list[_Call] = []
        """Calls that timed out and have not returned: inference still runs."""
        self._delays: deque[int] = deque([1], _REMEMBERED)

    @property
    def lead(self) -> int:
        """How many periods early the next chunk is requested: the longest delay of the last answers."""
        return max(self._delays)

    def begin(self, lane: int, policy: LoadedPolicy, seed: int) -> str:
        """Begin an episode in this lane; its policy begins it with the first call."""
        self._forget(np.asarray([lane]))
        self._begun_s[lane] = time.monotonic()
        return super().begin(lane, policy, seed)

    def drop(self, lanes: IntArray) -> None:
        """Drop the chunks of lanes (n,), also those that are being decided."""
        super().drop(lanes)
        self._forget(lanes)

    def ready(self, lanes: IntArray) -> MaskArray:
        """Which of these lanes, int64 (n,), have a command for this period: bool (n,). The others hold."""
        return self._used[lanes] < self._left[lanes]

    def decide(self, observation: Observation, lanes: IntArray) -> Mapping[int, str]:
        """Take the answer that arrived; call the policy for lanes (n,) that are due soon; lane -> why it failed."""
        failed = dict(self._take())
        self._stuck = [call for call in self._stuck if not call.ready.is_set()]
        due = lanes[self._used[lanes] + self.lead >= self._length[lanes]]
        busy = due[[self._is_stuck(lane) for lane in due.tolist()]]
        late = busy[~self.ready(busy) & (time.monotonic() - self._begun_s[busy] > PATIENCE_S)]
        failed |= dict.fromkeys(late.tolist(), _silent())
        free = np.setdiff1d(due, [*busy, *failed])
        if self._call is None and len(free):
            self._call_early(observation, free)
        return failed

    def next(self, lanes: IntArray) -> tuple[FloatArray, npt.NDArray[np.int32]]:
        """Take the next action of each lane: (float32 (n, action_dim), int32 (n,) number of the decision)."""
        self._sent[lanes] += 1
        return super().next(lanes)

    def _open(self, policy: Policy, lane: int, seed: int) -> None:
        self._seeds[lane] = seed

    def _is_stuck(self, lane: int) -> bool:
        return any(call.policy is self._policies[lane] for call in self._stuck)

    def _forget(self, lanes: IntArray) -> None:
        self._episode[lanes] += 1
        self._left[lanes] = 0

    def _take(self) -> Mapping[int, str]:
        call = self._call
        if call is None:
            return {}
        if not call.ready.is_set():
            if time.monotonic() - call.called_s < PATIENCE_S:
                return {}
            self._stuck.append(call)
            call.answer = _silent()
        self._call = None
        same = self._episode[call.lanes] == call.episodes
        lanes = call.lanes[same]
        if isinstance(call.answer, str):
            return {int(lane): call.answer for lane in lanes}
        self._delays.append(math.ceil((call.answered_s - call.called_s) / self._period_s))
        answer, delay = call.answer[same], (self._sent[call.lanes] - call.sent)[same]
        fine = finite_rows(answer)
        self._store(answer, lanes, call.policy.execute)
        self._used[lanes] = delay
        self._length[lanes] = delay + call.policy.execute
        self._left[lanes] = answer.shape[1]
        return {int(lane): NOT_FINITE for lane in lanes[~fine]}

    def _call_early(self, observation: Observation, due: IntArray) -> None:
        """Call the policy of the most urgent lane, for all its lanes that are due."""
        first = int(due[np.argmin(self._left[due] - self._used[due])])
        policy = self._policies[first]
        lanes = np.asarray([lane for lane in due if self._policies[int(lane)] is policy], np.int64)
        if policy is None:
            return
        begins = {lane: self._seeds.pop(lane) for lane in lanes.tolist() if lane in self._seeds}
        episodes, sent = self._episode[lanes].copy(), self._sent[lanes].copy()
        call = self._call = _Call(policy, lanes, episodes, sent, begins)
        rows, remainder = with_images(policy, observation, lanes, self.look), self._remainder(lanes)
        threading.Thread(target=self._infer, args=(call, rows, remainder), daemon=True).start()

    def _infer(self, call: _Call, rows: Observation, remainder: FloatArray) -> None:
        policy, lanes, delay = call.policy, call.lanes, self.lead
        wanted = (len(lanes), policy.horizon, self._actions.shape[2])

        def infer() -> FloatArray:
            for lane, seed in call.begins.items():
                policy.begin(lane, seed)
            if isinstance(policy, ContinuesChunks):
                return policy.act_along(rows, lanes, remainder, delay)
            return policy.act(rows, lanes)

        call.answer = call_policy(infer, wanted)
        call.answered_s = time.monotonic()
        call.ready.set()

    def _remainder(self, lanes: IntArray) -> FloatArray:
        """The rest of the present chunks, float32 (n, horizon, action_dim), nan behind their ends."""
        horizon = self._actions.shape[1]
        found = np.full((len(lanes), horizon, self._actions.shape[2]), np.nan, np.float32)
        for row, lane in enumerate(lanes):
            left = self._actions[lane, self._used[lane] : self._left[lane]]
            found[row, : len(left)] = left
        return found


def _silent() -> str:
    return f"policy did not answer within {PATIENCE_S:g} s"
