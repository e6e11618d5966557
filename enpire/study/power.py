"""What a number of trials can tell: the probability that a study of this design shows a difference that there is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from enpire.gate.e_values import log_e
from enpire.gate.intervals import log_choose
from enpire.study.tests_of_pairs import Design, least_leads, spending

SIMULATED = 1000
"""Simulated studies for each number of a group-sequential design; its standard error is at most 1.6 points."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """The true success rates of two arms."""

    control: float
    arm: float
    shared: float = 0.0
    """Share of the starts that decide the outcome alike for both arms, in [0, 1]; 0 needs the most trials."""

    @property
    def win(self) -> float:
        """Probability that only the arm succeeds in a block."""
        alone, alike = self.arm * (1 - self.control), max(0.0, self.arm - self.control)
        return (1 - self.shared) * alone + self.shared * alike

    @property
    def loss(self) -> float:
        """Probability that only the control succeeds in a block."""
        return Truth(control=self.arm, arm=self.control, shared=self.shared).win


@dataclass(frozen=True, slots=True, kw_only=True)
class Power:
    """What a study of one design would say of one truth."""

    better: float
    """Probability that it calls the arm better."""
    worse: float
    blocks: float
    """Mean number of blocks until the test ends."""


def power(design: Design, truth: Truth) -> Power:
    """The power of a design: exact for `anytime` and `fixed`, from `SIMULATED` studies for `group_sequential`."""
    if design.test == "anytime":
        return _of_anytime(design, truth)
    return _of_fixed(design, truth) if design.test == "fixed" else _of_looks(design, truth)


def table(design: Design, control: float, gains: Sequence[float], blocks: Sequence[int]) -> list[list[Power]]:
    """For each number of blocks, the power at each gain over the control's rate."""
    designs = [Design(test=design.test, blocks=n, looks=min(design.looks, n), alpha=design.alpha) for n in blocks]
    return [[power(one, Truth(control=control, arm=control + gain)) for gain in gains] for one in designs]


def _of_anytime(design: Design, truth: Truth) -> Power:
    """Follow the probability of every tally (wins, losses) that has not ended the test, block by block."""
    n = design.blocks
    ends = _ending_tallies(n, math.log(2 / design.alpha))
    mass = np.zeros((n + 1, n + 1))
    mass[0, 0] = 1.0
    better = worse = mean = 0.0
    for block in range(1, n + 1):
        mean += float(mass.sum())
        size = block + 1
        here = mass[:size, :size]
        moved = (1 - truth.win - truth.loss) * here
        moved[1:] += truth.win * here[:-1]
        moved[:, 1:] += truth.loss * here[:, :-1]
        won, lost = ends[:size, :size], ends[:size, :size].T
        better, worse = better + float(moved[won].sum()), worse + float(moved[lost].sum())
        moved[won | lost] = 0.0
        mass[:size, :size] = moved
    return Power(better=better, worse=worse, blocks=mean)


def _ending_tallies(n: int, need: float) -> npt.NDArray[np.bool_]:
    """(n + 1, n + 1): whether so many wins (rows) and losses (columns) call the arm better."""
    ends = np.zeros((n + 1, n + 1), np.bool_)
    least = 0
    for losses in range(n + 1):
        while least <= n - losses and log_e(least, losses) < need:
            least += 1
        if least > n - losses:
            break
        ends[least:, losses] = True
    return ends


def _of_fixed(design: Design, truth: Truth) -> Power:
    discordant = truth.win + truth.loss
    better = worse = 0.0
    for count, chance in enumerate(_binomial(design.blocks, discordant)):
        [least] = least_leads((count,), (design.alpha / 2,))
        # A lead of `least` or more: at least (count + least) / 2 wins.
        beyond = slice(-(-(count + least) // 2), None)
        won = truth.win / discordant if discordant else 0.0
        better += float(chance * _binomial(count, won)[beyond].sum())
        worse += float(chance * _binomial(count, 1 - won)[beyond].sum())
    return Power(better=better, worse=worse, blocks=design.blocks)


def _of_looks(design: Design, truth: Truth) -> Power:
    random = np.random.default_rng(0)
    looks = design.look_blocks
    allowed = tuple(spending(blocks / design.blocks, design.alpha / 2) for blocks in looks)
    steps = np.diff([0, *looks])
    shares = [truth.win, truth.loss, max(0.0, 1 - truth.win - truth.loss)]
    tallies = np.cumsum([random.multinomial(step, shares, SIMULATED) for step in steps], axis=0)
    better = worse = blocks = 0
    for study in range(SIMULATED):
        wins, losses = tallies[:, study, 0], tallies[:, study, 1]
        needs = least_leads(tuple(int(count) for count in wins + losses), allowed)
        ended = [look for look in range(len(looks)) if abs(int(wins[look] - losses[look])) >= needs[look]]
        last = ended[0] if ended else len(looks) - 1
        better += bool(ended) and int(wins[last] > losses[last])
        worse += bool(ended) and int(wins[last] < losses[last])
        blocks += looks[last]
    return Power(better=better / SIMULATED, worse=worse / SIMULATED, blocks=blocks / SIMULATED)


def _binomial(n: int, rate: float) -> npt.NDArray[np.float64]:
    """Probability of 0 .. n events, each with probability `rate`."""
    if not 0.0 < rate < 1.0:
        return np.eye(n + 1)[n if rate else 0]
    logs = [log_choose(n, k) + k * math.log(rate) + (n - k) * math.log1p(-rate) for k in range(n + 1)]
    return np.exp(logs)
