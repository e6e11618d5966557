"""95 % intervals that are clustered by seed: starts of one seed share a base and its rollouts, so they are one draw.

With two seeds or more an interval is a t-interval over seeds (Student 1908; for rates the linearised ratio, Cochran
1977, section 11.7). The interval of one seed says nothing about other seeds, and `head` prints that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from enpire.gate.intervals import wilson

CONFIDENCE = 0.95
LEAST_SEEDS = 5
"""With fewer seeds a claim neither passes nor fails: the mean of a few seeds is no result about seeds."""
RESAMPLES = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A mean or a rate with its 95 % interval."""

    mean: float
    low: float
    high: float


def mean_by_seed(groups: Sequence[npt.NDArray[np.floating]]) -> Estimate:
    """Mean of the means of seeds, from (values,) of each seed; empty seeds are left out.

    One seed has the bootstrap interval over its values.

    Raises:
        ValueError: no seed has a value.
    """
    filled = [group for group in groups if len(group)]
    if not filled:
        raise ValueError("There is no value to average: give at least one seed with one value.")
    if len(filled) == 1:
        return _bootstrap(filled[0])
    means = np.array([group.mean() for group in filled])
    half = _t(len(means)) * float(means.std(ddof=1)) / np.sqrt(len(means))
    return Estimate(mean=float(means.mean()), low=float(means.mean() - half), high=float(means.mean() + half))


def mean_of(values: Sequence[float]) -> Estimate:
    """Mean over seeds of one number of each seed.

    Raises:
        ValueError: there is no number.
    """
    return mean_by_seed([np.array([value]) for value in values])


def rate_by_seed(successes: Sequence[int], trials: Sequence[int]) -> Estimate:
    """Success rate over seeds, in [0, 1], from the successes and trials of each; seeds without a trial are left out.

    Never shorter than the Wilson interval over all trials: if all seeds have the same rate, a t-interval has no length.
    """
    counts = [(won, n) for won, n in zip(successes, trials, strict=True) if n]
    won, n = np.array(counts, dtype=np.float64).reshape(-1, 2).T
    plain = wilson(int(won.sum()), int(n.sum()))
    if len(n) < 2:
        return Estimate(mean=plain.rate, low=plain.low, high=plain.high)
    residuals = (won - plain.rate * n) / n.mean()
    half = _t(len(n)) * float(np.sqrt((residuals**2).sum() / (len(n) - 1) / len(n)))
    low, high = max(0.0, plain.rate - half), min(1.0, plain.rate + half)
    return Estimate(mean=plain.rate, low=min(low, plain.low), high=max(high, plain.high))


def pooled_by_seed(statistic: Callable[[Sequence[int]], float], seeds: int) -> Estimate:
    """A statistic of the pooled data of all seeds, with the t-interval of its jackknife over seeds (Efron 1982).

    Args:
        statistic: its value on the pooled data of the seeds with these indices, each below `seeds`.
        seeds: number of seeds, 2 or more.
    """
    every = list(range(seeds))
    left = np.array([statistic([one for one in every if one != out]) for out in every])
    half = _t(seeds) * float(np.sqrt((seeds - 1) / seeds * ((left - left.mean()) ** 2).sum()))
    mean = statistic(every)
    return Estimate(mean=mean, low=mean - half, high=mean + half)


def exact_share(hits: float, n: int) -> Estimate:
    """Exact two-sided 95 % interval of a share (Clopper and Pearson 1934).

    Also for the mean of `n` numbers in [0, 1] with the sum `hits`: they vary no more than a share with this mean.
    """
    from scipy.stats import beta

    tail = (1 - CONFIDENCE) / 2
    low = float(beta.ppf(tail, hits, n - hits + 1)) if hits > 0 else 0.0
    high = float(beta.ppf(1 - tail, hits + 1, n - hits)) if hits < n else 1.0
    return Estimate(mean=hits / n, low=low, high=high)


def head(seeds: int, of: str = "starts", by: str = "seed") -> str:
    """The line that says which intervals a benchmark prints. `by`: what they are clustered by, with its number."""
    if seeds < 2:
        return f"intervals 95 %, over the {of} of one {by}: they say nothing about other {by}s"
    return f"intervals 95 %, clustered by {by}: t-intervals over {seeds} {by}s (rates: at least the Wilson interval)"


def _t(seeds: int) -> float:
    from scipy.stats import t

    return float(t.ppf((1 + CONFIDENCE) / 2, seeds - 1))


def _bootstrap(values: npt.NDArray[np.floating]) -> Estimate:
    random = np.random.default_rng(0)
    means = values[random.integers(len(values), size=(RESAMPLES, len(values)))].mean(axis=1)
    low, high = np.quantile(means, ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2))
    return Estimate(mean=float(values.mean()), low=float(low), high=float(high))
