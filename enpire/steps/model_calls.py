"""The model gateway as a child process of the orchestrator, and the ledger's record of every call through it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from functools import partial

from enpire.campaign.agent_events import ModelCalled
from enpire.campaign.events import kinds_of
from enpire.ids import is_id
from enpire.lab import Lab
from enpire.parts import AGENTS, providers_of
from enpire.processes.child_process import end_process
from enpire.processes.model_gateway import start_model_gateway
from enpire.requests.file_queue import folders_in
from enpire.requests.model_calls import CallRecords

PER_LOOK = 64
"""Calls that one turn of the loop records."""
AGAIN_S = 1.0
"""Seconds from one start of the gateway to the next."""
MOST_CAMPAIGNS = 4096
"""Campaigns of a home that one look reads."""
PATIENCE_S = 3.0
"""Seconds for the calls that run when the session ends; after that they are recorded as lost."""


def record_model_calls(lab: Lab, most: int = PER_LOOK) -> None:
    """Write the calls that ended into the ledger, each once."""
    records = CallRecords.of(lab.home.root, lab.state.campaign_id)
    _record(records, records.waiting(most), lab.state.proposals.model_calls, lab.write)


def record_left_calls(lab: Lab) -> None:
    """Write the calls of other campaigns of the home, whose processes were killed before they wrote them, each once."""
    agents = lab.home.root / "agents"
    left = {name: CallRecords.of(lab.home.root, name) for name in folders_in(agents, MOST_CAMPAIGNS) if is_id(name)}
    left.pop(lab.state.campaign_id, None)
    for campaign_id, records in left.items():
        if not (calls := records.ended()):
            continue
        entries = lab.ledger.events(kinds=kinds_of(ModelCalled))
        known = {str(entry.body["call_id"]) for entry in entries if entry.campaign_id == campaign_id}
        _record(records, calls, known, partial(lab.write_to, campaign_id))


def _record(
    records: CallRecords, calls: Iterable[ModelCalled], known: Container[str], write: Callable[[ModelCalled], None]
) -> None:
    for call in calls:
        if call.call_id not in known:
            write(call)
        records.remove(call.call_id)


@dataclass(slots=True)
class ModelGateway:
    """The gateway of the campaign's agents; a gateway that ended is started again."""

    process: subprocess.Popen[bytes] | None = None
    records: CallRecords | None = None
    due_s: float = 0.0
    """The loop's clock at which it may start again."""

    def turn(self, lab: Lab) -> None:
        """Start the gateway if it does not run. Does not block."""
        if (self.process is None or self.process.poll() is not None) and lab.clock() >= self.due_s:
            self.due_s = lab.clock() + AGAIN_S
            if self.records is None:
                record_left_calls(lab)
            self.process = start_model_gateway(lab.home.root, lab.state.campaign_id)
            self.records = CallRecords.of(lab.home.root, lab.state.campaign_id)

    def end(self) -> None:
        """End the gateway. Calls that run may end first, for a few seconds."""
        if self.process is not None:
            end_process(self.process, PATIENCE_S)
            self.process = None
        if self.records is not None:
            self.records.close()


def needs_models(lab: Lab) -> bool:
    """Whether an agent of the campaign calls language models."""
    return any(providers_of(AGENTS.load(plan.name), plan.options) for plan in lab.campaign.agents)
