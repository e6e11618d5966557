"""What operators and agents may ask of the loop: commands, labels, requests of agents."""

from __future__ import annotations

from enpire.campaign.agent_events import CallOutcome, EdgeKind, ModelCalled
from enpire.campaign.branch_events import BranchMeasure
from enpire.campaign.experiments import KINDS as AGENT_EVENTS
from enpire.campaign.experiments import Proposals
from enpire.campaign.proposed import Experiment
from enpire.queries.model_spending import LaneSpending, Spendings
from enpire.requests.agent_requests import RequestKind, RequestRate, Sender
from enpire.requests.agent_requests import leave as leave_request
from enpire.requests.labels import write_label
from enpire.requests.model_answers import LARGEST_KEPT, KeptAnswer, ModelAnswers
from enpire.requests.model_calls import CallRecords, pass_on
from enpire.requests.model_leases import ModelLease, ModelLeases, ModelLimits
from enpire.requests.operator_commands import AT_STATIONS, URGENT, CommandInbox, OperatorCommand
from enpire.requests.operator_commands import leave as leave_command

__all__ = [
    "AGENT_EVENTS",
    "AT_STATIONS",
    "LARGEST_KEPT",
    "URGENT",
    "BranchMeasure",
    "CallOutcome",
    "CallRecords",
    "CommandInbox",
    "EdgeKind",
    "Experiment",
    "KeptAnswer",
    "LaneSpending",
    "ModelAnswers",
    "ModelCalled",
    "ModelLease",
    "ModelLeases",
    "ModelLimits",
    "OperatorCommand",
    "Proposals",
    "RequestKind",
    "RequestRate",
    "Sender",
    "Spendings",
    "leave_command",
    "leave_request",
    "pass_on",
    "write_label",
]  # fmt: skip
