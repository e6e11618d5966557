"""What stations, operators and rollouts share when they call a policy: its version, its seed, the rows that it sees."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from enpire.errors import EnpireError
from enpire.interfaces import DeclaresImages, HasCollector, Policy
from enpire.types import COLLECTION, FloatArray, ImageArray, IntArray, MaskArray, Observation, Order, Purpose, Start

AS_DEPLOYED_EVERY = 4
NOT_FINITE = "policy returned a value that is not finite"
PLUGIN_ERRORS = (
    ArithmeticError, AssertionError, AttributeError, EnpireError, ImportError, LookupError, MemoryError, NameError,
    OSError, RuntimeError, TypeError, ValueError,
)  # fmt: skip
"""Errors that the code of a policy may raise. They end episodes of that policy, never the station."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedPolicy:
    """A policy version that is ready for inference."""

    policy_id: str
    """Hash of the files that were loaded."""
    policy: Policy
    source: int
    """SOURCE_ code of the frames in which it moves the robot."""

    def acting(self, order: Order) -> LoadedPolicy:
        """The policy that acts in an order."""
        policy = collector(self.policy) if is_varied(order.purpose, order.start) else self.policy
        return self if policy is self.policy else replace(self, policy=policy)


def collector(policy: Policy) -> Policy:
    """The policy that collects data for a version with this policy."""
    return policy.collector if isinstance(policy, HasCollector) else policy


def is_varied(purpose: Purpose, start: Start) -> bool:
    """Whether a rollout runs the version's collector.

    Of the rollouts that only collect data one in AS_DEPLOYED_EVERY, drawn by its start, runs the version as it is
    deployed. A learner compares both (`policies.temperature`).
    """
    return purpose in COLLECTION and policy_seed(start.seed) % AS_DEPLOYED_EVERY > 0


def policy_seed(start_seed: int) -> int:
    """The seed of a policy's noise. It depends on the start alone: both trials of a pair draw alike, in any lane."""
    return int.from_bytes(hashlib.sha256(f"policy noise {start_seed}".encode()).digest()[:7], "big")


def rows_of(observation: Observation, lanes: IntArray) -> Observation:
    """A copy of the rows of these lanes (n,): state (n, state_dim), images (n, height, width, 3) per camera."""
    images = {camera: image[lanes] for camera, image in observation.images.items()}
    return Observation(stamp_ns=observation.stamp_ns, state=observation.state[lanes], images=images)


def with_images(
    policy: Policy, observation: Observation, lanes: IntArray, look: Callable[[int], Mapping[str, ImageArray]]
) -> Observation:
    """The observation rows of these lanes (n,), with camera images where the policy needs them.

    Args:
        policy: needs images if it is a `DeclaresImages` whose `needs_images` is true.
        observation: one row for every lane of the rig.
        lanes: (n,).
        look: camera -> image (height, width, 3) uint8 of one lane, for a rig whose observations carry no images.
    """
    rows = rows_of(observation, lanes)
    if rows.images or not isinstance(policy, DeclaresImages) or not policy.needs_images:
        return rows
    looks = [look(int(lane)) for lane in lanes]
    return replace(rows, images={camera: np.stack([one[camera] for one in looks]) for camera in looks[0]})


def call_policy(act: Callable[[], FloatArray], wanted: tuple[int, int, int]) -> FloatArray | str:
    """The policy's chunks, float32 of the wanted shape (n, horizon, action_dim), or one clause why there are none."""
    try:
        answer = np.asarray(act(), np.float32)
    except PLUGIN_ERRORS as problem:
        return f"policy failed: {described(problem)}"
    return answer if answer.shape == wanted else f"policy returned chunks of shape {answer.shape}, not {wanted}"


def finite_rows(answer: FloatArray) -> MaskArray:
    """Which chunks of an answer (n, horizon, action_dim) are finite: bool (n,)."""
    return np.asarray(np.isfinite(answer).all(axis=(1, 2)), np.bool_)


def described(problem: Exception) -> str:
    """The type and the text of an exception, on one line."""
    text = " ".join(str(problem).split())
    return f"{type(problem).__name__}: {text}"[:500]
