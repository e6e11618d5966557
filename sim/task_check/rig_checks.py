"""Checks of a task's rig: lanes, sensors, commands, images."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np

from enpire.conformance import DoesNotApply, require, require_refusal
from enpire.errors import EnvelopeViolation, RobotProblem, UsageError
from enpire.interfaces import Rig
from enpire.types import FloatArray, Start
from sim.task_check.bench import Bench, limits
from sim.truth import KnowsTruth

TICKS = 24
"""Periods of random motion in a check."""


def check_rig_fits_the_task(bench: Bench) -> None:
    """The rig is a Rig with the lanes that were asked for and the task's spec."""
    rig = bench.rig(3)
    require(isinstance(rig, Rig), "It lacks a member of the Rig protocol.")
    require(rig.lanes == 3 and rig.spec == bench.spec, f"It has {rig.lanes} lanes, or another spec.")


def check_observation_fits(bench: Bench) -> None:
    """An observation is float32 of shape (lanes, state_dim), finite, and has only cameras of the spec."""
    seen = bench.placed(3).observe()
    wanted = (3, bench.spec.state_dim)
    require(seen.state.shape == wanted, f"The shape is {seen.state.shape}, not {wanted}.")
    require(seen.state.dtype == np.float32, f"The numbers are {seen.state.dtype}.")
    require(np.isfinite(seen.state).all(), "A number is not finite.")
    require(set(seen.images) <= set(bench.spec.cameras), f"There are images of {sorted(seen.images)}.")


def check_state_stays_in_bounds(bench: Bench) -> None:
    """The sensed state stays within the bounds of the spec during random motion."""
    states = bench.drive(bench.placed(3), bench.random_commands(3, TICKS)).reshape(-1, bench.spec.state_dim)
    for column, item in enumerate(bench.spec.state):
        least, most = float(states[:, column].min()), float(states[:, column].max())
        require(item.low <= least and most <= item.high, f"{item.name} went from {least:.5g} to {most:.5g}.")


def check_observing_changes_nothing(bench: Bench) -> None:
    """Two observations in one period are equal."""
    rig = bench.placed(2)
    for command in bench.random_commands(2, 3):
        rig.act(command, np.ones(2, np.bool_))
        first, second = rig.observe().state.copy(), rig.observe().state
        require(np.array_equal(first, second), "The second observation of a period differs.")


def check_stamps_rise(bench: Bench) -> None:
    """The stamp of every period is later than the one before."""
    rig = bench.placed(1)
    stamps = [rig.observe().stamp_ns]
    for command in bench.random_commands(1, 5):
        rig.act(command, np.ones(1, np.bool_))
        stamps.append(rig.observe().stamp_ns)
    require(all(a < b for a, b in pairwise(stamps)), f"The stamps were {stamps}.")


def check_a_placed_lane_is_at_its_start(bench: Bench) -> None:
    """After `place`, `start_error` reports the lane near its start, with one achieved value for each name."""
    rig = bench.placed(6)
    states = rig.observe().state
    for lane in range(6):
        achieved, near = bench.task.start_error(states[lane], bench.start(lane))
        require(len(achieved) == len(bench.spec.start_names), f"{len(achieved)} values were achieved.")
        require(near, f"Start {lane} is {bench.start(lane).values} and was sensed as {achieved}.")


def check_starts_are_distinguished(bench: Bench) -> None:
    """`start_error` tells most starts of neighbouring lanes apart."""
    if not bench.spec.start_names:
        raise DoesNotApply("all its starts are one")
    if getattr(bench.task, "starts_from_seeds", False):
        raise DoesNotApply("its starts are seeds of the simulation, which no sensor shows")
    states = bench.placed(6).observe().state
    confused = sum(bench.task.start_error(states[lane], bench.start((lane + 1) % 6))[1] for lane in range(6))
    require(confused <= 2, f"{confused} of 6 lanes pass the reset check of another start.")


def check_replay_is_exact(bench: Bench) -> None:
    """The same start and commands give the same states, bit for bit, also after another episode."""
    rig, commands = bench.placed(2), bench.random_commands(2, TICKS)
    first = bench.drive(rig, commands)
    for lane in range(2):
        rig.place(lane, bench.start(lane))
    _equal(bench, first, bench.drive(rig, commands), "The second time")
    _equal(bench, first, bench.drive(bench.placed(2), commands), "On a second rig of the same seed")


