"""What came of the decided experiments of this campaign, and of earlier ones of the same task in this home.

Gains, pairs, decision and cost are computed from the ledger. `claim`, `tried`, `diff` and `agents_words` are the words
and the code of agents.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate, islice
from pathlib import Path

from agent_loop.lab_client import LabClient
from enpire.campaign.agent_events import AgentStarted, ExperimentSubmitted, ModelCalled, TokensSpent
from enpire.errors import EnpireError
from enpire.files import canonical, plain
from enpire.service import code, reading
from enpire.service.asking import AGENT_EVENTS, BranchMeasure, Experiment, LaneSpending, Proposals, Spendings

LARGEST = 12 * 1024
"""Most bytes of all entries in a brief; the newest are kept."""
MOST_CAMPAIGNS = 8
"""Campaigns that are read, the newest, with the present one."""
MOST_DIFFS, DIFF_LINES, LONGEST_TEXT = 3, 40, 300
"""Entries that show the changed lines of their code, lines of one, and characters of a sentence."""
LARGEST_DIFF = LARGEST_CHANGES = 2 * 1024
"""Most bytes of the lines, and of the settings, of one entry, so that the newest one always fits into a brief."""


@dataclass(slots=True)
class CampaignRecord:
    """What the events of one campaign say about its experiments."""

    campaign_id: str
    proposals: Proposals = field(default_factory=Proposals)
    spendings: Spendings = field(default_factory=Spendings)
    searched: dict[str, BranchMeasure] = field(default_factory=dict[str, BranchMeasure])
    """Experiment -> what its search showed."""

    @staticmethod
    def read(records: reading.Records, campaign_id: str) -> CampaignRecord:
        """The record of a campaign."""
        found, after = CampaignRecord(campaign_id), 0
        while page := records.reading.events(after, campaign_id, AGENT_EVENTS):
            for entry in page:
                found.proposals.apply(entry.event)
                if isinstance(entry.event, ModelCalled | TokensSpent | AgentStarted | ExperimentSubmitted):
                    found.spendings.apply(entry.event)
                if isinstance(entry.event, BranchMeasure):
                    found.searched[entry.event.experiment_id] = entry.event
            after = page[-1].seq
        return found


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
        read = [CampaignRecord.read(records, one) for one in ids[:MOST_CAMPAIGNS]]
    read[0].proposals = seen
    newest = (
        (record, one) for record in read for one in reversed(record.proposals.experiments.values())
        if one.phase == "decided"
    )  # fmt: skip
    found: list[dict[str, object]] = []
    left, diffs = LARGEST, MOST_DIFFS
    for record, experiment in newest:
        entry = _entry(record, experiment, client.home if diffs else None)
        diffs -= "diff" in entry
        left -= len(canonical(entry).encode()) + 1
        if left < 0:
            break
        found.append(entry)
    return found[::-1]


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
        "why": experiment.why[:LONGEST_TEXT],
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
