"""Action chunks: each policy version decides in one call for all the lanes that have used up their last chunk."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from enpire.errors import EnpireError
from enpire.interfaces import Policy, Sees
from enpire.types import FloatArray, ImageArray, IntArray, MaskArray, Observation

NOT_FINITE = "policy returned a value that is not finite"
PLUGIN_ERRORS = (
    ArithmeticError, AssertionError, AttributeError, EnpireError, ImportError, LookupError, MemoryError, NameError,
    OSError, RuntimeError, TypeError, ValueError,
)  # fmt: skip
"""What a policy's own code may raise: it costs the episodes of that policy, never the station."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedPolicy:
    """A policy version that is ready to decide, under the hash of the files that were really loaded."""

    policy_id: str
    policy: Policy
    source: int
    """SOURCE_ code of the frames that it commands."""


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


def with_images(
    policy: Policy, observation: Observation, lanes: IntArray, look: Callable[[int], Mapping[str, ImageArray]]
) -> Observation:
    """The observation rows of these lanes (n,), with camera images where the policy needs them.

    Args:
        policy: needs images where it is one that `Sees` and says so.
        observation: one row for every lane of the rig.
        lanes: (n,).
        look: camera -> image (height, width, 3) uint8 of one lane, for a rig whose observations carry no images.
    """
    rows = rows_of(observation, lanes)
    if rows.images or not isinstance(policy, Sees) or not policy.needs_images:
        return rows
    looks = [look(int(lane)) for lane in lanes]
    return replace(rows, images={camera: np.stack([one[camera] for one in looks]) for camera in looks[0]})


def rows_of(observation: Observation, lanes: IntArray) -> Observation:
    """A copy of what these lanes (n,) sense, one row for each."""
    images = {camera: pictures[lanes] for camera, pictures in observation.images.items()}
    return Observation(stamp_ns=observation.stamp_ns, state=observation.state[lanes], images=images)


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


def policy_seed(start_seed: int) -> int:
    """The seed of a policy's noise: from the start alone, so that both sides of a pair draw alike, in any lane."""
    return int.from_bytes(hashlib.sha256(f"policy noise {start_seed}".encode()).digest()[:7], "big")


def _said(problem: Exception) -> str:
    text = " ".join(str(problem).split())
    return f"{type(problem).__name__}: {text}"[:500]
