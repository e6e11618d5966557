"""Checks of how a robot moves: actions, limits, refusals, lanes. Motions are small and end in holding."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import numpy as np

from enpire.conformance import CheckFailed, DoesNotApply, require, require_refusal
from enpire.errors import EnpireError, EnvelopeViolation
from enpire.interfaces import Rig
from enpire.types import FloatArray
from robot_drivers.conformance_bench import NOISE, Bench
from robot_drivers.guard_client import GuardedClient
from robot_drivers.machine_lateness import waited_s

WAKES = 4
"""How often one call of `observe` and one of `act` wake a process, behind a guard."""
ROUND = 2e-3
"""Share of an action's range by which the sent action may differ: drivers round to their own units."""


def check_sent_shape(bench: Bench) -> None:
    """`act` returns what was sent: one row per lane, float32, finite."""
    bench.ready()
    sent = bench.tick(bench.holding())
    wanted = (bench.rig.lanes, bench.spec.action_dim)
    require(sent.shape == wanted, f"act returned the shape {sent.shape}; the spec says {wanted}.")
    require(sent.dtype == np.float32, f"act returned {sent.dtype}, not float32.")
    require(np.isfinite(sent).all(), f"act returned numbers that are not finite: {sent.tolist()}.")


def check_inside_is_sent(bench: Bench) -> None:
    """An action inside the limits is sent unchanged, as soon as the limits on steps allow it."""
    bench.ready()
    action = bench.nudged(bench.holding())
    sent = action
    for _ in range(90):
        sent = bench.tick(action)
        if _equal(bench, sent, action):
            return
    require(
        False,
        f"After 90 periods of {action[0].tolist()}, act returns {sent[0].tolist()}; it must return what was sent.",
    )


def check_above_is_clipped(bench: Bench) -> None:
    """An action above the limits is clipped to them."""
    _beyond(bench, 1.0)


def check_below_is_clipped(bench: Bench) -> None:
    """An action below the limits is clipped to them."""
    _beyond(bench, -1.0)


def check_nan_is_refused(bench: Bench) -> None:
    """An action with NaN is refused with EnvelopeViolation, whatever its other values are."""
    _bad_number(bench, np.nan)


def check_infinity_is_refused(bench: Bench) -> None:
    """An action with infinity is refused with EnvelopeViolation; it is not clipped."""
    _bad_number(bench, np.inf)
    _bad_number(bench, -np.inf)


def check_width_is_refused(bench: Bench) -> None:
    """An action with too many columns is refused with EnvelopeViolation."""
    bench.ready()
    wide = np.zeros((bench.rig.lanes, bench.spec.action_dim + 1), np.float32)
    require_refusal(lambda: bench.tick(wide), EnvelopeViolation, "An action with one column too many")


def check_rows_are_refused(bench: Bench) -> None:
    """An action with too many rows is refused with EnvelopeViolation."""
    bench.ready()
    long = np.zeros((bench.rig.lanes + 1, bench.spec.action_dim), np.float32)
    require_refusal(lambda: bench.tick(long), EnvelopeViolation, "An action with one row too many")


def check_refused_moves_nothing(bench: Bench) -> None:
    """After a refused action the robot is where it was."""
    bench.ready()
    before = bench.rest()
    for bad in (np.nan, np.inf):
        action = bench.nudged(bench.holding(before))
        action[-1, -1] = bad
        require_refusal(lambda action=action: bench.tick(action), EnvelopeViolation, "An action that is not finite")
    hold = bench.holding()
    bench.same(before, bench.seen(lambda: bench.tick(hold)), "A refused action must move nothing")


def check_works_after_refusal(bench: Bench) -> None:
    """After a refused action the next valid action is sent."""
    bench.ready()
    hold = bench.holding()
    require_refusal(lambda: bench.tick(np.full_like(hold, np.nan)), EnvelopeViolation, "An action of NaN")
    require(bench.tick(hold).shape == hold.shape, "The action after a refused one was not sent.")


