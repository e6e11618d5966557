"""Chunks that are decided while the robots carry out the ones before: no pause between two chunks.

A policy is asked early, by the time that its answers lately took, on a thread of its own. Until the answer is here the
robot goes on with the rest of its old chunk (a policy plans `horizon` actions and has `execute` of them sent). The new
chunk is aligned in time: its first action belongs to the moment of the observation, so as many actions are skipped as
commands were sent since. A robot whose old chunk is used up holds until the answer is here. Nobody waits for a policy
that thinks, and none is asked again, or told of a new episode, before it has answered.

A policy that can begin a chunk where the last one is still being carried out (`Continues`: real-time chunking, Black
et al., arXiv 2506.07339) is told what is left of it.
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

from enpire.interfaces import Continues, Policy
from enpire.policy_calls import LoadedPolicy, with_images
from enpire.station.chunks import NOT_FINITE, Chunks, asked, finite_rows
from enpire.types import FloatArray, IntArray, MaskArray, Observation

PATIENCE_S = 10.0
"""How long a policy may think before its episodes end."""
_REMEMBERED = 32
"""Answers whose delay says how early to ask."""


@dataclass(slots=True)
class _Call:
    """What a policy was asked, and its answer when there is one."""

    loaded: LoadedPolicy
    lanes: IntArray
    episodes: IntArray
    """Which episode of each lane asks."""
    sent: IntArray
    """Commands that each lane had sent."""
    begins: Mapping[int, int]
    """Lanes whose episode begins with this question -> the seed of their noise."""
    asked_s: float = field(default_factory=time.monotonic)
    answered_s: float = math.inf
    answer: FloatArray | str = ""
    ready: threading.Event = field(default_factory=threading.Event)


class OverlappedChunks(Chunks):
    """Chunks of policies that think beside the motion. One question is under way at a time.

    Args:
        lanes: of the rig.
        action_dim: width of a command.
        period_s: seconds from one command to the next.
    """

    def __init__(self, lanes: int, action_dim: int, period_s: float) -> None:
        super().__init__(lanes, action_dim)
        self._period_s = period_s
        self._left = np.zeros(lanes, np.int64)
        """Actions of the present chunk that may be sent when no new one comes."""
        self._episode = np.zeros(lanes, np.int64)
        self._sent = np.zeros(lanes, np.int64)
        self._seeds: dict[int, int] = {}
        """Lanes whose policy has not been told yet that their episode begins -> the seed of their noise."""
        self._begun_s = np.zeros(lanes)
        self._question: _Call | None = None
        self._stuck: list[_Call] = []
        """Questions that were given up and are not answered: their policies still think."""
        self._delays: deque[int] = deque([1], _REMEMBERED)

    @property
    def lead(self) -> int:
        """Periods before the next decision is due at which it is asked for: the longest delay of the last answers."""
        return max(self._delays)

    def begin(self, lane: int, policy: LoadedPolicy, seed: int) -> str:
        """A new episode in this lane; its policy hears of it with the first question."""
        self._forget(np.asarray([lane]))
        self._begun_s[lane] = time.monotonic()
        return super().begin(lane, policy, seed)

    def drop(self, lanes: IntArray) -> None:
        """Forget these lanes' chunks, also the one that is being decided."""
        super().drop(lanes)
        self._forget(lanes)

    def ready(self, lanes: IntArray) -> MaskArray:
        """Which of these lanes (n,) have a command for this period; the others hold."""
        return self._used[lanes] < self._left[lanes]

    def decide(self, observation: Observation, lanes: IntArray) -> Mapping[int, str]:
        """Take the answer that came, ask what is due soon; lane -> why there is no action for it."""
        failed = dict(self._take())
        self._stuck = [question for question in self._stuck if not question.ready.is_set()]
        due = lanes[self._used[lanes] + self.lead >= self._length[lanes]]
        busy = due[[self._is_stuck(lane) for lane in due.tolist()]]
        late = busy[~self.ready(busy) & (time.monotonic() - self._begun_s[busy] > PATIENCE_S)]
        failed |= dict.fromkeys(late.tolist(), _silent())
        free = np.setdiff1d(due, [*busy, *failed])
        if self._question is None and len(free):
            self._ask_early(observation, free)
        return failed

    def next(self, lanes: IntArray) -> tuple[FloatArray, npt.NDArray[np.int32]]:
        """(actions (n, action_dim), decision that each belongs to (n,)); counts them as used."""
        self._sent[lanes] += 1
        return super().next(lanes)

    def _open(self, policy: Policy, lane: int, seed: int) -> None:
        self._seeds[lane] = seed

    def _is_stuck(self, lane: int) -> bool:
        loaded = self._policies[lane]
        return loaded is not None and any(question.loaded.policy is loaded.policy for question in self._stuck)

    def _forget(self, lanes: IntArray) -> None:
        self._episode[lanes] += 1
        self._left[lanes] = 0

    def _take(self) -> Mapping[int, str]:
        question = self._question
        if question is None:
            return {}
        if not question.ready.is_set():
            if time.monotonic() - question.asked_s < PATIENCE_S:
                return {}
            self._stuck.append(question)
            question.answer = _silent()
        self._question = None
        same = self._episode[question.lanes] == question.episodes
        lanes = question.lanes[same]
        if isinstance(question.answer, str):
            return {int(lane): question.answer for lane in lanes}
        self._delays.append(math.ceil((question.answered_s - question.asked_s) / self._period_s))
        answer, delay = question.answer[same], (self._sent[question.lanes] - question.sent)[same]
        fine = finite_rows(answer)
        self._store(answer, lanes, question.loaded.policy.execute)
        self._used[lanes] = delay
        self._length[lanes] = delay + question.loaded.policy.execute
        self._left[lanes] = answer.shape[1]
        return {int(lane): NOT_FINITE for lane in lanes[~fine]}

    def _ask_early(self, observation: Observation, due: IntArray) -> None:
        """Ask the policy of the lane that needs it first, for all its lanes that are due."""
        first = int(due[np.argmin(self._left[due] - self._used[due])])
        loaded = self._policies[first]
        lanes = np.asarray([lane for lane in due if self._policies[int(lane)] is loaded], np.int64)
        if loaded is None:
            return
        begins = {lane: self._seeds.pop(lane) for lane in lanes.tolist() if lane in self._seeds}
        episodes, sent = self._episode[lanes].copy(), self._sent[lanes].copy()
        question = self._question = _Call(loaded, lanes, episodes, sent, begins)
        rows, remainder = with_images(loaded.policy, observation, lanes, self.look), self._remainder(lanes)
        threading.Thread(target=self._think, args=(question, rows, remainder), daemon=True).start()

    def _think(self, question: _Call, rows: Observation, remainder: FloatArray) -> None:
        policy, lanes, delay = question.loaded.policy, question.lanes, self.lead
        wanted = (len(lanes), policy.horizon, self._actions.shape[2])

        def think() -> FloatArray:
            for lane, seed in question.begins.items():
                policy.begin(lane, seed)
            if isinstance(policy, Continues):
                return policy.act_along(rows, lanes, remainder, delay)
            return policy.act(rows, lanes)

        question.answer = asked(think, wanted)
        question.answered_s = time.monotonic()
        question.ready.set()

    def _remainder(self, lanes: IntArray) -> FloatArray:
        """What is left of the present chunks, (n, horizon, action_dim), nan behind their ends."""
        horizon = self._actions.shape[1]
        found = np.full((len(lanes), horizon, self._actions.shape[2]), np.nan, np.float32)
        for row, lane in enumerate(lanes):
            left = self._actions[lane, self._used[lane] : self._left[lane]]
            found[row, : len(left)] = left
        return found


def _silent() -> str:
    return f"policy did not answer within {PATIENCE_S:g} s"
