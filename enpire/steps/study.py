"""The work of a study's session: its turn of the loop, and when it ends. Its records are those of a campaign."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from enpire.campaign.session_events import CampaignEnded
from enpire.campaign.study_events import StudyAmended, StudyBegan
from enpire.errors import UsageError
from enpire.files import document
from enpire.lab import Lab
from enpire.steps.dispatch import dispatch
from enpire.steps.ending import Ending
from enpire.steps.handle_commands import handle_commands
from enpire.steps.record import record, robot_time
from enpire.study.arms import block_key
from enpire.study.plan import StudyPlan, changes_between, require_amendable
from enpire.study.results import StudyRecord, readings, study_record
from enpire.study.schedule import StudyScheduler


@dataclass(slots=True)
class StudyWork:
    """One study in one session."""

    plan: StudyPlan
    """The study file."""
    arms: Mapping[str, str]
    """Name of each arm -> id of its version, in the home."""
    by: str
    """Who runs it."""
    amend: str = ""
    """Why the file differs from the plan in the ledger; empty refuses a file that differs."""
    record: StudyRecord = field(init=False)
    scheduler: StudyScheduler = field(init=False)
    _read: tuple[int, int] = (-1, -1)
    """(complete blocks, labels) at the last reading of the tests."""

    def begin(self, lab: Lab) -> None:
        """Begin or resume the study of this lab's campaign.

        Raises:
            UsageError: the file or a version differs from the study's first event, and the difference is no amendment.
        """
        campaign_id = lab.state.campaign_id
        self.plan = replace(self.plan, control=self.plan.reference)
        found = study_record(lab.ledger, lab.home, campaign_id)
        if found is None:
            lab.write(StudyBegan(plan=document(self.plan), arms=dict(self.arms)))
            found = study_record(lab.ledger, lab.home, campaign_id)
        assert found is not None, "its first event is in the ledger"
        self.record = found
        self._amend(lab)
        trials = self.record.trials
        self.scheduler = StudyScheduler(
            trials, lab.start, partial(block_key, lab.home, campaign_id), partial(_is_connected, lab)
        )
        lab.scheduler = self.scheduler
        lab.event_observers.insert(0, trials.apply)

    def _amend(self, lab: Lab) -> None:
        trials = self.record.trials
        if changed := sorted(name for name, version in self.arms.items() if self.record.arms.get(name) != version):
            raise UsageError(
                f"The study {self.plan.name!r} began with another version of the arm {changed[0]!r}; name the same "
                "versions, or begin a study of another name."
            )
        changes = changes_between(trials.plan, self.plan)
        if not changes:
            return
        require_amendable(trials.plan, changes)
        if not self.amend:
            raise UsageError(
                f"The file of the study {self.plan.name!r} changes {', '.join(sorted(changes))}; say why with "
                "--amend REASON, which the report shows, or restore the file."
            )
        event = StudyAmended(by=self.by, reason=self.amend, changes=changes, after=trials.complete)
        lab.write(event)
        trials.apply(event)

    def turn(self, lab: Lab) -> None:
        """Run each step of a study once."""
        handle_commands(lab)
        dispatch(lab)
        record(lab)
        lab.tick()

    def ending(self, lab: Lab) -> Ending | None:
        """How the session ends; None while trials are needed."""
        if lab.end_reason:
            return _ended(lab, lab.end_reason, over=lab.ends_campaign)
        trials = self.record.trials
        now = trials.complete, len(trials.labels)
        if now == self._read:
            return None
        self._read = now
        if any(found.answer == "open" for found in readings(trials).values()):
            return None
        self.scheduler.ended = True
        return _ended(lab, f"the study is complete after {trials.complete} blocks", reached=True)


def _ended(lab: Lab, reason: str, *, over: bool = True, reached: bool = False) -> Ending:
    if over:
        lab.write(robot_time(lab), CampaignEnded(reached=reached, reason=reason))
    return Ending(campaign_id=lab.state.campaign_id, reached=reached, reason=reason, over=over, home=lab.home.root)


def _is_connected(lab: Lab, station: str) -> bool:
    found = lab.stations.get(station)
    return found is not None and found.away_since_s is None