def check_action_untouched(bench: Bench) -> None:
    """`act` does not write into the caller's array."""
    bench.ready()
    action = bench.nudged(bench.holding())
    copy = action.copy()
    bench.tick(action)
    require(np.array_equal(action, copy), "act changed its argument.")


def check_sent_owned(bench: Bench) -> None:
    """An array that `act` returned does not change later."""
    bench.ready()
    hold = bench.holding()
    sent = bench.tick(hold)
    copy = sent.copy()
    bench.tick(bench.nudged(hold))
    bench.tick(bench.nudged(hold))
    require(np.array_equal(sent, copy), "An array that act returned has changed; return a new array from every call.")


def check_motion_is_seen(bench: Bench) -> None:
    """A robot that gets a new target moves, and its sensors show it."""
    bench.ready()
    before = bench.rest()
    action = bench.nudged(bench.holding(before))
    for _ in range(30):
        bench.tick(action)
        if float(bench.shift(before, bench.rig.observe()).max()) > NOISE:
            return
    require(False, f"After 30 periods of {action[0].tolist()} the state has not changed.")


def check_still_lane_rests(bench: Bench) -> None:
    """A lane that is not in `moving` stays where it is."""
    bench.ready()
    before = bench.rest()
    moving = np.zeros(bench.rig.lanes, np.bool_)
    nudged = bench.nudged(bench.holding(before))
    for _ in range(5):
        bench.tick(nudged, moving)
    bench.same(before, bench.seen(lambda: bench.tick(nudged, moving)), "No lane was in `moving`")


def check_lanes_independent(bench: Bench) -> None:
    """A lane moves in the same way whatever the other lanes do."""
    _need_repeatable_lanes(bench)

    def last_lane(others: bool) -> FloatArray:
        bench.ready()
        moving = np.full(bench.rig.lanes, others)
        moving[-1] = True
        action = bench.nudged(bench.holding())
        for _ in range(8):
            bench.tick(action, moving)
        return bench.rig.observe().state[-1]

    together, alone = last_lane(True), last_lane(False)
    require(
        np.array_equal(together, alone),
        f"The last lane ends at {together.tolist()} with the others, at {alone.tolist()} alone.",
    )


def check_same_in_every_lane(bench: Bench) -> None:
    """An episode is the same in every lane."""
    _need_repeatable_lanes(bench)
    bench.ready()
    for lane in range(bench.rig.lanes):
        bench.rig.place(lane, bench.robot.start(0))
    action = np.tile(bench.nudged(bench.holding())[:1], (bench.rig.lanes, 1))
    for _ in range(5):
        bench.tick(action)
    state = bench.rig.observe().state
    spread = float((np.abs(state - state[0]) / bench.span).max())
    require(spread <= NOISE, f"The same episode differs between lanes by {100 * spread:.1f} % of the range.")


def check_start_repeats(bench: Bench) -> None:
    """The same start gives exactly the same first observation."""
    if bench.robot.realtime:
        raise DoesNotApply("hardware does not start twice in the same way")
    first = bench.ready().observe().state.copy()
    for _ in range(3):
        bench.tick(bench.nudged(bench.holding()))
    second = bench.ready().observe().state
    require(np.array_equal(first, second), "The same start gave two different first observations.")


def check_wrong_lane_is_refused(bench: Bench) -> None:
    """A lane that does not exist is refused by `place`."""
    rig = bench.ready()
    require_refusal(lambda: rig.place(rig.lanes, bench.robot.start(0)), EnpireError, "A lane that does not exist")


