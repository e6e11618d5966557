"""Checks that a stop ends a motion: in the middle of it, and without the sensors of the robot."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from enpire.conformance import CheckFailed, DoesNotApply
from enpire.types import FloatArray, Observation
from robot_drivers.conformance_bench import BRAKES_S, NOISE, Bench

TRIES = 4
"""How often a motion is begun until a stop comes in its middle."""


def check_stop_ends_motion(bench: Bench) -> None:
    """A stop in the middle of a motion ends it: the robot does not travel on to its target, and no wheel rolls on."""
    _need_own_motion(bench)
    _stops(bench, bench.rig.stop)


def check_still_lane_ends_motion(bench: Bench) -> None:
    """A lane that leaves `moving` in the middle of a motion holds still."""
    _need_own_motion(bench)
    _stops(bench, lambda: bench.rig.act(bench.last, np.zeros(bench.rig.lanes, np.bool_)))


def check_stop_without_observations(bench: Bench) -> None:
    """A stop ends a motion although the sensors give no observation."""
    _need_own_motion(bench)
    with bench.rehearsing("no observation"):
        _stops(bench, bench.rig.stop)


def check_stop_without_cameras(bench: Bench) -> None:
    """A stop ends a motion although the cameras are gone."""
    _need_own_motion(bench)
    with bench.rehearsing("camera gone"):
        _stops(bench, bench.rig.stop)


def check_stop_with_stale_cameras(bench: Bench) -> None:
    """A stop ends a motion although the cameras give no new image."""
    _need_own_motion(bench)
    with bench.rehearsing("camera stale"):
        _stops(bench, bench.rig.stop)


def _need_own_motion(bench: Bench) -> None:
    if not bench.robot.realtime:
        raise DoesNotApply("a simulation moves only while it gets actions")


def _stops(bench: Bench, stop: Callable[[], object]) -> None:
    """Move, stop in the middle, and see whether the robot comes to rest where it was stopped."""
    positions = [(column, index) for column, index in enumerate(bench.spec.measured) if index >= 0]
    for attempt in range(TRIES):
        bench.ready()
        target, noise = _moved(bench, 1.0 if attempt % 2 else -1.0)
        stop()
        at_stop = bench.rig.observe()
        rested = bench.come_to_rest()
        _need_rest(bench, bench.stays(rested, "A stopped robot must come to rest"), noise)
        if not positions or _stays(bench, positions, target, (at_stop, rested), noise):
            return
    raise DoesNotApply("the robot reached its target before it could be stopped")


def _moved(bench: Bench, sign: float) -> tuple[FloatArray, npt.NDArray[np.float64]]:
    """Begin a motion; gives the action that was sent (lanes, action_dim), and the noise at rest (lanes, state_dim)."""
    before = bench.rest()
    noise = np.full_like(bench.shift(before, before), 1e-3)
    for _ in range(5):
        bench.tick(bench.holding(before))
        noise = np.maximum(noise, bench.shift(before, bench.rig.observe()) + 1e-3)
    sent = bench.tick(bench.nudged(bench.holding(before), sign))
    for _ in range(30):
        seen = bench.shift(before, bench.rig.observe())
        if np.any(seen > np.maximum(4 * noise, 0.01)):
            break
        sent = bench.tick(bench.nudged(bench.holding(before), sign))
    return sent, noise


def _need_rest(bench: Bench, later: Observation, noise: npt.NDArray[np.float64]) -> None:
    for index, item in enumerate(bench.spec.state):
        if not item.is_rate or item.unit.startswith(("N", "A", "V")):
            continue
        speed = float(np.abs(later.state[:, index]).max())
        if speed > max(NOISE, 4 * float(noise[:, index].max())) * bench.span[index]:
            raise CheckFailed(
                f"{2 * BRAKES_S:.1f} s or more after the stop, {item.name} is {speed:.4g} {item.unit}: the robot"
                " moves on. A stop must command zero velocity, not the velocity that is measured."
            )


def _stays(
    bench: Bench, positions: list[tuple[int, int]], target: FloatArray,
    seen: tuple[Observation, Observation], noise: npt.NDArray[np.float64],
) -> bool:  # fmt: skip
    """Whether a position was stopped well before its target; CheckFailed when it travelled on to the target.

    Args:
        bench: the rig.
        positions: (column of the action, index of the state) of each action that is a position.
        target: the last action (lanes, action_dim).
        seen: the observations at the stop and at rest.
        noise: at rest, as a share of the range, (lanes, state_dim).
    """
    at_stop, rested = (item.state.astype(np.float64) for item in seen)
    judged = False
    for column, index in positions:
        left = target[:, column] - at_stop[:, index]
        far = np.abs(left) > np.maximum(4 * noise[:, index], NOISE) * bench.span[index]
        went = (rested[:, index] - at_stop[:, index]) * np.sign(left)
        on = far & (went > 0.7 * np.abs(left))
        if np.any(on):
            lane = int(np.flatnonzero(on)[0])
            raise CheckFailed(
                f"{bench.spec.state[index].name} was {at_stop[lane, index]:.5g} at the stop and"
                f" {rested[lane, index]:.5g} at rest, with the target {target[lane, column]:.5g}: the robot travelled"
                " on after the stop."
            )
        judged |= bool(np.any(far))
    return judged


CHECKS = (
    check_stop_ends_motion, check_still_lane_ends_motion, check_stop_without_observations, check_stop_without_cameras,
    check_stop_with_stale_cameras,
)  # fmt: skip
