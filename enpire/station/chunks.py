"""Action chunks: each policy version decides in one call for all lanes that have used up their last chunk."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from enpire.interfaces import Policy
from enpire.policy_calls import (
    NOT_FINITE,
    PLUGIN_ERRORS,
    LoadedPolicy,
    call_policy,
    described,
    finite_rows,
    policy_seed,
    with_images,
)
from enpire.types import FloatArray, ImageArray, IntArray, MaskArray, Observation


class Chunks:
    """The unused actions of the last decision in each lane."""

    def __init__(self, lanes: int, action_dim: int) -> None:
        self._actions = np.zeros((lanes, 1, action_dim), np.float32)
        self._policies: list[Policy | None] = [None] * lanes
        self._used = np.zeros(lanes, np.int64)
        self._length = np.zeros(lanes, np.int64)
        self._decision = np.zeros(lanes, np.int32)
        self.look: Callable[[int], Mapping[str, ImageArray]] = lambda _: {}
        """Lane -> camera images now, for policies that need images which the rig's observations do not carry."""

    def begin(self, lane: int, policy: LoadedPolicy, seed: int) -> str:
        """Begin an episode in this lane; returns why the policy cannot, or an empty text."""
        self._policies[lane] = policy.policy
        self._used[lane] = self._length[lane] = 0
        self._decision[lane] = -1
        try:
            self._open(policy.policy, lane, policy_seed(seed))
        except PLUGIN_ERRORS as problem:
            return f"policy failed to begin: {described(problem)}"
        return ""

    def drop(self, lanes: IntArray) -> None:
        """Drop the rest of the chunks of lanes (n,): an operator moved the robot, so a new decision is due."""
        self._used[lanes] = self._length[lanes] = 0

    def ready(self, lanes: IntArray) -> MaskArray:
        """Which of these lanes, int64 (n,), have a command for this period: bool (n,)."""
        return self._used[lanes] < self._length[lanes]

    def decide(self, observation: Observation, lanes: IntArray) -> Mapping[int, str]:
        """Decide new chunks for the lanes whose chunks are used up.

        Args:
            observation: one row for every lane of the rig.
            lanes: int64 (n,), the lanes that roll out.

        Returns:
            lane -> why there is no action for it.
        """
        empty = [int(lane) for lane in lanes if self._used[lane] >= self._length[lane]]
        groups: dict[int, list[int]] = {}
        for lane in empty:
            groups.setdefault(id(self._policies[lane]), []).append(lane)
        failed: dict[int, str] = {}
        for group in groups.values():
            failed |= self._ask(observation, np.asarray(group, np.int64))
        return failed

    def next(self, lanes: IntArray) -> tuple[FloatArray, npt.NDArray[np.int32]]:
        """Take the next action of each lane: (float32 (n, action_dim), int32 (n,) number of the decision)."""
        actions = self._actions[lanes, self._used[lanes]]
        self._used[lanes] += 1
        return actions, self._decision[lanes]

    def _open(self, policy: Policy, lane: int, seed: int) -> None:
        """Begin an episode at the policy."""
        policy.begin(lane, seed)

    def _ask(self, observation: Observation, lanes: IntArray) -> Mapping[int, str]:
        policy = self._policies[int(lanes[0])]
        if policy is None:
            return {int(lane): "no policy was given" for lane in lanes}
        rows = with_images(policy, observation, lanes, self.look)
        answer = call_policy(lambda: policy.act(rows, lanes), (len(lanes), policy.horizon, self._actions.shape[2]))
        if isinstance(answer, str):
            return {int(lane): answer for lane in lanes}
        self._store(answer, lanes, policy.execute)
        return {int(lane): NOT_FINITE for lane in lanes[~finite_rows(answer)]}

    def _store(self, answer: FloatArray, lanes: IntArray, execute: int) -> None:
        horizon = answer.shape[1]
        if horizon > self._actions.shape[1]:
            wider = np.zeros((self._actions.shape[0], horizon, self._actions.shape[2]), np.float32)
            wider[:, : self._actions.shape[1]] = self._actions
            self._actions = wider
        self._actions[lanes, :horizon] = answer
        self._used[lanes] = 0
        self._length[lanes] = execute
        self._decision[lanes] += 1
