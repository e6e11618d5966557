"""Log evidence of pairs of trials: logarithms of e-values, which may be read after every pair.

An e-value is the wealth of a gambler who bets against a hypothesis at odds that are fair if it is true. It then reaches
1/a with probability at most a, however often it is read (Ville's inequality).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from enpire.gate.intervals import crossing, log_choose

NO_END = 1_000_000
"""A number of pairs that no gate runs: no decision is in sight."""


@lru_cache(maxsize=1 << 16)
def log_e(wins: int, losses: int) -> float:
    """Log evidence that more than half of the discordant pairs are wins.

    Likelihood ratio against a win probability of 1/2, averaged over q in (1/2, 1):
    log E = (W+L) log 2 + log B(W+1, L+1) + log(1 - I_half(W+1, L+1)) + log 2.
    For whole numbers 1 - I_half(W+1, L+1) is the probability of at most W heads in W+L+1 tosses, summed in logarithms.
    """
    n = wins + losses
    heads = [log_choose(n + 1, k) for k in range(wins + 1)]
    top = max(heads)
    log_tail = top + math.log(math.fsum(math.exp(term - top) for term in heads)) - (n + 1) * math.log(2)
    log_beta = math.lgamma(wins + 1) + math.lgamma(losses + 1) - math.lgamma(n + 2)
    return (n + 1) * math.log(2) + log_beta + log_tail


def log_e_of_many(wins: int, losses: int) -> float:
    """`log_e` to 1e-9, in a time that grows with the root of the number of pairs."""
    log_tail = (
        math.log1p(-math.exp(_log_half_beta(wins + 1, losses + 1)))
        if wins >= losses
        else _log_half_beta(losses + 1, wins + 1)
    )
    log_beta = math.lgamma(wins + 1) + math.lgamma(losses + 1) - math.lgamma(wins + losses + 2)
    return (wins + losses + 1) * math.log(2) + log_beta + log_tail


def _log_half_beta(a: int, b: int) -> float:
    """log I_half(a, b) for a >= b, by the continued fraction of the incomplete beta function.

    Source: DLMF 8.17.22, evaluated by the method of Lentz (1976) as Thompson and Barnett (1986) changed it.
    """
    c, d = 1.0, 1 / (1 - (a + b) / (a + 1) / 2)
    fraction, step, m = d, 0.0, 0
    while abs(step - 1) > 1e-12:
        m += 1
        even = m * (b - m) / (a + 2 * m - 1) / (a + 2 * m) / 2
        odd = -(a + m) * (a + b + m) / (a + 2 * m) / (a + 2 * m + 1) / 2
        for term in (even, odd):
            d, c = 1 / (1 + term * d), 1 + term / c
            step = c * d
            fraction *= step
    log_beta = math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
    return math.log(fraction) - (a + b) * math.log(2) - math.log(a) - log_beta


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
    return log_mean(logs)


@lru_cache(maxsize=1 << 10)
def log_e_mean_above(sums: tuple[int, ...], bound: float) -> float:
    """Log evidence, from blocks of pairs, that the success rates differ by more than `bound` in (-1, 1).

    The bet of `log_e_above` on the mean x of each block, in [-1, 1], candidate minus champion. Pairs of one block may
    depend on each other. Means of blocks vary little, so the best stake is often the largest: it has half the wealth.

    Args:
        sums: number of blocks with each sum, from -block to block: 2 block + 1 numbers.
        bound: the difference to exceed.
    """
    means = np.linspace(-1, 1, len(sums))
    growth = np.log1p(_THETA[:, None] * (means - bound) / (1 + bound))  # (stakes, sums)
    logs = growth @ np.asarray(sums, float)
    return float(np.logaddexp(log_mean(logs), logs[-1])) - math.log(2)


_THETA = (np.arange(64) + 0.5) / 64


def log_mean(logs: npt.NDArray[np.float64]) -> float:
    """The logarithm of the mean wealth over bets, from the logarithm of the wealth of each bet, shape (bets,)."""
    top = float(logs.max())
    return top + math.log(float(np.exp(logs - top).mean()))


@lru_cache(maxsize=1 << 12)
def log_e_rate_above(events: int, n: int, ceiling: float) -> float:
    """Log evidence that events happen at a rate above `ceiling` in (0, 1), after `events` in `n` trials.

    Likelihood ratio against the rate `ceiling`, averaged over rates in (ceiling, 1) with equally spaced logarithms.
    """
    rates = np.exp(math.log(ceiling) * (1 - _THETA))
    logs = events * np.log(rates / ceiling) + (n - events) * np.log((1 - rates) / (1 - ceiling))
    return log_mean(logs)


@lru_cache(maxsize=1 << 10)
def difference(wins: int, losses: int, ties: int, confidence: float = 0.95) -> tuple[float, float]:
    """Confidence sequence for the candidate's success rate minus the champion's; it may be read after every pair."""
    need = math.log(2 / (1 - confidence))
    return _lowest(wins, losses, ties, need), -_lowest(losses, wins, ties, need)


def _lowest(wins: int, losses: int, ties: int, need: float) -> float:
    bound = crossing(lambda bound: need - log_e_above(wins, losses, ties, bound), -1 + 1e-9, 1 - 1e-9)
    return bound if bound > -1 + 2e-9 else -1.0


def pairs_until(wins: int, losses: int, pairs: int, need: float) -> int:
    """Further pairs until the log evidence reaches `need`, if they are like the average of the `pairs` so far."""
    if wins <= losses:
        return NO_END

    def enough(more: int) -> bool:
        scale = 1 + more / pairs
        return log_e_of_many(round(wins * scale), round(losses * scale)) >= need

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
