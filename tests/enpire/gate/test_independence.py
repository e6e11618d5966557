from __future__ import annotations

import random

import pytest

from enpire.gate.independence import LEAST_VOTES, SIGNIFICANT, Votes, independence
from tests.enpire.gate.test_gate import pair


def drawn(seed: int, *, drift: float, pairs: int = 200, block: int = 16) -> Votes:
    """A gate whose candidate wins a discordant pair with a probability that changes from block to block."""
    draw = random.Random(seed)
    winners: list[int] = []
    share = 0.5
    for number in range(pairs):
        if number % block == 0:
            share = 0.5 + draw.choice((-drift, drift))
        winners.append((1 if draw.random() < share else -1) if draw.random() < 0.4 else 0)
    return Votes(winners=tuple(winners), block=1)


def campaigns(drift: float, n: int) -> list[bool]:
    return [independence([drawn(seed * 10 + gate, drift=drift) for gate in range(3)]).found for seed in range(n)]


def test_independent_pairs_are_rarely_called_dependent() -> None:
    p = [independence([drawn(seed * 10 + gate, drift=0.0) for gate in range(3)]).p for seed in range(200)]
    below = sum(one is not None and one <= 0.1 for one in p) / 200
    assert 0.04 <= below <= 0.16, "p is uniform when pairs are independent"
    assert sum(one is not None and one <= SIGNIFICANT for one in p) <= 6


def test_strong_blocks_are_found() -> None:
    assert sum(campaigns(0.35, 20)) >= 19


def test_the_count_of_near_pairs_with_the_same_winner_is_exact() -> None:
    winners = (1, 0, 0, 0, 0, 0, 0, 0, 1, -1) + (0,) * 20 + (1, -1) * 9
    found = independence([Votes(winners=winners, block=1)])
    alike = sum(
        winners[i] == winners[j] != 0 for i in range(len(winners)) for j in range(i + 1, min(i + 9, len(winners)))
    )
    cast = sum(
        winners[i] * winners[j] != 0 for i in range(len(winners)) for j in range(i + 1, min(i + 9, len(winners)))
    )
    assert (found.votes, found.compared) == (21, cast)
    assert found.same == pytest.approx(alike / cast)
    assert found.p == independence([Votes(winners=winners, block=1)]).p


def test_a_gate_that_one_side_won_throughout_says_nothing() -> None:
    unanimous = Votes(winners=(1,) * 50, block=1)
    assert independence([unanimous]).votes == 0
    mixed = drawn(3, drift=0.35)
    assert independence([mixed, unanimous]).p == independence([mixed]).p


def test_too_few_votes_give_no_p() -> None:
    winners = (1, -1) * 9 + (0,) * 40 + (1,)
    few = independence([Votes(winners=winners, block=1)])
    assert (few.votes, few.p, few.found) == (LEAST_VOTES - 1, None, False)
    assert independence([Votes(winners=(*winners, -1), block=1)]).p is not None
    assert independence([]).p is None


def test_the_deciding_pair_does_not_count() -> None:
    pairs = [pair(0, "success", "failure"), pair(1, "failure", "success"), pair(2, "failure", "success")]
    assert Votes.of(pairs, 1).winners == (-1, 1)


def test_blocks_have_one_vote_each() -> None:
    kinds = ["success", "failure", "failure", "failure"] * 2 + ["failure"] * 3
    pairs = [pair(i, "failure", "success" if kind == "success" else "failure") for i, kind in enumerate(kinds)]
    votes = Votes.of(pairs, 4)
    assert votes.winners == (1,), "two whole blocks; the last one decided"
    assert (votes.near, Votes.of(pairs, 1).near, Votes.of(pairs, 16).near) == (2, 8, 1)
