"""Action chunks: each policy version decides in one call for all the lanes that have used up their last chunk."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from enpire.errors import EnpireError
from enpire.interfaces import Policy
from enpire.policy_calls import LoadedPolicy, policy_seed, with_images
from enpire.types import FloatArray, ImageArray, IntArray, MaskArray, Observation

NOT_FINITE = "policy returned a value that is not finite"
PLUGIN_ERRORS = (
    ArithmeticError, AssertionError, AttributeError, EnpireError, ImportError, LookupError, MemoryError, NameError,
    OSError, RuntimeError, TypeError, ValueError,
)  # fmt: skip
"""What a policy's own code may raise: it costs the episodes of that policy, never the station."""


class Chunks:
    """What is left of the last decision in each lane."""

    def __init__(self, lanes: int, action_dim: int) -> None:
        self._actions = np.zeros((lanes, 1, action_dim), np.float32)
        self._policies: list[LoadedPolicy | None] = [None] * lanes
        self._used = np.zeros(lanes, np.int64)
        self._length = np.zeros(lanes, np.int64)
        self._decision = np.zeros(lanes, np.int32)
        self.look: Callable[[int], Mapping[str, ImageArray]] = lambda _: {}
        """camera -> picture of one lane now, for policies that look at pictures which the rig does not always make."""

    def begin(self, lane: int, policy: LoadedPolicy, seed: int) -> str:
        """A new episode in this lane; why the policy cannot, or nothing."""
        self._policies[lane] = policy
        self._used[lane] = self._length[lane] = 0
        self._decision[lane] = -1
        try:
            self._open(policy.policy, lane, policy_seed(seed))
        except PLUGIN_ERRORS as problem:
            return f"policy failed to begin: {_said(problem)}"
        return ""

    def drop(self, lanes: IntArray) -> None:
        """Forget what is left of these lanes' chunks: somebody else moved the robot, so a new decision is due."""
        self._used[lanes] = self._length[lanes] = 0

    def ready(self, lanes: IntArray) -> MaskArray:
        """Which of these lanes (n,) have a command for this period."""
        return self._used[lanes] < self._length[lanes]

    def decide(self, observation: Observation, lanes: IntArray) -> Mapping[int, str]:
        """Fetch new chunks where the old ones are used up.

        Args:
            observation: one row for every lane of the rig.
            lanes: (n,), the lanes that roll out.

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
        """(actions (n, action_dim), decision that each belongs to (n,)); counts them as used."""
        actions = self._actions[lanes, self._used[lanes]]
        self._used[lanes] += 1
        return actions, self._decision[lanes]

    def _open(self, policy: Policy, lane: int, seed: int) -> None:
        """Tell a policy that an episode begins."""
        policy.begin(lane, seed)

    def _ask(self, observation: Observation, lanes: IntArray) -> Mapping[int, str]:
        loaded = self._policies[int(lanes[0])]
        if loaded is None:
            return {int(lane): "no policy was given" for lane in lanes}
        policy, rows = loaded.policy, with_images(loaded.policy, observation, lanes, self.look)
        answer = asked(lambda: policy.act(rows, lanes), (len(lanes), policy.horizon, self._actions.shape[2]))
        if isinstance(answer, str):
            return {int(lane): answer for lane in lanes}
        self._store(answer, lanes, loaded.policy.execute)
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


def asked(act: Callable[[], FloatArray], wanted: tuple[int, int, int]) -> FloatArray | str:
    """A policy's chunks, of the wanted shape (n, horizon, action_dim), or one clause about why there are none."""
    try:
        answer = np.asarray(act(), np.float32)
    except PLUGIN_ERRORS as problem:
        return f"policy failed: {_said(problem)}"
    return answer if answer.shape == wanted else f"policy returned chunks of shape {answer.shape}, not {wanted}"


def finite_rows(answer: FloatArray) -> MaskArray:
    """Which chunks (n,) of an answer (n, horizon, action_dim) hold numbers that a robot may follow."""
    return np.asarray(np.isfinite(answer).all(axis=(1, 2)), np.bool_)


def _said(problem: Exception) -> str:
    text = " ".join(str(problem).split())
    return f"{type(problem).__name__}: {text}"[:500]
