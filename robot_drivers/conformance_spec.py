"""Checks of the spec, the observations and the images of a driver."""

from __future__ import annotations

import itertools
import math

import numpy as np

from enpire.conformance import CheckFailed, DoesNotApply, require
from robot_drivers.conformance_bench import Bench
from robot_drivers.freshness import Freshness
from robot_drivers.safety import Envelope, Limits

UNITS = ("", "1", "m", "mm", "rad", "deg", "m/s", "mm/s", "rad/s", "deg/s", "N", "N m", "Nm", "s", "A", "V", "%", "K")
SUFFIXES = {
    "_rad_s": ("rad/s",), "_m_s": ("m/s",), "_mm_s": ("mm/s",), "_deg_s": ("deg/s",), "_rad": ("rad",),
    "_deg": ("deg",), "_mm": ("mm",), "_n": ("N",), "_nm": ("N m", "Nm"), "_m": ("m",), "_s": ("s",),
}  # fmt: skip
"""Ending of a name -> units that fit it; the longest matching ending counts."""
NUDGE_SEEN = 0.05
"""Share of a state's range by which the robot must move for a camera to show it."""


def check_name(bench: Bench) -> None:
    """The spec has a name and an instruction."""
    require(bench.spec.name.strip(), "The spec has no name.")
    require(bench.spec.instruction.strip(), "The spec has no instruction.")


def check_unique_state_names(bench: Bench) -> None:
    """Every state number has its own name."""
    names = [item.name for item in bench.spec.state]
    require(names and len(set(names)) == len(names) and all(names), f"The state names {names} are not unique.")


def check_unique_action_names(bench: Bench) -> None:
    """Every action number has its own name."""
    names = [item.name for item in bench.spec.action]
    require(names and len(set(names)) == len(names) and all(names), f"The action names {names} are not unique.")


def check_action_bounds(bench: Bench) -> None:
    """Every action has finite bounds, low below high, because limits need them."""
    for item in bench.spec.action:
        finite = math.isfinite(item.low) and math.isfinite(item.high)
        require(finite and item.low < item.high, f"Action {item.name} has the bounds {item.low} to {item.high}.")


def check_state_bounds(bench: Bench) -> None:
    """Every state number has bounds, low not above high."""
    for item in bench.spec.state:
        require(item.low <= item.high, f"State {item.name} has the bounds {item.low} to {item.high}.")


def check_units(bench: Bench) -> None:
    """Every unit is a known one."""
    for item in (*bench.spec.state, *bench.spec.action):
        require(item.unit in UNITS, f"{item.name} has the unit {item.unit!r}; known are {', '.join(UNITS[1:])}.")


def check_unit_names(bench: Bench) -> None:
    """A name that ends in a unit has that unit."""
    for item in (*bench.spec.state, *bench.spec.action):
        ending = max((end for end in SUFFIXES if item.name.endswith(end)), key=len, default="")
        require(not ending or item.unit in SUFFIXES[ending], f"{item.name} has the unit {item.unit!r}.")


def check_rate(bench: Bench) -> None:
    """The rate is between 1 and 1000 Hz."""
    require(1.0 <= bench.spec.rate_hz <= 1000.0, f"The rate is {bench.spec.rate_hz} Hz.")


def check_limit(bench: Bench) -> None:
    """A rollout may last at least one period."""
    require(bench.spec.limit_ticks >= 1, f"The limit is {bench.spec.limit_ticks} periods.")


def check_lanes(bench: Bench) -> None:
    """There is at least one lane."""
    require(bench.rig.lanes >= 1, f"The rig has {bench.rig.lanes} lanes.")


def check_start_width(bench: Bench) -> None:
    """A start has one value for each start name."""
    start = bench.robot.start(0)
    names = bench.spec.start_names
    require(len(start.values) == len(names), f"Start 0 has {len(start.values)} values for the names {names}.")


def check_state_shape(bench: Bench) -> None:
    """An observation has one row per lane and one column per state number."""
    shape = bench.ready().observe().state.shape
    wanted = (bench.rig.lanes, bench.spec.state_dim)
    require(shape == wanted, f"The state has the shape {shape}, the spec says {wanted}.")


def check_state_dtype(bench: Bench) -> None:
    """The state is float32."""
    dtype = bench.ready().observe().state.dtype
    require(dtype == np.float32, f"The state is {dtype}.")


def check_state_finite(bench: Bench) -> None:
    """Every measured number is finite."""
    state = bench.ready().observe().state
    require(np.isfinite(state).all(), f"The state has numbers that are not finite: {state.tolist()}.")


def check_state_inside(bench: Bench) -> None:
    """A robot at rest is inside the bounds of its own spec."""
    state = bench.ready().observe().state
    envelope = Envelope(bench.spec, Limits())
    for row in state:
        sentence = envelope.offence(row)
        require(not sentence, f"At rest, {sentence}: correct the bounds or the units.")


