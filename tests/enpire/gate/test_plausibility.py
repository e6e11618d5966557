"""Tripwires on successes: what they need, and that a new honest way of doing the task is not held by chance."""

from __future__ import annotations

import random
import re
from collections import Counter

import numpy as np

from enpire.campaign.learner_data import DataRow
from enpire.campaign.quarantine import Quarantine
from enpire.campaign.quarantine_events import EpisodeSuspected
from enpire.gate.plausibility import LEAST_KNOWN, Compared, doubt, gap_doubt, known_successes
from enpire.honesty.of_success import reach
from enpire.steps.tripwires import MOST_KNOWN, spread
from enpire.types import FloatArray


def suspected(number: int, successes: int) -> EpisodeSuspected:
    return EpisodeSuspected(
        experiment_id="e", policy_id="v", order_id=f"{number}", tripwire="critic", why="far", successes=successes
    )


def test_without_enough_known_successes_nothing_is_judged() -> None:
    draw = random.Random(1)
    assert known_successes([reach(draw) for _ in range(LEAST_KNOWN - 1)]) is None
    assert known_successes([reach(draw) for _ in range(LEAST_KNOWN)]) is not None


def ends_of(states: list[FloatArray]) -> list[list[float]] | None:
    known = known_successes(states)
    assert known is not None
    return None if known.ends is None else [end.tolist() for end in known.ends]


def test_repeated_rollouts_of_one_start_count_once() -> None:
    """They end alike, but the ends of two starts lie apart: an honest success from a new start must be believed."""
    draw = random.Random(4)
    once = [reach(draw) for _ in range(LEAST_KNOWN)]
    assert ends_of(once) is not None
    assert ends_of(once[:8] * 8) is None, "8 starts are no evidence of where a success may end"
    few = known_successes(once[:8] * 8)
    assert few is not None
    assert doubt(reach(draw), few) is None


def test_sensors_that_do_not_show_the_start_leave_the_tripwire() -> None:
    draw = random.Random(6)

    def from_rest() -> FloatArray:
        return np.vstack([np.zeros((1, 6)), reach(draw)]).astype(np.float32)

    once = [from_rest() for _ in range(LEAST_KNOWN)]
    assert ends_of([*once, *once]) == ends_of(once) is not None
    assert ends_of(once[:8] * 2) is None


def test_the_end_of_a_success_is_compared_value_by_value() -> None:
    """A faster regime ends with other speeds and forces within their usual width; beside the goal is not believed."""
    draw, noise = random.Random(8), np.random.default_rng(8)

    def pressed(state: FloatArray, force: float) -> FloatArray:
        forces = np.linspace(0, force, len(state))[:, None] + noise.normal(0, 0.05, (len(state), 3))
        return np.hstack([state, forces]).astype(np.float32)

    known = known_successes(
        [pressed(reach(draw), draw.uniform(1.0, 3.0)) for _ in range(64)],
        [*(f"joint_{n}" for n in range(6)), "force_x", "force_y", "force_z"],
        [False] * 6 + [True] * 3,
    )
    assert known is not None
    assert doubt(pressed(reach(draw), 4.5), known) is None
    found = doubt(pressed(reach(draw), 7.5), known)
    assert found is not None
    assert found.tripwire == "critic"
    assert re.match(r"it ended at force_[xyz] = 7\.\d+; 64 known successes were between \S+ and [23]", found.why)
    beside = pressed(reach(draw), 2.0)
    beside[:, 3] -= np.linspace(0, 0.2, len(beside), dtype=np.float32)
    found = doubt(beside, known)
    assert found is not None
    assert re.match(r"it ended at joint_3 = \S+; 64 known successes ended between", found.why)


