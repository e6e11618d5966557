"""Checks of what a robot does: commands, limits, refusals, lanes. Motions are small and go back to holding."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from enpire.conformance import DoesNotApply, require, require_refusal
from enpire.errors import EnpireError, EnvelopeViolation
from enpire.types import FloatArray
from robot_drivers.conformance_bench import NOISE, Bench

ROUND = 2e-3
"""Share of an action's range by which a sent command may differ from the wish: drivers round to their own units."""


def check_sent_shape(bench: Bench) -> None:
    """`act` returns what was sent: one row per lane, float32, finite."""
    bench.ready()
    sent = bench.tick(bench.holding())
    wanted = (bench.rig.lanes, bench.spec.action_dim)
    require(sent.shape == wanted, f"act returned the shape {sent.shape}; the spec says {wanted}.")
    require(sent.dtype == np.float32, f"act returned {sent.dtype}, not float32.")
    require(np.isfinite(sent).all(), f"act returned numbers that are not finite: {sent.tolist()}.")


def check_inside_is_sent(bench: Bench) -> None:
    """A command inside the limits is sent as it is, at the latest when the limits on steps allow it."""
    bench.ready()
    wish = bench.nudged(bench.holding())
    sent = wish
    for _ in range(90):
        sent = bench.tick(wish)
        if _equal(bench, sent, wish):
            return
    require(
        False, f"After 90 periods of {wish[0].tolist()}, {sent[0].tolist()} is sent; does act return what was sent?"
    )


def check_above_is_clipped(bench: Bench) -> None:
    """A command above the limits is sent below them, or at them."""
    _beyond(bench, 1.0)


def check_below_is_clipped(bench: Bench) -> None:
    """A command below the limits is sent above them, or at them."""
    _beyond(bench, -1.0)


def check_nan_is_refused(bench: Bench) -> None:
    """A command with NaN is refused with EnvelopeViolation, whatever else is in it."""
    _bad_number(bench, np.nan)


def check_infinity_is_refused(bench: Bench) -> None:
    """A command with infinity is refused with EnvelopeViolation; it is not clipped."""
    _bad_number(bench, np.inf)
    _bad_number(bench, -np.inf)


def check_width_is_refused(bench: Bench) -> None:
    """A command that is too wide is refused with EnvelopeViolation."""
    bench.ready()
    wide = np.zeros((bench.rig.lanes, bench.spec.action_dim + 1), np.float32)
    require_refusal(lambda: bench.tick(wide), EnvelopeViolation, "A command that is one number too wide")


def check_rows_are_refused(bench: Bench) -> None:
    """A command for a lane too many is refused with EnvelopeViolation."""
    bench.ready()
    long = np.zeros((bench.rig.lanes + 1, bench.spec.action_dim), np.float32)
    require_refusal(lambda: bench.tick(long), EnvelopeViolation, "A command with one row too many")


def check_refused_moves_nothing(bench: Bench) -> None:
    """After a refused command the robot is where it was."""
    bench.ready()
    before = bench.rest()
    for bad in (np.nan, np.inf):
        wish = bench.nudged(bench.holding(before))
        wish[-1, -1] = bad
        require_refusal(lambda wish=wish: bench.tick(wish), EnvelopeViolation, "A command that is not finite")
    bench.same(before, bench.rig.observe(), "A refused command must move nothing")


def check_works_after_refusal(bench: Bench) -> None:
    """A refused command does not break the robot: the next good one is sent."""
    bench.ready()
    hold = bench.holding()
    require_refusal(lambda: bench.tick(np.full_like(hold, np.nan)), EnvelopeViolation, "A command of NaN")
    require(bench.tick(hold).shape == hold.shape, "The command after a refused one was not sent.")


def check_wish_untouched(bench: Bench) -> None:
    """`act` does not write into the caller's array."""
    bench.ready()
    wish = bench.nudged(bench.holding())
    copy = wish.copy()
    bench.tick(wish)
    require(np.array_equal(wish, copy), "act changed the array that it was given.")


def check_sent_owned(bench: Bench) -> None:
    """What `act` returned keeps its numbers when the robot goes on."""
    bench.ready()
    hold = bench.holding()
    sent = bench.tick(hold)
    copy = sent.copy()
    bench.tick(bench.nudged(hold))
    bench.tick(bench.nudged(hold))
    require(np.array_equal(sent, copy), "What act returned earlier changed: give every answer its own array.")


def check_motion_is_seen(bench: Bench) -> None:
    """A robot that is commanded aside moves, and its sensors say so."""
    bench.ready()
    before = bench.rest()
    wish = bench.nudged(bench.holding(before))
    for _ in range(30):
        bench.tick(wish)
        if float(bench.shift(before, bench.rig.observe()).max()) > NOISE:
            return
    require(False, f"After 30 periods of {wish[0].tolist()} nothing in the state has changed.")


def check_still_lane_rests(bench: Bench) -> None:
    """A lane that is not asked to move stays where it is."""
    bench.ready()
    before = bench.rest()
    moving = np.zeros(bench.rig.lanes, np.bool_)
    for _ in range(5):
        bench.tick(bench.nudged(bench.holding(before)), moving)
    bench.same(before, bench.rig.observe(), "No lane was asked to move")