def check_stamp(bench: Bench) -> None:
    """The stamp is a whole number of nanoseconds that never falls."""
    rig = bench.ready()
    stamps = [rig.observe().stamp_ns for _ in range(5)]
    require(all(isinstance(stamp, int) and stamp >= 0 for stamp in stamps), f"The stamps are {stamps}.")
    require(stamps == sorted(stamps), f"The stamps fall: {stamps}.")


def check_stamp_rises(bench: Bench) -> None:
    """With every period the stamp rises: it is the time of the measurement, not of the connection."""
    rig = bench.ready()
    stamps: list[int] = []
    for _ in range(4):
        bench.tick(bench.holding())
        stamps.append(rig.observe().stamp_ns)
    require(all(a < b for a, b in itertools.pairwise(stamps)), f"After four periods the stamps are {stamps}.")


def check_stamp_unit(bench: Bench) -> None:
    """Over ten periods the stamp rises by about ten periods: it is in nanoseconds."""
    rig = bench.ready()
    hold = bench.holding()
    before = rig.observe().stamp_ns
    for _ in range(10):
        bench.tick(hold)
    passed = (rig.observe().stamp_ns - before) / 1e9
    wanted = 10 * bench.spec.period_s
    # Periods may take longer on a busy computer, but never a third of their time.
    require(wanted / 3 < passed < 30 * wanted, f"Ten periods of {wanted:.3f} s took {passed:.6g} s by the stamp.")


def check_observe_is_quiet(bench: Bench) -> None:
    """`observe` does not move the robot: a robot that holds is always seen in the same place."""
    bench.ready()
    first = bench.rest()
    hold = bench.holding(first)
    for _ in range(3):
        bench.same(first, bench.seen(lambda: bench.tick(hold)), "observe must not move the robot")


def check_observation_owned(bench: Bench) -> None:
    """An observation does not change when the robot moves on, or when a lane is placed again."""
    rig = bench.ready()
    kept = [rig.observe()]
    copies = [kept[0].state.copy()]
    for _ in range(3):
        bench.tick(bench.nudged(bench.holding()))
        kept.append(rig.observe())
        copies.append(kept[-1].state.copy())
    rig.place(0, bench.robot.start(0))
    whole = all(np.array_equal(seen.state, copy) for seen, copy in zip(kept, copies, strict=True))
    require(whole, "An old observation has changed; return new arrays from every call of observe.")


def check_cameras_named(bench: Bench) -> None:
    """`look` gives the cameras of the spec, or none at all."""
    images = bench.ready().look(0)
    if not images:
        raise DoesNotApply("the robot gives no images here")
    named = set(bench.spec.cameras)
    require(set(images) == named, f"look gives {sorted(images)}, the spec names {sorted(named)}.")


def check_picture_format(bench: Bench) -> None:
    """An image is uint8 of shape (height, width, 3)."""
    images = bench.ready().look(0)
    if not images:
        raise DoesNotApply("the robot gives no images here")
    for camera, image in images.items():
        fits = image.dtype == np.uint8 and image.ndim == 3 and image.shape[2] == 3
        require(fits, f"Camera {camera} gives {image.dtype} of shape {image.shape}.")


def check_live_is_fresh(bench: Bench) -> None:
    """Sensors that work are not taken for frozen ones."""
    rig = bench.ready()
    watch = Freshness(bench.spec)
    for _ in range(6):
        watch.note(rig.observe())
        bench.tick(bench.holding())
        watch.commanded()
    require(not watch.stale, f"Sensors that work were taken for frozen ones: {watch.stale}")


def check_frozen_is_noticed(bench: Bench) -> None:
    """A repeated observation is detected within three actions."""
    rig = bench.ready()
    watch = Freshness(bench.spec)
    frozen = rig.observe()
    watch.note(frozen)
    for _ in range(3):
        bench.tick(bench.holding())
        watch.commanded()
    watch.note(frozen)
    require(watch.stale, "A repeated observation was not detected.")


def check_camera_is_live(bench: Bench) -> None:
    """A camera that sees the robot move gives a new image."""
    rig = bench.ready()
    before, seen = rig.look(0), rig.observe()
    if not before:
        raise DoesNotApply("the robot gives no images here")
    action = bench.nudged(bench.holding(seen))
    for _ in range(10):
        bench.tick(action)
    if float(bench.shift(seen, rig.observe()).max()) < NUDGE_SEEN:
        raise DoesNotApply("the robot moved too little")
    after = rig.look(0)
    frozen = [camera for camera in before if np.array_equal(before[camera], after[camera])]
    if len(frozen) == len(before):
        raise CheckFailed(f"The robot moved, but every camera ({', '.join(frozen)}) gives the same image as before.")


CHECKS = (
    check_name, check_unique_state_names, check_unique_action_names, check_action_bounds, check_state_bounds,
    check_units, check_unit_names, check_rate, check_limit, check_lanes, check_start_width, check_state_shape,
    check_state_dtype, check_state_finite, check_state_inside, check_stamp, check_stamp_rises, check_stamp_unit,
    check_observe_is_quiet, check_observation_owned, check_cameras_named, check_picture_format, check_live_is_fresh,
    check_frozen_is_noticed, check_camera_is_live,
)  # fmt: skip
