"""Several sites run the same study, each with its own ledger; together they may show what none of them shows alone.

The evidence of the pooled comparison is E(wins, losses) of all sites' discordant blocks (enpire/gate/e_values.py). If
the arm is no better at any site, each discordant block is a win at most half of the time, whatever happened before it
at any site. So E reaches 1/a with probability at most a, whatever rule ends each site's study. It is read once, at the
end, and does not depend on the order of the sites. "Better" means better at one site at least: sites may differ.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from enpire.errors import UsageError
from enpire.gate.e_values import difference, log_e
from enpire.gate.trials import Pair, Tally
from enpire.study.results import StudyRecord

PooledAnswer = Literal["better", "worse", "not shown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The study of one site, from its evidence file."""

    file: str
    head: str
    """SEQUENCE:HASH of the last event of its ledger."""
    verifier: str
    """Digest of the verifier that judged its trials."""
    limit_ticks: int
    """Time limit of its task."""
    record: StudyRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """The complete blocks of two arms, at one site or at all."""

    blocks: int
    wins: int
    """Blocks in which the arm alone succeeded."""
    losses: int
    """Blocks in which the control alone succeeded."""
    difference: float
    """Success rate of the arm minus that of the control, in [-1, 1]."""
    low: float
    """Bounds of the difference by a confidence sequence, if it is the same at every site that is counted."""
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PooledComparison:
    """One arm against the control, over all sites."""

    arm: str
    control: str
    answer: PooledAnswer
    counts: Counts
    sites: tuple[Counts, ...]
    """In the order of the files."""
    evidence: float
    """Log evidence of the side that leads, in nats."""
    need: float
    """The evidence that shows a difference."""
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PooledStudy:
    """What the studies of several sites show together."""

    task: str
    alpha: float
    arms: dict[str, str]
    """Name of each arm -> id of its version."""
    files: tuple[str, ...]
    heads: tuple[str, ...]
    comparisons: tuple[PooledComparison, ...]


def pool(sites: Sequence[Site]) -> PooledStudy:
    """The studies of several sites as one.

    Raises:
        UsageError: fewer than two sites, the same study twice, or studies that do not ask the same question.
    """
    if len(sites) < 2:
        raise UsageError("Pooling needs the evidence files of at least two sites.")
    first, *others = sites
    for site in sites:
        if site.record.trials.plan.test != "anytime":
            raise UsageError(
                f"The study in {site.file} has the test {site.record.trials.plan.test!r}, whose planned looks hold for "
                "one study alone; only studies with the test 'anytime' can be pooled."
            )
    for site in others:
        _require_same(first, site)
    twice = [one for one, number in Counter(site.record.campaign_id for site in sites).items() if number > 1]
    if twice:
        raise UsageError(f"The study {twice[0]} is given more than once; name each site's evidence file once.")
    plan = first.record.trials.plan
    return PooledStudy(
        task=plan.task, alpha=plan.alpha, arms=first.record.arms, files=tuple(site.file for site in sites),
        heads=tuple(site.head for site in sites), comparisons=tuple(_compare(sites, arm) for arm in plan.others),
    )  # fmt: skip


def pooled_answer(wins: int, losses: int, alpha: float) -> tuple[PooledAnswer, float, float]:
    """(answer, log evidence of the side that leads, the evidence that shows a difference), from all sites' blocks.

    Args:
        wins: blocks in which the arm alone succeeded.
        losses: blocks in which the control alone succeeded.
        alpha: largest probability of "better" or "worse" if the arm is no better and no worse at any site, in (0, 1).
    """
    evidence, need = max(log_e(wins, losses), log_e(losses, wins)), math.log(2 / alpha)
    return "not shown" if evidence < need else "better" if wins > losses else "worse", evidence, need


def _require_same(first: Site, site: Site) -> None:
    mine, its = first.record.trials.plan, site.record.trials.plan
    asked = {
        "task": (mine.task, its.task),
        "time limit": (first.limit_ticks, site.limit_ticks),
        "verifier": (first.verifier, site.verifier),
        "arms (their versions)": (first.record.arms, site.record.arms),
        "control": (mine.reference, its.reference),
        "alpha": (mine.alpha, its.alpha),
        "outcome": (mine.outcome, its.outcome),
    }
    if other := [name for name, (one, two) in asked.items() if one != two]:
        raise UsageError(
            f"The studies in {first.file} and {site.file} cannot be pooled: they differ in {', '.join(other)}. Sites "
            "must compare the same versions on the same task with the same verifier."
        )


def _compare(sites: Sequence[Site], arm: str) -> PooledComparison:
    plan = sites[0].record.trials.plan
    alpha = plan.design.alpha
    own = [_counts(site.record.trials.pairs(arm), alpha) for site in sites]
    all_sites = _counts([pair for site in sites for pair in site.record.trials.pairs(arm)], alpha)
    answer, evidence, need = pooled_answer(all_sites.wins, all_sites.losses, alpha)
    return PooledComparison(
        arm=arm, control=plan.reference, answer=answer, counts=all_sites, sites=tuple(own), evidence=evidence,
        need=need, sentence=_sentence(arm, plan.reference, answer, all_sites, len(sites)),
    )  # fmt: skip


def _counts(pairs: Sequence[Pair], alpha: float) -> Counts:
    tally = Tally()
    for pair in pairs:
        tally = tally.add(pair)
    low, high = difference(tally.wins, tally.losses, tally.both + tally.neither, 1 - alpha)
    return Counts(
        blocks=tally.pairs, wins=tally.wins, losses=tally.losses, low=low, high=high,
        difference=(tally.wins - tally.losses) / max(1, tally.pairs),
    )  # fmt: skip


def _sentence(arm: str, control: str, answer: str, counts: Counts, sites: int) -> str:
    found = (
        f"over {sites} sites {arm} alone succeeds in {counts.wins} of {counts.blocks} blocks, {control} alone in "
        f"{counts.losses}; the difference lies between {100 * counts.low:+.1f} and {100 * counts.high:+.1f} points if "
        "it is the same at every site."
    )
    if answer == "not shown":
        return f"The sites together do not show that {arm} and {control} differ: {found}"
    return f"{arm} is {answer} than {control} at one site at least: {found}"