def check_lanes_independent(bench: Bench) -> None:
    """What one lane does is the same whatever its neighbours do."""
    _need_twins(bench)

    def last_lane(others: bool) -> FloatArray:
        bench.ready()
        moving = np.full(bench.rig.lanes, others)
        moving[-1] = True
        wish = bench.nudged(bench.holding())
        for _ in range(8):
            bench.tick(wish, moving)
        return bench.rig.observe().state[-1]

    together, alone = last_lane(True), last_lane(False)
    require(
        np.array_equal(together, alone),
        f"The last lane ends at {together.tolist()} in company, {alone.tolist()} alone.",
    )


def check_same_in_every_lane(bench: Bench) -> None:
    """An episode is the same in whichever lane it runs."""
    _need_twins(bench)
    bench.ready()
    for lane in range(bench.rig.lanes):
        bench.rig.place(lane, bench.robot.start(0))
    wish = np.tile(bench.nudged(bench.holding())[:1], (bench.rig.lanes, 1))
    for _ in range(5):
        bench.tick(wish)
    state = bench.rig.observe().state
    spread = float((np.abs(state - state[0]) / bench.span).max())
    require(spread <= NOISE, f"The same episode differs between lanes by {100 * spread:.1f} % of the range.")


def check_start_repeats(bench: Bench) -> None:
    """The same start gives the same first observation, bit for bit."""
    if bench.robot.realtime:
        raise DoesNotApply("hardware never starts twice in the same way")
    first = bench.ready().observe().state.copy()
    for _ in range(3):
        bench.tick(bench.nudged(bench.holding()))
    second = bench.ready().observe().state
    require(np.array_equal(first, second), "The same start gave two different first observations.")


def check_wrong_lane_is_refused(bench: Bench) -> None:
    """A lane that does not exist cannot be placed."""
    rig = bench.ready()
    require_refusal(lambda: rig.place(rig.lanes, bench.robot.start(0)), EnpireError, "A lane that does not exist")


def check_keeps_time(bench: Bench) -> None:
    """To sense and to command takes less than a period, half of the time."""
    rig = bench.ready()
    hold = bench.holding()
    took = _timed(bench, 30, lambda: (rig.observe(), rig.act(hold, bench.all)))
    half = float(np.median(took))
    require(
        half < bench.spec.period_s,
        f"To sense and command takes {1e3 * half:.1f} ms of {1e3 * bench.spec.period_s:.1f}.",
    )


def timing(bench: Bench, count: int = 60) -> str:
    """One line of statistics: how long it takes to sense and to command."""
    rig = bench.ready()
    hold = bench.holding()
    sensing = _timed(bench, count, rig.observe)
    acting = _timed(bench, count, lambda: rig.act(hold, bench.all))
    parts = (
        f"{name} p50 {1e3 * np.percentile(took, 50):.2f} ms, p99 {1e3 * np.percentile(took, 99):.2f} ms"
        for name, took in (("observe", sensing), ("act", acting))
    )
    return "; ".join(parts)


def _timed(bench: Bench, count: int, do: Callable[[], object]) -> list[float]:
    took: list[float] = []
    for _ in range(count):
        began_s = time.perf_counter()
        do()
        took.append(time.perf_counter() - began_s)
        bench.pass_period()  # a guard makes whoever hurries wait
    return took


def _beyond(bench: Bench, sign: float) -> None:
    """One period only: a robot does not get far in it."""
    bench.ready()
    hold = bench.holding()
    low, high = bench.envelope.low, bench.envelope.high
    sent = bench.tick((hold + sign * 3 * (high - low)).astype(np.float32))
    bench.tick(hold)
    inside = (sent >= low - ROUND * (high - low)) & (sent <= high + ROUND * (high - low))
    require(inside.all(), f"A command beyond the limits was sent as {sent[0].tolist()}.")


def _bad_number(bench: Bench, bad: float) -> None:
    bench.ready()
    for column in range(bench.spec.action_dim):
        wish = bench.holding()
        wish[-1, column] = bad
        require_refusal(
            lambda wish=wish: bench.tick(wish), EnvelopeViolation, f"A command with {bad} in number {column}"
        )


def _equal(bench: Bench, sent: FloatArray, wish: FloatArray) -> bool:
    return bool((np.abs(sent - wish) <= ROUND * (bench.envelope.high - bench.envelope.low)).all())


def _need_twins(bench: Bench) -> None:
    if bench.rig.lanes < 2:
        raise DoesNotApply("there is one lane")
    if bench.robot.realtime:
        raise DoesNotApply("hardware never does the same twice")


CHECKS = (
    check_sent_shape, check_inside_is_sent, check_above_is_clipped, check_below_is_clipped, check_nan_is_refused,
    check_infinity_is_refused, check_width_is_refused, check_rows_are_refused, check_refused_moves_nothing,
    check_works_after_refusal, check_wish_untouched, check_sent_owned, check_motion_is_seen, check_still_lane_rests,
    check_lanes_independent, check_same_in_every_lane, check_start_repeats, check_wrong_lane_is_refused,
    check_keeps_time,
)  # fmt: skip
