"""Tripwires on successes: what they need, and that a new honest way of doing the task is not held by chance."""

from __future__ import annotations

import math
import random

import numpy as np

from enpire.campaign.quarantine import Quarantine
from enpire.campaign.quarantine_events import EpisodeSuspected
from enpire.gate.plausibility import LEAST_KNOWN, Compared, doubt, gap_doubt, known_successes
from enpire.honesty.of_success import reach


def suspected(number: int, successes: int) -> EpisodeSuspected:
    return EpisodeSuspected(
        experiment_id="e", policy_id="v", order_id=f"{number}", tripwire="critic", why="far", successes=successes
    )


def test_without_enough_known_successes_nothing_is_judged() -> None:
    draw = random.Random(1)
    assert known_successes([reach(draw) for _ in range(LEAST_KNOWN - 1)]) is None
    assert known_successes([reach(draw) for _ in range(LEAST_KNOWN)]) is not None


def test_repeated_rollouts_of_one_start_count_once() -> None:
    """They end alike, but the ends of two starts lie apart: an honest success from a new start must be believed."""
    draw = random.Random(4)
    once = [reach(draw) for _ in range(LEAST_KNOWN)]
    known, again = known_successes(once), known_successes([state for state in once for _ in range(3)])
    assert known is not None
    assert again is not None
    assert again.apart == known.apart > 0.05
    few = known_successes(once[:8] * 8)
    assert few is not None
    assert few.apart == math.inf, "8 starts are no evidence of where a success may end"
    assert doubt(reach(draw), few) is None


def test_versions_that_end_alike_from_one_start_count_once() -> None:
    draw, noise = random.Random(5), np.random.default_rng(5)
    once = [reach(draw) for _ in range(LEAST_KNOWN)]
    alike = [np.vstack([state[:-1], state[-1:] + noise.normal(0, 1e-3, (1, 6))]).astype(np.float32) for state in once]
    known, again = known_successes(once), known_successes([*once, *alike])
    assert known is not None
    assert again is not None
    assert again.apart > 0.8 * known.apart


def test_sensors_that_do_not_show_the_start_leave_the_tripwire() -> None:
    draw = random.Random(6)

    def from_rest() -> np.ndarray:
        return np.vstack([np.zeros((1, 6)), reach(draw)]).astype(np.float32)

    once = [from_rest() for _ in range(LEAST_KNOWN)]
    known, again = known_successes(once), known_successes([*once, *once])
    assert known is not None
    assert again is not None
    assert again.apart == known.apart < math.inf


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