def check_keeps_time(bench: Bench) -> None:
    """`observe` and `act` together take less than a period (median of 30), apart from delays of this computer."""
    rig = bench.ready()
    hold = bench.holding()
    processes = _processes(rig)
    waits: list[float] = []

    def both() -> None:
        before_s = waited_s(processes)
        rig.observe()
        rig.act(hold, bench.all)
        waits.append(waited_s(processes) - before_s)

    began_s = time.monotonic()
    took = np.array(_timed(bench, 30, both))
    half = float(np.median(took))
    if half < bench.spec.period_s:
        return
    machine = bench.meter.since(began_s)
    sentence = (
        f"observe and act take {1e3 * half:.1f} ms together; a period is {1e3 * bench.spec.period_s:.1f} ms. For"
        f" {1e3 * float(np.median(waits)):.1f} ms of these they wait for a processor, and meanwhile {machine.text}"
    )
    own_s = float(np.median(took - np.array(waits)))
    if min(own_s, machine.without_it(half, WAKES)) < bench.spec.period_s:
        raise DoesNotApply(f"{sentence}, so this is no fault of the driver; check it when the computer is idle")
    raise CheckFailed(f"{sentence}, which does not explain it: the driver is slow.")


def _processes(rig: Rig) -> tuple[int, ...]:
    """The processes that carry out a call: this one, and the guard of the rig."""
    guard = rig.status()["pid"] if isinstance(rig, GuardedClient) else None
    return (os.getpid(), guard) if isinstance(guard, int) else (os.getpid(),)


def timing(bench: Bench, count: int = 60) -> str:
    """The durations of `observe` and `act`, and the delays of this computer, as one phrase [ms]."""
    rig = bench.ready()
    hold = bench.holding()
    began_s = time.monotonic()
    sensing = _timed(bench, count, rig.observe)
    acting = _timed(bench, count, lambda: rig.act(hold, bench.all))
    parts = (
        f"{name} p50 {1e3 * np.percentile(took, 50):.2f} ms, p99 {1e3 * np.percentile(took, 99):.2f} ms"
        for name, took in (("observe", sensing), ("act", acting))
    )
    return "; ".join((*parts, bench.meter.since(began_s).text))


def _timed(bench: Bench, count: int, do: Callable[[], object]) -> list[float]:
    took: list[float] = []
    for _ in range(count):
        began_s = time.perf_counter()
        do()
        took.append(time.perf_counter() - began_s)
        bench.pass_period()  # a guard delays actions that are early
    return took


def _beyond(bench: Bench, sign: float) -> None:
    """Send an action out of bounds for one period, in which a robot moves little."""
    bench.ready()
    hold = bench.holding()
    low, high = bench.envelope.low, bench.envelope.high
    sent = bench.tick((hold + sign * 3 * (high - low)).astype(np.float32))
    bench.tick(hold)
    inside = (sent >= low - ROUND * (high - low)) & (sent <= high + ROUND * (high - low))
    require(inside.all(), f"An action beyond the limits was sent as {sent[0].tolist()}.")


def _bad_number(bench: Bench, bad: float) -> None:
    bench.ready()
    for column in range(bench.spec.action_dim):
        action = bench.holding()
        action[-1, column] = bad
        require_refusal(
            lambda action=action: bench.tick(action), EnvelopeViolation, f"An action with {bad} in column {column}"
        )


def _equal(bench: Bench, sent: FloatArray, action: FloatArray) -> bool:
    return bool((np.abs(sent - action) <= ROUND * (bench.envelope.high - bench.envelope.low)).all())


def _need_repeatable_lanes(bench: Bench) -> None:
    if bench.rig.lanes < 2:
        raise DoesNotApply("there is one lane")
    if bench.robot.realtime:
        raise DoesNotApply("hardware does not repeat a motion exactly")


CHECKS = (
    check_sent_shape, check_inside_is_sent, check_above_is_clipped, check_below_is_clipped, check_nan_is_refused,
    check_infinity_is_refused, check_width_is_refused, check_rows_are_refused, check_refused_moves_nothing,
    check_works_after_refusal, check_action_untouched, check_sent_owned, check_motion_is_seen, check_still_lane_rests,
    check_lanes_independent, check_same_in_every_lane, check_start_repeats, check_wrong_lane_is_refused,
    check_keeps_time,
)  # fmt: skip
