"""What stations, operators and rollouts share when they call a policy: its version, its seed, the rows that it sees."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from enpire.errors import EnpireError, PolicyProblem
from enpire.interfaces import DeclaresImages, HasCollector, Policy
from enpire.types import COLLECTION, FloatArray, ImageArray, IntArray, MaskArray, Observation, Order, Purpose, Start

DEPLOYED_SHARE = 0.25
"""Share of the rollouts that only collect data in which a version acts as it is deployed."""
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
    collector: Policy | None = None
    """The policy that collects data for it, if it is another one."""

    @classmethod
    def of(cls, policy_id: str, policy: Policy, source: int) -> LoadedPolicy:
        """A policy that was loaded, with its collector.

        Raises:
            PolicyProblem: the collector has other sizes of chunks.
        """
        return cls(policy_id=policy_id, policy=policy, source=source, collector=collector_of(policy))

    def acting(self, order: Order) -> LoadedPolicy:
        """The policy that acts in an order: itself, or its collector."""
        if self.collector is None or not explores(order.purpose, order.start, order.round):
            return self
        return replace(self, policy=self.collector)


def collector_of(policy: Policy) -> Policy | None:
    """The policy that collects data for this one; None if it does so itself.

    Raises:
        PolicyProblem: it has other sizes of chunks.
    """
    found = policy.collector if isinstance(policy, HasCollector) else policy
    if (found.horizon, found.execute) != (policy.horizon, policy.execute):
        raise PolicyProblem(
            f"its collector has horizon {found.horizon} and execute {found.execute}; they must be those of the policy, "
            f"{policy.horizon} and {policy.execute}"
        )
    return None if found is policy else found


def explores(purpose: Purpose, start: Start, round_: int) -> bool:
    """Whether a rollout runs the version's collector, if it has one.

    Of the rollouts that only collect data, the share DEPLOYED_SHARE runs the version as it is deployed; it is drawn by
    start and round. A learner compares both (`policies.temperature`).
    """
    if purpose not in COLLECTION:
        return False
    drawn = hashlib.sha256(f"as deployed {start.seed} {round_}".encode()).digest()[:7]
    return int.from_bytes(drawn, "big") >= DEPLOYED_SHARE * 2**56


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
