"""The results of a study. The words "better" and "worse" come from the test alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from enpire.campaign.events import LedgerEntry, kinds_of
from enpire.campaign.ledger import Ledger
from enpire.campaign.order_events import EpisodeLabelled, OrdersEnded, OrdersIssued
from enpire.campaign.session_events import CampaignEnded, CampaignStarted
from enpire.campaign.study_events import StudyAmended, StudyBegan, StudyEvent, StudyOpened, StudyUnblinded
from enpire.errors import LedgerProblem
from enpire.gate.intervals import sequence
from enpire.gate.rule import rule_version
from enpire.home import Home
from enpire.study.arms import blind_ids
from enpire.study.plan import StudyPlan, stored_plan
from enpire.study.tests_of_pairs import Answer, Reading, read
from enpire.study.trials import StudyTrials

_KINDS = kinds_of(StudyEvent, OrdersIssued, OrdersEnded, EpisodeLabelled, CampaignEnded)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmResult:
    """One arm over the complete blocks."""

    name: str
    version: str
    successes: int
    n: int
    low: float
    """Bounds of its success rate by a 95 % confidence sequence."""
    high: float
    unsafe: int
    other: int
    """Trials that were aborted or invalid; they count as failures."""
    repeats: int
    """Trials that an interruption ended and that ran again; they do not count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonResult:
    """One arm against the control."""

    arm: str
    control: str
    answer: Answer
    blocks: int
    """Blocks that the test has read."""
    wins: int
    losses: int
    difference: float
    low: float
    high: float
    """Bounds of the difference, by a confidence sequence at the level of the comparison."""
    evidence: float
    need: float | None
    """None where no evidence is enough yet."""
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """An amendment of the plan, or an early look at the results."""

    by: str
    reason: str
    what: str
    after: int
    """Complete blocks at that time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyReport:
    """What a study shows."""

    name: str
    campaign_id: str
    hypothesis: str
    test: str
    alpha: float
    blocks: int
    planned: int
    ended: str
    """Why the study ended; empty while it has not."""
    waits_for_label: tuple[str, ...]
    """Episodes whose trial waits for a person's label."""
    arms: tuple[ArmResult, ...]
    """Empty while the study is blinded."""
    comparisons: tuple[ComparisonResult, ...]
    """Empty while the study is blinded."""
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyRecord:
    """A study as a ledger has it."""

    campaign_id: str
    arms: dict[str, str]
    """Name of each arm -> id of its version."""
    trials: StudyTrials
    ended: str


def study_record(ledger: Ledger, home: Home, wanted: str) -> StudyRecord | None:
    """The newest study of a name, or of the id of its campaign; None if the ledger has none."""
    return _record(ledger, wanted, partial(blind_ids, home))


def unblinded_record(ledger: Ledger, campaign_id: str) -> StudyRecord | None:
    """The study of a campaign whose ledger says which arm ran in each trial; None if it does not say so."""
    ids: dict[str, Mapping[str, str]] = {}
    for entry in ledger.events(kinds=kinds_of(StudyUnblinded)):
        if isinstance(entry.event, StudyUnblinded):
            ids[entry.campaign_id] = entry.event.arms
    if campaign_id not in ids:
        return None
    return _record(ledger, campaign_id, lambda campaign, versions: _checked(ids[campaign], versions))


def _checked(ids: Mapping[str, str], versions: Mapping[str, str]) -> Mapping[str, str]:
    """The ids if each arm has one, and no other name has; the file may come from another site."""
    if sorted(ids.values()) != sorted(versions):
        raise LedgerProblem("The event that ends the blinding of the study does not name each of its arms once.")
    return ids