def test_a_force_at_the_end_is_compared_with_forces_of_whole_rollouts() -> None:
    """A tuned program ends at the force with which the known successes press in between: it is believed."""
    draw, noise = random.Random(10), np.random.default_rng(10)

    def pressed(most: float, last: float) -> FloatArray:
        state = reach(draw)
        force = np.interp(np.arange(len(state)), [0, len(state) // 2, len(state) - 1], [0, most, last])[:, None]
        return np.hstack([state, force + noise.normal(0, 0.02, force.shape)]).astype(np.float32)

    known = known_successes([pressed(4.0, draw.uniform(0.5, 1.5)) for _ in range(64)], rates=[False] * 6 + [True])
    assert known is not None
    assert doubt(pressed(4.0, 3.9), known) is None, "2.4 above every known end, and their width is 1"
    assert doubt(pressed(6.5, 6.5), known) is None, "the known forces have a width of 4"
    found = doubt(pressed(8.5, 8.5), known)
    assert found is not None
    assert found.tripwire == "critic"


def test_a_place_is_compared_with_the_places_where_successes_end_however_far_they_spread() -> None:
    """A door that stays shut passes the angles of doors that open, but no known success ends there."""
    draw, noise = random.Random(11), np.random.default_rng(11)

    def opened(degrees: float) -> FloatArray:
        state = reach(draw)
        angle = np.linspace(0, degrees, len(state))[:, None] + noise.normal(0, 0.1, (len(state), 1))
        return np.hstack([state, angle]).astype(np.float32)

    known = known_successes([opened(draw.uniform(60, 90)) for _ in range(64)])
    assert known is not None
    assert doubt(opened(95), known) is None
    found = doubt(opened(2), known)
    assert found is not None
    assert found.tripwire == "critic"


def test_the_known_successes_are_of_all_versions_alike() -> None:
    """Two champions that act alike each time do not crowd out the demonstrations."""
    rows = [
        DataRow(order_id=f"{version}{number}", sha256="", round=0, purpose="collect", policy_id=version, success=True)
        for version, count in (("first", 5000), ("second", 900), ("expert", 40))
        for number in range(count)
    ]
    chosen = Counter(row.policy_id for row in spread(rows))
    assert chosen["expert"] == 40
    assert sum(chosen.values()) <= MOST_KNOWN
    assert min(chosen["first"], chosen["second"]) >= 90
    assert spread(rows[:20]) == rows[:20]


def test_a_regime_may_be_much_faster_but_not_faster_than_the_robot_moves() -> None:
    draw = random.Random(9)
    known = known_successes([reach(draw, draw.randint(120, 200)) for _ in range(64)])
    assert known is not None
    assert [doubt(reach(draw, 80), known) for _ in range(20)] == [None] * 20
    found = doubt(reach(draw, 12), known)
    assert found is not None
    assert found.tripwire == "speed"
    assert re.match(
        r"it took 12 commands; its movement takes \d\d at the largest step of 64 known successes", found.why
    )


def test_a_sensor_that_only_has_noise_hides_no_arm_that_stands_still() -> None:
    draw, noise = random.Random(2), np.random.default_rng(2)

    def with_noise(state: np.ndarray) -> np.ndarray:
        return np.hstack([state, noise.normal(0, 1, (len(state), 1))]).astype(np.float32)

    known = known_successes([with_noise(reach(draw)) for _ in range(32)])
    assert known is not None
    assert known.moved[-1] == 0, "noise is no movement"
    assert doubt(with_noise(reach(draw)), known) is None
    still = np.repeat(reach(draw)[-1:], 90, axis=0)
    found = doubt(with_noise(still), known)
    assert found is not None
    assert found.tripwire == "displacement"


def test_a_few_unlike_successes_among_many_hold_nothing() -> None:
    quarantine = Quarantine()
    for number in range(1, 9):
        quarantine.apply(suspected(number, 65 * number))
    assert not quarantine.due(), "1 of 65 is what chance gives"
    for number in range(9, 40):
        quarantine.apply(suspected(number, 520 + number))
    assert [held.tripwire for held in quarantine.due()] == ["critic"]


def test_a_gate_gap_needs_trials_and_more_than_ten_points() -> None:
    lucky = Compared(version=90, champion=40, n=100)
    assert gap_doubt(lucky, Compared(version=42, champion=40, n=100))
    assert not gap_doubt(lucky, Compared(version=2, champion=2, n=5))
    assert not gap_doubt(lucky, Compared(version=70, champion=40, n=100))