def check_lanes_ignore_their_neighbours(bench: Bench) -> None:
    """A lane does the same alone and with other lanes that move differently, bit for bit."""
    commands = bench.random_commands(4, TICKS)
    crowd = bench.placed(4)
    alone = bench.rig(1)
    alone.place(0, bench.start(2))
    mask = np.array([True, False, True, True])
    _equal(bench, bench.drive(crowd, commands, mask)[:, 2], bench.drive(alone, commands[:, 2:3])[:, 0], "Alone")


def check_any_lane_is_as_good(bench: Bench) -> None:
    """A rollout is the same in the first and in the last lane."""
    rig, commands = bench.rig(3), bench.random_commands(1, TICKS)
    for lane in range(3):
        rig.place(lane, bench.start(5))
    states = bench.drive(rig, np.repeat(commands, 3, axis=1))
    _equal(bench, states[:, 0], states[:, 2], "In the last lane")


def check_only_moving_lanes_advance(bench: Bench) -> None:
    """A lane that is not in the mask stays as it is, also when another lane is placed."""
    rig = bench.placed(3)
    before = rig.observe().state.copy()
    bench.drive(rig, bench.random_commands(3, 6), np.array([True, False, True]))
    rig.place(0, bench.start(9))
    require(np.array_equal(rig.observe().state[1], before[1]), "The resting lane changed.")


def check_motion_is_seen(bench: Bench) -> None:
    """Commands change the sensed state."""
    rig = bench.placed(2)
    before = rig.observe().state.copy()
    require(
        not np.array_equal(bench.drive(rig, bench.random_commands(2, TICKS))[-1], before), "Nothing changed in motion."
    )


def check_commands_are_limited(bench: Bench) -> None:
    """A command beyond the bounds is limited, and the limited command is returned."""
    rig = bench.placed(2)
    low, high = limits(bench.spec)
    for command in (np.tile(high + 9 * (high - low), (2, 1)), np.tile(low - 9 * (high - low), (2, 1))):
        sent = rig.act(command.astype(np.float32), np.ones(2, np.bool_))
        require(sent.shape == command.shape and np.isfinite(sent).all(), f"It returned {sent!r}.")
        inside = (sent >= low - 1e-6 * abs(low)) & (sent <= high + 1e-6 * abs(high))
        require(inside.all(), f"{sent.tolist()} was sent, outside the bounds.")


def check_nan_is_refused(bench: Bench) -> None:
    """A command that is not a number is refused with EnvelopeViolation before anything moves."""
    _not_finite(bench, np.nan)


def check_infinity_is_refused(bench: Bench) -> None:
    """An infinite command is refused with EnvelopeViolation before anything moves."""
    _not_finite(bench, np.inf)


def check_wrong_shapes_are_refused(bench: Bench) -> None:
    """Commands of another shape are refused with EnvelopeViolation."""
    rig, moving = bench.placed(2), np.ones(2, np.bool_)
    wide = np.zeros((2, bench.spec.action_dim + 1), np.float32)
    require_refusal(lambda: rig.act(wide, moving), EnvelopeViolation, "A command that is too wide")
    few = np.zeros((1, bench.spec.action_dim), np.float32)
    require_refusal(lambda: rig.act(few, moving), EnvelopeViolation, "A command for too few lanes")


def check_unknown_lanes_are_refused(bench: Bench) -> None:
    """`place` refuses a lane that the rig does not have with UsageError."""
    rig = bench.placed(2)
    require_refusal(lambda: rig.place(2, bench.start(0)), UsageError, "Placing lane 2 of 2")


def check_stop_holds_still(bench: Bench) -> None:
    """`stop` moves nothing: the sensed state is the same after it, and after a period in which no lane moves."""
    rig = bench.placed(2)
    before = bench.drive(rig, bench.random_commands(2, 6))[-1]
    rig.stop()
    require(np.array_equal(rig.observe().state, before), "It moved at once.")
    rig.act(np.zeros((2, bench.spec.action_dim), np.float32), np.zeros(2, np.bool_))
    require(np.array_equal(rig.observe().state, before), "It moved in the next period.")


def check_place_without_teleport_moves_nothing(bench: Bench) -> None:
    """Without `teleport`, `place` begins an episode and leaves the scene as it is, for a reset by the robot."""
    rig = bench.placed(3)
    if not hasattr(rig, "teleport"):
        raise DoesNotApply("the rig has no `teleport` to turn off, so its robot cannot reset in simulation")
    before = rig.observe().state.copy()
    rig.teleport = False  # pyright: ignore[reportAttributeAccessIssue]
    for lane in range(3):
        # The same seed: the noise of the first period is the same.
        rig.place(lane, replace(bench.start(lane), values=bench.start(20 + lane).values))
    _equal(bench, before[None], rig.observe().state[None], "After `place`")


