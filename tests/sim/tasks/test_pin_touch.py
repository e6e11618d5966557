"""The search by touch: what it felt moves its belief, lanes do not disturb each other, and it finds the hole."""

from __future__ import annotations

import numpy as np
import pytest

from enpire.errors import PolicyProblem
from enpire.types import Observation
from sim.rollouts import roll_out
from sim.tasks.pin_insertion_blind import PinInsertionBlind
from sim.tasks.pin_rig import FORCE, TILT, TIP
from sim.tasks.pin_spiral import SpiralExpert, SpiralProgram
from sim.tasks.pin_touch import TouchProgram, TouchSearch

SECRET = b"a secret of the tests"


def state(
    *, aside: tuple[float, float] = (0.0, 0.0), z: float = 0.0, press_n: float = 0.0, tilt: float = 0.0
) -> object:
    """One state row (1, 12) above the estimate: height in mm, upward force in N, tilt about y in rad."""
    row = np.zeros((1, 12), np.float32)
    row[0, TIP], row[0, FORCE], row[0, TILT] = (0.0, 0.0, z), (0.0, 0.0, press_n), (0.0, tilt)
    return row


def commands(policy: TouchSearch, rows: list[object], lane: int = 0) -> list[np.ndarray]:
    """The first command (3,) of each decision on these states."""
    lanes = np.array([lane])
    return [policy.act(Observation(stamp_ns=0, state=np.asarray(row)), lanes)[0, 0] for row in rows]


def test_it_finds_the_hole_more_often_and_sooner_than_the_spiral() -> None:
    blind = PinInsertionBlind()
    starts = [blind.start("holdout", index, SECRET) for index in range(160)]
    rig = blind.rig(40, 11)
    touched = [roll_out(blind, rig, TouchSearch(TouchProgram()), starts[at : at + 40]) for at in range(0, 160, 40)]
    spiral = SpiralExpert(SpiralProgram(), blind.spec.period_s)
    circled = [roll_out(blind, rig, spiral, starts[at : at + 40]) for at in range(0, 160, 40)]
    ours, theirs = ([item for part in parts for item in part] for parts in (touched, circled))
    assert sum(item.truth.success for item in ours) >= 156
    assert sum(item.truth.success for item in ours) >= sum(item.truth.success for item in theirs)
    assert np.median([item.ticks for item in ours]) < np.median([item.ticks for item in theirs])


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_a_pin_that_leans_goes_to_the_side_where_the_rim_does_not_carry_it(side: float) -> None:
    policy = TouchSearch(TouchProgram(lean_sd_mrad=2.0))
    rest = [state(z=2.0)] * 20 + [state(z=0.5)]
    # A rim that carries the pin on the side +x lifts that side: the pin's tilt about y is negative.
    pressed = [state(press_n=2.5, tilt=-side * 1.5e-3)] * 25
    last = commands(policy, [*rest, *pressed])[-1]
    assert np.sign(last[0]) == -side
    assert last[2] == pytest.approx(-TouchProgram().press_mm_s * 0.4)


def test_it_leaves_a_place_where_the_pin_did_not_drop() -> None:
    policy = TouchSearch(TouchProgram())
    commands(policy, [state(z=0.5)] * 3)
    speeds = [np.hypot(*one[:2]) for one in commands(policy, [state(press_n=2.0)] * 12)]
    assert speeds[-1] > 6.0


def test_it_sinks_where_it_has_dropped_and_refuses_another_state() -> None:
    policy = TouchSearch(TouchProgram())
    assert commands(policy, [state(z=-1.0)])[0][2] == -TouchProgram().descent_mm_s
    with pytest.raises(PolicyProblem, match=r"\(1, 12\)"):
        policy.act(Observation(stamp_ns=0, state=np.zeros((1, 9), np.float32)), np.array([0]))


def test_an_episode_does_not_depend_on_other_lanes_or_earlier_episodes() -> None:
    blind = PinInsertionBlind()
    starts = [blind.start("train", index, b"") for index in range(4)]
    alone = [item.arrays.action for item in roll_out(blind, blind.rig(4, 5), TouchSearch(TouchProgram()), starts)]
    used = TouchSearch(TouchProgram())
    roll_out(blind, blind.rig(7, 6), used, [blind.start("train", index, b"") for index in range(10, 17)])
    again = [item.arrays.action for item in roll_out(blind, blind.rig(4, 5), used, starts)]
    for first, second in zip(alone, again, strict=True):
        np.testing.assert_array_equal(first, second)
