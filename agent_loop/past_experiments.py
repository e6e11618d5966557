"""What came of the decided experiments of this campaign, and of earlier ones of the same task in this home.

Gains, pairs, decision and cost are computed from the ledger. `claim`, `tried`, `diff` and `agents_words` are the words
and the code of agents.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from itertools import accumulate, islice
from pathlib import Path

from agent_loop.failure_evidence import failure_clusters, key_frame
from agent_loop.lab_client import LabClient
from enpire.campaign.agent_events import AgentStarted, ExperimentSubmitted, ModelCalled, TokensSpent
from enpire.campaign.branch_events import BranchEvent
from enpire.campaign.events import kinds_of
from enpire.errors import EnpireError
from enpire.files import canonical, plain
from enpire.gate.reasons import reason_text
from enpire.service import code, reading
from enpire.service.asking import AGENT_EVENTS, BranchMeasure, Experiment, LaneSpending, Proposals, Spendings

LARGEST = 12 * 1024
"""Most bytes of all entries in a brief; the newest are kept."""
MOST_CAMPAIGNS = 8
"""Campaigns that are read, the newest, with the present one."""
MOST_DIFFS, DIFF_LINES, LONGEST_TEXT = 3, 40, 300
"""Entries that show the changed lines of their code, lines of one, and characters of a sentence."""
MOST_FAILURES, MOST_IMAGES = 4, 2
"""Entries that show how their version failed, the newest, and those of them that name a camera image."""
LARGEST_DIFF = LARGEST_CHANGES = 2 * 1024
"""Most bytes of the lines, and of the settings, of one entry, so that the newest one always fits into a brief."""
MEASURES = kinds_of(ModelCalled, TokensSpent, AgentStarted, ExperimentSubmitted, BranchEvent)
"""Kinds of events that say what experiments cost and what their search showed."""


@dataclass(slots=True)
class CampaignRecord:
    """What the events of one campaign say about its experiments."""

    campaign_id: str
    proposals: Proposals = field(default_factory=Proposals)
    spendings: Spendings = field(default_factory=Spendings)
    searched: dict[str, BranchMeasure] = field(default_factory=dict[str, BranchMeasure])
    """Experiment -> what its search showed."""

    after: int = 0
    """Number of the last event that was read."""

    def follow(self, records: reading.Records, *, with_proposals: bool = True) -> CampaignRecord:
        """Read the events that came since; returns the record."""
        kinds = AGENT_EVENTS if with_proposals else MEASURES
        while page := records.reading.events(self.after, self.campaign_id, kinds):
            for entry in page:
                if with_proposals:
                    self.proposals.apply(entry.event)
                if isinstance(entry.event, ModelCalled | TokensSpent | AgentStarted | ExperimentSubmitted):
                    self.spendings.apply(entry.event)
                if isinstance(entry.event, BranchMeasure):
                    self.searched[entry.event.experiment_id] = entry.event
            self.after = page[-1].seq
        return self


_EARLIER: dict[tuple[Path, str], CampaignRecord] = {}
_EARLIER_LOCK = threading.Lock()


def earlier_campaign(home: Path, records: reading.Records, campaign_id: str) -> CampaignRecord:
    """The record of an earlier campaign. This process reads its events once, as it does not change any more."""
    with _EARLIER_LOCK:
        record = _EARLIER.setdefault((home.absolute(), campaign_id), CampaignRecord(campaign_id))
        return record.follow(records)


def past_experiments(client: LabClient, seen: Proposals) -> list[dict[str, object]]:
    """The decided experiments for an agent session, oldest first, at most LARGEST bytes together.

    Args:
        client: of the session.
        seen: the proposals of the present campaign that the session may see.
    """
    present = client.sender.campaign_id
    with reading.open_records(client.home) as records:
        lines = reading.campaigns(records)
        task = next(line.task for line in lines if line.id == present)
        ids = [present, *(line.id for line in lines if line.task == task and line.id != present)]
        earlier = (earlier_campaign(client.home, records, one) for one in ids[1:MOST_CAMPAIGNS])
        read = [CampaignRecord(present, seen).follow(records, with_proposals=False), *earlier]
        newest = (
            (record, one) for record in read for one in reversed(record.proposals.experiments.values())
            if one.phase == "decided"
        )  # fmt: skip
        found: list[dict[str, object]] = []
        left, diffs = LARGEST, MOST_DIFFS
        failures = Failures(client, records, task)
        for record, experiment in newest:
            entry = _entry(record, experiment, client.home if diffs else None)
            entry |= failures.of(record.campaign_id, experiment)
            diffs -= "diff" in entry
            left -= len(canonical(entry).encode()) + 1
            if left < 0:
                break
            found.append(entry)
    return found[::-1]


class Failures:
    """How the versions of the newest experiments failed on train starts, as far as the session may see it."""

    def __init__(self, client: LabClient, records: reading.Records, task: str) -> None:
        self._client, self._records, self._task = client, records, task
        self._hides = client.hidden_work()
        self._left, self._images = MOST_FAILURES, MOST_IMAGES

    def of(self, campaign_id: str, experiment: Experiment) -> dict[str, object]:
        """The key `failures` of an entry; nothing without recordings, and beyond MOST_FAILURES entries.

        An example is named where `get_episode` shows it: in the present campaign.
        """
        if not self._left:
            return {}
        is_present = campaign_id == self._client.sender.campaign_id
        hides = self._hides if is_present else _hides_nothing
        found = failure_clusters(self._records, campaign_id, experiment.policy_id, self._task, hides)
        if not found:
            return {}
        self._left -= 1
        if not is_present:
            return {"failures": [{key: value for key, value in one.items() if key != "example"} for one in found]}
        if self._images and (image := key_frame(self._client, str(found[0]["example"]))):
            found[0]["key_frame"] = image["name"]
            self._images -= 1
        return {"failures": found}


def _hides_nothing(policy_id: str, branch: str) -> bool:
    """An earlier campaign is known to all sessions."""
    return False


def _entry(record: CampaignRecord, experiment: Experiment, home: Path | None) -> dict[str, object]:
    """One entry; with the changed lines of its code where the home is given."""
    proposed = record.proposals.hypotheses.get(experiment.hypothesis_id)
    measured, gate = record.searched.get(experiment.experiment_id), experiment.gate
    spent = record.spendings.experiments.get(experiment.experiment_id)
    return {
        "campaign": record.campaign_id,
        "experiment_id": experiment.experiment_id,
        "lane": experiment.lane,
        "claim": proposed.hypothesis.statement[:LONGEST_TEXT] if proposed else "",
        **_tried(experiment, home),
        "search_gain": _rounded(measured.gain, measured.low, measured.high) if measured and measured.n else None,
        "gate_gain": _rounded(experiment.delta, experiment.low, experiment.high) if gate else None,
        "pairs": gate.pairs if gate else 0,
        "decision": experiment.decision,
        "why": reason_text(experiment.why)[:LONGEST_TEXT],
        "cost": _cost(spent.view(experiment.lane, (0, 0.0)) if spent else None, measured),
        "agents_words": _words(record.proposals, experiment),
    }


def _tried(experiment: Experiment, home: Path | None) -> dict[str, object]:
    """The changed settings; of code the number of changed lines of each file, and the first of them."""
    if not experiment.commit:
        tried = plain(experiment.changes)
        if len(canonical(tried).encode()) > LARGEST_CHANGES:
            return {"tried": f"{len(experiment.changes)} settings, too long to be shown here"}
        return {"tried": tried}
    unread: dict[str, object] = {"tried": f"the code of commit {experiment.commit[:12]}"}
    if home is None:
        return unread
    try:
        changed = code.diff_of(home, experiment.commit)
    except EnpireError:  # the repository did not come along with the ledger
        return unread
    lines = (f"{one.path}: {line}" for one in changed.files for line in one.lines)
    shown = [line[:LONGEST_TEXT] for line in islice(lines, DIFF_LINES)]
    sizes = accumulate(len(canonical(line).encode()) for line in shown)
    shown = [line for line, size in zip(shown, sizes, strict=True) if size <= LARGEST_DIFF]
    return {"tried": {one.path: f"+{one.added} -{one.removed}" for one in changed.files}, "diff": shown}


def _cost(spent: LaneSpending | None, measured: BranchMeasure | None) -> dict[str, object]:
    """Tokens and money that the session spent since its experiment before; robot time of a branch, without its gate."""
    return {
        "tokens": spent.counted_for_budget if spent else 0,
        "money": dict(spent.money) if spent and not spent.calls_of_unknown_cost else None,
        "robot_min": round(measured.robot_s / 60, 1) if measured else None,
    }


def _words(proposals: Proposals, experiment: Experiment) -> str:
    """The newest conclusion of the experiment's own session about it, shortened."""
    about = (experiment.experiment_id, experiment.hypothesis_id)
    mine = [one.text for one in proposals.conclusions if one.lane == experiment.lane and one.about in about]
    return mine[-1][:LONGEST_TEXT] if mine else ""


def _rounded(*values: float) -> list[float]:
    """Rounded to one point, as all results of gates that agents read."""
    return [round(value, 2) for value in values]