def check_stop_and_close(bench: Bench) -> None:
    """`stop` and `close` may be called twice, and a closed rig refuses commands with RobotProblem."""
    rig = bench.placed(1)
    rig.stop()
    rig.stop()
    rig.close()
    rig.close()
    hold = np.zeros((1, bench.spec.action_dim), np.float32)
    require_refusal(lambda: rig.act(hold, np.ones(1, np.bool_)), RobotProblem, "A command after close")


def check_stations_differ(bench: Bench) -> None:
    """Two stations differ in physics or sensors, as two real ones do."""
    commands = bench.random_commands(1, TICKS)
    if np.array_equal(bench.drive(bench.placed(1, 1), commands), bench.drive(bench.placed(1, 2), commands)):
        raise DoesNotApply("its stations are all equal, so a policy that works on one station only is not detected")


def check_sensors_do_not_tell_the_split(bench: Bench) -> None:
    """The sensed state does not depend on the start's split or index, so a policy cannot detect a gate."""
    start = bench.start(3)
    _same_sensed(bench, start, replace(start, split="holdout", index=99), "with another split and index")


def check_truth_changes_nothing(bench: Bench) -> None:
    """Reading the ground truth does not change the sensed state."""
    rig, commands = bench.placed(2), bench.random_commands(2, 8)
    if not isinstance(rig, KnowsTruth):
        raise DoesNotApply("the rig has no `truth`")
    other = bench.placed(2)
    for command in commands:
        rig.truth(0)
        rig.act(command, np.ones(2, np.bool_))
        rig.truth(1)
    require(np.array_equal(rig.observe().state, bench.drive(other, commands)[-1]), "The state changed.")


def check_cameras(bench: Bench) -> None:
    """Every camera of the spec gives an image (height, width, 3) of uint8, where the machine can render images."""
    pictures = bench.placed(1).look(0)
    if not bench.spec.cameras:
        require(not pictures, f"The spec names no cameras, but there are images of {sorted(pictures)}.")
        raise DoesNotApply("it has no cameras")
    if not pictures:
        require(_no_pictures(), f"`look` gives no image of {', '.join(bench.spec.cameras)}, which the spec names.")
        raise DoesNotApply("this machine renders no images; `enpire doctor` shows why")
    require(set(pictures) == set(bench.spec.cameras), f"There are images of {sorted(pictures)}.")
    for name, picture in pictures.items():
        good = picture.dtype == np.uint8 and picture.ndim == 3 and picture.shape[2] == 3
        require(good, f"{name} is {picture.dtype} of shape {picture.shape}.")


def _no_pictures() -> bool:
    """Whether this machine renders no images, for any rig."""
    try:
        from sim import cameras
    except ImportError:
        return True
    return bool(cameras.why_no_images())


def _not_finite(bench: Bench, value: float) -> None:
    rig = bench.placed(2)
    before = rig.observe().state.copy()
    command = np.zeros((2, bench.spec.action_dim), np.float32)
    command[1, 0] = value
    require_refusal(lambda: rig.act(command, np.ones(2, np.bool_)), EnvelopeViolation, f"A command of {value}")
    require(np.array_equal(rig.observe().state, before), "It was refused, but something moved.")


def _same_sensed(bench: Bench, one: Start, other: Start, what: str) -> None:
    rig = bench.rig(2)
    rig.place(0, one)
    rig.place(1, other)
    states = bench.drive(rig, np.repeat(bench.random_commands(1, 8), 2, axis=1))
    _equal(bench, states[:, 0], states[:, 1], f"The same start {what}")


def _equal(bench: Bench, one: FloatArray, other: FloatArray, what: str) -> None:
    if not np.array_equal(one, other):
        tick, *_, column = (int(i) for i in np.argwhere(one != other)[0])
        name = bench.spec.state[column].name
        require(False, f"{what}, {name} differs from period {tick + 1} on.")


CHECKS = (
    check_rig_fits_the_task, check_observation_fits, check_state_stays_in_bounds, check_observing_changes_nothing,
    check_stamps_rise, check_a_placed_lane_is_at_its_start, check_starts_are_distinguished, check_replay_is_exact,
    check_lanes_ignore_their_neighbours, check_any_lane_is_as_good, check_only_moving_lanes_advance,
    check_motion_is_seen, check_commands_are_limited, check_nan_is_refused, check_infinity_is_refused,
    check_wrong_shapes_are_refused, check_unknown_lanes_are_refused, check_stop_holds_still,
    check_place_without_teleport_moves_nothing, check_stop_and_close, check_stations_differ,
    check_sensors_do_not_tell_the_split, check_truth_changes_nothing, check_cameras,
)  # fmt: skip
