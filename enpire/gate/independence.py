"""Whether the pairs of a campaign's gates are independent, as the gate's error level assumes.

If a version's luck drifts for minutes, the same side wins several discordant pairs in a row. The test counts how often
two discordant pairs that are near each other have the same winner, and compares the count with random orders of the
winners within each gate. Pairs are taken in the order of their numbers, in which the gate reads them: in the order in
which they end, slow failures would lie together although pairs are independent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from enpire.gate.trials import Pair

NEAR = 8
"""Pairs that are at most so many numbers apart are compared."""
LEAST_VOTES = 20
"""With fewer discordant votes nothing is tested."""
SIGNIFICANT = 0.01
"""Largest p at which pairs count as dependent. It is read again after every gate, so it is below the usual 0.05."""
_ORDERS = 1999
"""Random orders of each gate; the smallest p is 1 / 2000."""
_SEED = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Votes:
    """The votes of one decided gate in the order of the pairs: 1 for the candidate, -1 for the champion, 0 for a tie.

    Only votes up to the decision count, and the last one does not: it decided the gate, so it is not a random one.
    """

    winners: tuple[int, ...]
    block: int
    """Pairs of one vote."""

    @classmethod
    def of(cls, pairs: Sequence[Pair], block: int) -> Votes:
        """The votes of the pairs that the gate used: of single pairs, or of whole blocks of them."""
        signs = [(pair.candidate.outcome == "success") - (pair.champion.outcome == "success") for pair in pairs]
        sums = (sum(signs[end - block : end]) for end in range(block, len(signs) + 1, block))
        return cls(winners=tuple((total > 0) - (total < 0) for total in sums)[:-1], block=block)

    @property
    def near(self) -> int:
        """Votes that are at most so many numbers apart are compared."""
        return max(1, NEAR // self.block)


@dataclass(frozen=True, slots=True, kw_only=True)
class Independence:
    """The result of the test over some gates."""

    gates: int
    """Gates in which each side won a vote; only their order of winners can say anything."""
    votes: int
    """Discordant votes of these gates."""
    compared: int
    """Two discordant votes near each other."""
    same: float | None
    """Share of the compared ones with the same winner, in [0, 1]; None if too few votes were cast."""
    expected: float | None
    """That share if the votes are independent."""
    p: float | None
    """Probability of at least this share if the votes are independent."""

    @property
    def found(self) -> bool:
        """Whether the votes are dependent."""
        return self.p is not None and self.p <= SIGNIFICANT


def independence(gates: Iterable[Votes]) -> Independence:
    """Test the votes of some gates; a Monte Carlo permutation test with a fixed seed, so it gives the same p again."""
    useful = [gate for gate in gates if {-1, 1} <= set(gate.winners)]
    counts = [_same_winner(gate, number) for number, gate in enumerate(useful)]
    votes = sum(len(gate.winners) - gate.winners.count(0) for gate in useful)
    compared = sum(number for number, _ in counts)
    if votes < LEAST_VOTES or not compared:
        return Independence(gates=len(useful), votes=votes, compared=compared, same=None, expected=None, p=None)
    import numpy as np  # reading verbs load numpy only for this test

    recorded, *random = np.sum([same for _, same in counts], axis=0).tolist()
    return Independence(
        gates=len(useful),
        votes=votes,
        compared=compared,
        same=recorded / compared,
        expected=sum(random) / _ORDERS / compared,
        p=(1 + sum(one >= recorded for one in random)) / (_ORDERS + 1),
    )


@lru_cache(maxsize=256)
def _same_winner(gate: Votes, number: int) -> tuple[int, npt.NDArray[np.int64]]:
    """Number of compared votes, and how many have the same winner (1 + _ORDERS,): as recorded, then in random orders.

    Ties keep their places: a gate assumes nothing about how often pairs are discordant, only about who wins them.
    """
    import numpy as np

    winners = np.array(gate.winners, np.int8)
    cast = np.flatnonzero(winners)
    orders = np.repeat(winners[None], 1 + _ORDERS, axis=0)
    random = np.random.default_rng((_SEED, number))
    orders[1:, cast] = random.permuted(orders[1:, cast], axis=1)
    compared, agreement = 0, np.zeros(1 + _ORDERS, np.int64)
    for apart in range(1, gate.near + 1):
        products = orders[:, apart:] * orders[:, :-apart]
        compared += int(np.count_nonzero(products[0]))
        agreement += products.sum(axis=1)
    return compared, (agreement + compared) // 2
