"""Studies: plan one, run or resume it, read what it shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from enpire import plugins
from enpire.campaign.events import Event
from enpire.campaign.order_events import OrdersEnded, OrdersIssued
from enpire.campaign.study_events import StudyOpened, StudyUnblinded
from enpire.errors import UsageError
from enpire.home import Home
from enpire.lab import Lab
from enpire.loop import run
from enpire.offline.compare import EXPERT, find_version
from enpire.parts import TASKS
from enpire.queries.campaigns import is_driven
from enpire.service.datasets import import_version
from enpire.session import RunOptions, run_sessions
from enpire.steps.begin import require_reset
from enpire.steps.ending import Ending
from enpire.steps.study import StudyWork
from enpire.store.ledger import SqliteLedger, open_to_read
from enpire.study.arms import trial_code
from enpire.study.plan import StudyPlan, read_plan
from enpire.study.power import Power, table
from enpire.study.results import StudyRecord, StudyReport, report, study_record

__all__ = [
    "StudyPlan", "StudyPower", "open_results", "plan_power", "read_plan", "read_report", "require_study", "run_study",
    "write_beside",
]  # fmt: skip

GAINS = (0.05, 0.1, 0.15, 0.2, 0.3)
"""Gains over the control's success rate for which the plan shows the power."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyPower:
    """What numbers of blocks can tell."""

    plan: StudyPlan
    control: float
    """Assumed success rate of the control."""
    gains: tuple[float, ...]
    blocks: tuple[int, ...]
    power: tuple[tuple[Power, ...], ...]
    """For each number of blocks, for each gain."""


def plan_power(plan: StudyPlan, control: float, blocks: Sequence[int] = ()) -> StudyPower:
    """The power of a plan, if the control succeeds at the rate `control`, for its blocks and for other numbers.

    Raises:
        UsageError: no gain is possible over this rate.
    """
    gains = tuple(gain for gain in GAINS if control + gain <= 1.0)
    if not 0.0 < control < 1.0 or not gains:
        raise UsageError(f"The control's success rate must lie between 0 and {1 - GAINS[0]:g}, not {control:g}.")
    least = plan.looks if plan.test == "group_sequential" else 1
    chosen = blocks or [part for part in (plan.blocks // 4, plan.blocks // 2) if part >= least]
    numbers = tuple(sorted({*chosen, plan.blocks}))
    rows = table(plan.design, control, gains, numbers)
    return StudyPower(plan=plan, control=control, gains=gains, blocks=numbers, power=tuple(tuple(row) for row in rows))


def run_study(plan: StudyPlan, home: Home, by: str, amend: str, say: Callable[[str], None]) -> Ending:
    """Run a study, or resume it after an interruption, until its tests end.

    Args:
        plan: the study file.
        home: holds the versions; a folder is imported into it.
        by: who runs it.
        amend: why the file differs from the plan in the ledger; empty refuses such a file.
        say: prints one line; no line tells how a trial ended.

    Raises:
        UsageError: the study has ended, or began with another file.
        EnpireError: a version or another part is missing.
    """
    campaign = plan.campaign()
    TASKS.make(plan.task)
    if campaign.stations.count:
        plugins.require_name("drivers", campaign.stations.driver)
        require_reset(campaign)
    if (found := _record(home, plan.name)) is not None and found.ended:
        raise UsageError(
            f"The study {plan.name!r} has ended: `enpire study report {plan.name}` shows it. A study that is repeated "
            "until it shows a difference tests nothing; give a new question a new name."
        )
    work = StudyWork(plan=plan, arms={name: _version(home, one) for name, one in plan.arms.items()}, by=by, amend=amend)
    return run_sessions(campaign, home, RunOptions(), partial(_session, work, say))


def _session(work: StudyWork, say: Callable[[str], None], lab: Lab) -> Ending:
    work.begin(lab)
    lab.event_observers.append(partial(_say_trials, work, lab.home, say))
    return run(lab, work.turn, work.ending)


def _say_trials(work: StudyWork, home: Home, say: Callable[[str], None], event: Event) -> None:
    """Name each trial by its code as it begins and ends, without its arm and its outcome."""
    trials = work.record.trials
    planned = trials.plan.blocks * len(trials.plan.arms)
    if isinstance(event, OrdersIssued):
        for order in event.orders:
            done = len(trials.settled) + len(trials.open)
            say(
                f"trial {trial_code(home, order.order_id)} ({done} of at most {planned}): block {order.pair + 1}, "
                f"start {order.start.index + 1}, station {order.station}"
            )
    elif isinstance(event, OrdersEnded):
        for result in event.results:
            label = ""
            if trials.plan.outcome == "people" and result.order_id in trials.waits_for_label():
                label = f"; label it: enpire episodes judge {result.order_id} success (or failure, unsafe)"
            say(f"trial {trial_code(home, result.order_id)} has ended{label}")


def read_report(home: Home, wanted: str) -> StudyReport:
    """What a study shows; its results are hidden until it ends or a person opens them.

    Raises:
        UsageError: the home has no such study.
    """
    return report(require_study(home, wanted))


def open_results(home: Home, wanted: str, by: str, reason: str) -> None:
    """Record that a person reads the results of a study that has not ended.

    Raises:
        UsageError: the home has no such study, or it runs now.
        LedgerProblem: another campaign runs in the home.
    """
    found = require_study(home, wanted)
    if found.ended:
        return
    write_beside(home, found, StudyOpened(by=by, reason=reason, after=found.trials.complete))


def write_beside(home: Home, study: StudyRecord, event: StudyOpened | StudyUnblinded) -> None:
    """Add an event to a study that no session runs.

    Raises:
        UsageError: a session runs in the home.
        LedgerProblem: another process writes the ledger.
    """
    if is_driven(home.root):
        raise UsageError("A campaign or a study runs in this home; end it with Ctrl-C, then repeat this command.")
    ledger = SqliteLedger(home.ledger)
    try:
        ledger.append([event], study.campaign_id)
    finally:
        ledger.close()


def require_study(home: Home, wanted: str) -> StudyRecord:
    """The newest study of a name, or of the id of its campaign; UsageError if the home has none."""
    if (found := _record(home, wanted)) is None:
        raise UsageError(f"{home.root} holds no study {wanted[:80]!r}: `enpire study run FILE` begins one.")
    return found


def _record(home: Home, wanted: str) -> StudyRecord | None:
    if not home.ledger.is_file():
        return None
    ledger = open_to_read(home.ledger)
    try:
        return study_record(ledger, home, wanted)
    finally:
        ledger.close()


def _version(home: Home, wanted: str) -> str:
    """The id of an arm's version in the home; a folder is imported."""
    if wanted == EXPERT:
        return EXPERT
    folder = find_version(home, wanted)
    return folder.name if folder.parent == home.versions else import_version(home, folder)