def _record(
    ledger: Ledger, wanted: str, ids_of: Callable[[str, Mapping[str, str]], Mapping[str, str]]
) -> StudyRecord | None:
    """`ids_of`: id of the campaign, name of each arm -> its version; gives id at the stations -> name of the arm."""
    found: LedgerEntry | None = None
    rules: dict[str, int] = {}
    for entry in ledger.events(kinds=kinds_of(CampaignStarted, StudyBegan)):
        if isinstance(entry.event, CampaignStarted):
            rules[entry.campaign_id] = rule_version(entry.event.campaign)
        if isinstance(entry.event, StudyBegan) and wanted in (entry.event.plan.get("name"), entry.campaign_id):
            found = entry
    if found is None or not isinstance(found.event, StudyBegan):
        return None
    arms, ended = dict(found.event.arms), ""
    plan = stored_plan(found.event.plan, {}, wanted)
    trials = StudyTrials(plan, ids_of(found.campaign_id, arms))
    trials.reissues.rule_version = max(2, rules.get(found.campaign_id, 2))  # no study was limited by version 1
    for entry in ledger.events(after=found.seq, kinds=_KINDS):
        if entry.campaign_id == found.campaign_id:
            trials.apply(entry.event)
            ended = entry.event.reason if isinstance(entry.event, CampaignEnded) else ended
    return StudyRecord(campaign_id=found.campaign_id, arms=arms, trials=trials, ended=ended)


def readings(trials: StudyTrials) -> dict[str, Reading]:
    """What the test says of each arm that is compared with the control."""
    return {arm: read(trials.pairs(arm), trials.plan.design) for arm in trials.plan.others}


def report(record: StudyRecord) -> StudyReport:
    """What the study shows. It is blinded until it ends or a person opens it."""
    trials, plan = record.trials, record.trials.plan
    visible = bool(record.ended or trials.opened)
    return StudyReport(
        name=plan.name, campaign_id=record.campaign_id, hypothesis=plan.hypothesis, test=plan.test, alpha=plan.alpha,
        blocks=trials.complete, planned=plan.blocks, ended=record.ended,
        waits_for_label=tuple(trials.waits_for_label()),
        arms=tuple(_arm(record, name) for name in plan.names) if visible else (),
        comparisons=tuple(_comparison(plan, arm, found) for arm, found in readings(trials).items()) if visible else (),
        changes=_changes(trials),
    )  # fmt: skip


def _arm(record: StudyRecord, name: str) -> ArmResult:
    trials = record.trials
    outcomes = [trials.outcome(block, name) for block in range(trials.complete)]
    found = sequence(outcomes.count("success"), len(outcomes))
    return ArmResult(
        name=name, version=record.arms[name], successes=found.successes, n=found.n, low=found.low, high=found.high,
        unsafe=outcomes.count("unsafe"), other=outcomes.count("aborted") + outcomes.count("invalid"),
        repeats=trials.repeats[name],
    )  # fmt: skip


def _comparison(plan: StudyPlan, arm: str, found: Reading) -> ComparisonResult:
    tally = found.tally
    return ComparisonResult(
        arm=arm, control=plan.reference, answer=found.answer, blocks=tally.pairs, wins=tally.wins,
        losses=tally.losses, difference=(tally.wins - tally.losses) / max(1, tally.pairs), low=found.low,
        high=found.high, evidence=found.evidence, need=found.need if found.need < float("inf") else None,
        sentence=_sentence(plan, arm, found),
    )  # fmt: skip


def _sentence(plan: StudyPlan, arm: str, found: Reading) -> str:
    control, tally = plan.reference, found.tally
    counts = f"{arm} alone succeeds in {tally.wins} of {tally.pairs} blocks, {control} alone in {tally.losses}"
    within = f"the difference lies between {100 * found.low:+.1f} and {100 * found.high:+.1f} points"
    match found.answer:
        case "better" | "worse":
            return f"{arm} is {found.answer} than {control}: {counts}; {within}."
        case "not shown":
            return f"The study does not show that {arm} and {control} differ: {counts}; {within}."
        case "open":
            return f"The test of {arm} against {control} has not ended: {counts}; {within}."


def _changes(trials: StudyTrials) -> tuple[Change, ...]:
    events: list[StudyAmended | StudyOpened] = [*trials.amendments, *trials.opened]
    return tuple(
        Change(
            by=event.by, reason=event.reason, after=event.after,
            what="results opened" if isinstance(event, StudyOpened)
            else ", ".join(f"{key} is now {value}" for key, value in event.changes.items()),
        )
        for event in sorted(events, key=lambda one: one.after)
    )  # fmt: skip
