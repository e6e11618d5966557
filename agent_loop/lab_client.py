"""An agent's connection to the lab: it reads the ledger and leaves requests, which the loop answers with events."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from enpire.campaign import agent_events as events
from enpire.campaign.agent_events import AgentTurned, BriefRead, ModelCalled, OfRequest, TokensSpent
from enpire.campaign.branch_plan import BranchPlan, Sharing
from enpire.campaign.campaign import CodePlan
from enpire.campaign.events import kinds_of
from enpire.campaign.recipe import Recipe
from enpire.campaign.session_events import CampaignStarted
from enpire.campaign.sharing import visible
from enpire.errors import EnpireError, UsageError
from enpire.files import canonical, parse
from enpire.queries.models import CampaignView
from enpire.service import code, reading
from enpire.service.asking import AGENT_EVENTS, Proposals, RequestKind, Sender, leave_request
from enpire.service.skills import SkillView, skill_library
from enpire.types import Order

LONGEST_WHY = 1000
"""Most characters of a refusal."""
TIMEOUT_S = 30.0
"""Longest time to wait for the answer to a request, in seconds."""
POLL_S = 0.1
Answer = OfRequest | events.RequestRefused
"""An event that answers a request."""


class RequestRefused(EnpireError):
    """The loop refused a request of an agent; the text says why."""


@dataclass(slots=True)
class LabClient:
    """One agent session in one campaign. Any thread may use it: every query opens the ledger anew."""

    home: Path
    sender: Sender
    call_id: str = ""
    """Of the tool call in progress: a request of the same call, made again, is answered as before. Empty: no repeat."""

    def plan(self) -> BranchPlan:
        """The campaign's plan of branches, which says what agent sessions know of each other."""
        return self._section(BranchPlan, "branches")

    def allows_code(self) -> bool:
        """Whether the campaign allows code candidates."""
        return self._section(CodePlan, "code").allowed

    def _section[T](self, kind: type[T], key: str) -> T:
        """A section of the campaign file, as the campaign began with it."""
        with reading.open_records(self.home) as records:
            started = records.reading.events(0, self.sender.campaign_id, kinds_of(CampaignStarted), limit=1)
        written = [entry.event.campaign for entry in started if isinstance(entry.event, CampaignStarted)]
        return parse(kind, written[0].get(key, {}) if written else {}, f"The section {key} of the campaign")

    def sharing(self) -> Sharing:
        """What this session knows of the others."""
        plan = self.plan()
        return "isolated" if plan.isolates(self.sender.lane) else plan.sharing

    def proposals(self) -> Proposals:
        """The hypotheses, experiments and conclusions so far that this session may see (`enpire.campaign.sharing`)."""
        return visible(self._all_proposals(), self.plan(), self.sender.lane)

    def hides(self, order: Order) -> bool:
        """Whether an episode shows another session's work that this session must not see."""
        return self.hidden_work()(order.policy_id, order.branch)

    def hidden_work(self) -> Callable[[str, str], bool]:
        """Says for (version, experiment of the branch or empty) whether its rollouts are work that must not be seen.

        A session sees the search rollouts of another one only where everything is shared. An isolated session also does
        not see the rollouts of a champion that another session made.
        """
        lane, plan, experiments = self.sender.lane, self.plan(), self._all_proposals().experiments

        def hides(policy_id: str, branch: str) -> bool:
            makers = [one for one in experiments.values() if policy_id and one.policy_id == policy_id]
            if branch in experiments:
                makers = [experiments[branch]]
            elif not plan.isolates(lane):
                return False
            return any(plan.between(lane, one.lane) != "adopt" for one in makers)

        return hides

    def skills(self) -> tuple[SkillView, ...]:
        """The confirmed skills of the home that this session may use."""
        plan, sender = self.plan(), self.sender

        def hides(campaign_id: str, lane: str) -> bool:
            return campaign_id == sender.campaign_id and plan.between(sender.lane, lane) != "adopt"

        with reading.open_records(self.home) as records:
            return skill_library(records, hides)

    def _all_proposals(self) -> Proposals:
        """All hypotheses, experiments and conclusions so far; no tool may answer with them."""
        proposals, after = Proposals(), 0
        with reading.open_records(self.home) as records:
            while page := records.reading.events(after, self.sender.campaign_id, AGENT_EVENTS):
                for entry in page:
                    proposals.apply(entry.event)
                after = page[-1].seq
        return proposals

    def campaign(self) -> CampaignView:
        """The state of the campaign."""
        with reading.open_records(self.home) as records:
            return reading.campaign_view(records, self.sender.campaign_id)

    def recipe(self, proposals: Proposals) -> Recipe:
        """The recipe in force, with its search space.

        Raises:
            UsageError: the campaign's recipe declares no search space.
        """
        if proposals.declared is None:
            raise UsageError(
                "This campaign's recipe declares no `space`, so agents cannot change any setting; "
                "add `space` to the recipe file."
            )
        return proposals.recipe_in_force(proposals.declared)

    def request(self, kind: RequestKind, content: Mapping[str, object]) -> Answer:
        """Send a request to the loop and wait for the event that answers it.

        Raises:
            RequestRefused: the loop refused the request; one sentence says why.
            UsageError: no campaign runs here, or the loop did not answer in time.
        """
        self._require_loop()
        with reading.open_records(self.home) as records:
            tail = records.reading.tail(1)
            after = tail[-1].seq if tail else 0
            request_id = self._request_id(kind)
            if request_id and (answers := _answers(records, 0, self.sender.campaign_id, request_id)):
                return _accepted(answers)
            request_id = leave_request(self.home / "inbox", self.sender, kind, content, request_id)
            deadline = time.monotonic() + TIMEOUT_S
            while time.monotonic() < deadline:
                answers = _answers(records, after, self.sender.campaign_id, request_id)
                if answers:
                    return _accepted(answers)
                time.sleep(POLL_S)
        raise UsageError(f"The loop did not answer within {TIMEOUT_S:.0f} s. It may be busy; send the request again.")

    def submit_code(self, files: Mapping[str, str], hypothesis_id: str, parent_experiment: str = "") -> Answer:
        """Check the files of a code candidate, commit them, and ask the loop to try them; returns its answer.

        Files that break a rule are refused by an event, too, and nothing of them is kept.

        Raises:
            RequestRefused: they are refused; one sentence says why.
            UsageError: no campaign runs here, or the loop did not answer in time.
        """
        if answers := self._earlier("code"):
            return _accepted(answers)
        if mine := self._all_proposals().in_the_way(self.sender.lane):
            raise RequestRefused(f"Your experiment {mine[0].experiment_id} is not decided yet; wait for it.")
        proposals = self.proposals()
        parent = proposals.experiments.get(parent_experiment)
        continued = (parent.commit if parent else "") or proposals.code_base.get(self.sender.lane, "")
        proposed = proposals.hypotheses.get(hypothesis_id)
        message = proposed.hypothesis.statement if proposed else hypothesis_id
        content = {"hypothesis_id": hypothesis_id, "parent_experiment": parent_experiment}
        try:
            kept = code.keep_submission(
                self.home, files, continued, message, f"{self.sender.author} {self.sender.lane}"
            )
        except UsageError as problem:
            return self.request("code", {**content, "refused": str(problem)[:LONGEST_WHY]})
        try:
            return self.request("code", {**content, "commit": kept.commit})
        finally:
            code.drop_submission(self.home, kept)

    def _request_id(self, kind: RequestKind) -> str:
        """The id of the request of a call that may be made again; empty for a new id."""
        if not self.call_id:
            return ""
        sender = self.sender
        named = canonical([sender.campaign_id, sender.author, sender.lane, self.call_id, kind])
        return f"call-{hashlib.sha256(named.encode()).hexdigest()[:40]}"

    def _earlier(self, kind: RequestKind) -> list[Answer]:
        """The events that answered the request of a call before; none for a call that is not made again."""
        if not (request_id := self._request_id(kind)):
            return []
        with reading.open_records(self.home) as records:
            return _answers(records, 0, self.sender.campaign_id, request_id)

    def send(self, kind: RequestKind, content: Mapping[str, object]) -> bool:
        """Send a request without waiting for its event; False when no campaign runs here."""
        if not reading.is_driven(self.home):
            return False
        leave_request(self.home / "inbox", self.sender, kind, content)
        return True

    def is_over(self) -> bool:
        """Whether the campaign has ended, or no orchestrator runs it."""
        with reading.open_records(self.home) as records:
            past = reading.history(records, self.sender.campaign_id, reading.MARKS)
        return past.ended is not None or not reading.is_driven(self.home)

    def newest(self) -> int:
        """The `seq` of the last event that concerns agents."""
        with reading.open_records(self.home) as records:
            return _newest(records, 0, self.sender.campaign_id)

    def wait(self, after: int, timeout_s: float) -> int:
        """Wait for an event that concerns agents and is newer than `after`; returns the `seq` of the newest one."""
        deadline = time.monotonic() + timeout_s
        with reading.open_records(self.home) as records:
            while (newest := _newest(records, after, self.sender.campaign_id)) == after:
                if time.monotonic() >= deadline or not reading.is_driven(self.home):
                    break
                time.sleep(POLL_S * 2)
        return newest

    def _require_loop(self) -> None:
        if not reading.is_driven(self.home):
            raise UsageError(f"No campaign runs in {self.home}; `enpire run` starts or resumes one.")


_IRRELEVANT = kinds_of(BriefRead, AgentTurned, TokensSpent, ModelCalled, events.RequestRefused)
RELEVANT = tuple(kind for kind in AGENT_EVENTS if kind not in _IRRELEVANT)
"""Kinds of events that may change what an agent does next."""


def _newest(records: reading.Records, after: int, campaign_id: str) -> int:
    newest = after
    while page := records.reading.events(newest, campaign_id, RELEVANT):
        newest = page[-1].seq
    return newest


def _answers(records: reading.Records, after: int, campaign_id: str, request_id: str) -> list[Answer]:
    found: list[Answer] = []
    while page := records.reading.events(after, campaign_id, AGENT_EVENTS):
        events_of = (entry.event for entry in page)
        found += [event for event in events_of if isinstance(event, Answer) and event.request_id == request_id]
        after = page[-1].seq
    return found


def _accepted(answers: list[Answer]) -> Answer:
    for event in answers:
        if isinstance(event, events.RequestRefused | events.ExperimentRefused):
            raise RequestRefused(event.why)
    return answers[0]
