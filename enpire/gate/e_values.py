"""What pairs of trials prove, in logarithms: e-values that may be read after every pair.

An e-value is the wealth of somebody who bets against a hypothesis without ever having an edge if it is true: it
reaches 1/a with probability a at most, however often one looks (Ville's inequality).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from enpire.gate.intervals import crossing, log_choose

NO_END = 1_000_000
"""More pairs than anybody runs: no decision is in sight."""


@lru_cache(maxsize=1 << 16)
def log_e(wins: int, losses: int) -> float:
    """Log evidence that a discordant pair is a win more often than not.

    Likelihood ratio against a fair coin, averaged over q in (1/2, 1): log E = (W+L) log 2 + log B(W+1, L+1)
    + log(1 - I_half(W+1, L+1)) + log 2. For whole numbers 1 - I_half(W+1, L+1) is the probability of at most W heads
    in W+L+1 tosses, summed here in logarithms.
    """
    n = wins + losses
    heads = [log_choose(n + 1, k) for k in range(wins + 1)]
    top = max(heads)
    log_tail = top + math.log(math.fsum(math.exp(term - top) for term in heads)) - (n + 1) * math.log(2)
    log_beta = math.lgamma(wins + 1) + math.lgamma(losses + 1) - math.lgamma(n + 2)
    return (n + 1) * math.log(2) + log_beta + log_tail


def log_e_above(wins: int, losses: int, ties: int, bound: float) -> float:
    """Log evidence that the success rates differ, candidate minus champion, by more than `bound` in (-1, 1).

    Wealth of a gambler who bets on x in {-1, 0, 1} against a mean of at most `bound`: the product of
    1 + theta (x - bound) / (1 + bound), averaged over theta in (0, 1). It falls as the bound rises. Source: betting
    confidence sequences, Waudby-Smith and Ramdas 2023, with the mixture of Orabona and Jun 2023.
    """
    odds = _THETA / (1 + bound)
    with np.errstate(divide="ignore"):
        logs = wins * np.log1p(odds * (1 - bound)) + ties * np.log1p(-odds * bound)
        logs += losses * np.log1p(-_THETA)
    top = float(logs.max())
    return top + math.log(float(np.exp(logs - top).mean()))


_THETA = (np.arange(64) + 0.5) / 64


def difference(wins: int, losses: int, ties: int, confidence: float = 0.95) -> tuple[float, float]:
    """Confidence sequence of the difference in success rate, candidate minus champion: may be read after every pair."""
    need = math.log(2 / (1 - confidence))
    return _lowest(wins, losses, ties, need), -_lowest(losses, wins, ties, need)


def _lowest(wins: int, losses: int, ties: int, need: float) -> float:
    bound = crossing(lambda bound: need - log_e_above(wins, losses, ties, bound), -1 + 1e-9, 1 - 1e-9)
    return bound if bound > -1 + 2e-9 else -1.0


def pairs_until(wins: int, losses: int, pairs: int, need: float) -> int:
    """Pairs until the log evidence reaches `need` if every further pair is like the average of the `pairs` so far."""
    if wins <= losses:
        return NO_END

    def enough(more: int) -> bool:
        scale = 1 + more / pairs
        return log_e(round(wins * scale), round(losses * scale)) >= need

    more = 1
    while not enough(more):
        more *= 2
        if more > 50 * pairs + 1000:
            return NO_END
    low = more // 2
    while more - low > 1:
        middle = (low + more) // 2
        low, more = (low, middle) if enough(middle) else (middle, more)
    return more
