"""The laboratory that the loop runs: its campaign, state, ledger and fleet."""

from __future__ import annotations

import hashlib
import hmac
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from enpire.campaign.apply_events import apply_event
from enpire.campaign.campaign import Campaign
from enpire.campaign.events import Event
from enpire.campaign.ledger import Ledger
from enpire.campaign.recipe import Recipe
from enpire.campaign.state import CampaignState
from enpire.gate.plausibility import KnownSuccesses
from enpire.home import Home
from enpire.interfaces import ImprovementJob, Progress, Task
from enpire.processes.training_process import TrainingProcess
from enpire.requests.agent_requests import AgentInbox
from enpire.requests.operator_commands import CommandInbox, OperatorCommand
from enpire.scheduling.load_backoff import LoadBackoff
from enpire.scheduling.lockstep import Lockstep
from enpire.scheduling.scheduler import DrawsOrders, Scheduler
from enpire.store.episodes import FolderStore
from enpire.store.reading import Reading
from enpire.types import Episode, Split, Start
from enpire.wire.arrivals import Delivered, Fleet, Heartbeat
from enpire.wire.log_limiter import LogLimiter

EventObserver = Callable[[Event], None]


CLOCKS_AGREE = 1.02
"""Largest accepted ratio of a station's clock rate to the orchestrator's."""


@dataclass(slots=True)
class StationStatus:
    """One station as the orchestrator knows it in this session."""

    name: str
    lanes: int
    lease: int
    facts: Mapping[str, str]
    last_heartbeat: Heartbeat | None = None
    heard_s: float = 0.0
    """Monotonic clock at its last hello or heartbeat."""
    away_since_s: float | None = None
    own_stop_after: int = 0
    """Number of the newest event when the station first reported the stop that its robot holds by itself."""
    earlier_processes_s: dict[str, float] = field(default_factory=dict[str, float])
    """Robot time of the station's earlier processes in this session, by phase.

    A process that is older than the session starts with its earlier time as a negative number here.
    """
    process_s: dict[str, float] = field(default_factory=dict[str, float])
    """Robot time of the current process, by phase, from its last heartbeat."""
    recorded: Heartbeat | None = None
    """The heartbeat whose alarm and version were last written to the ledger."""
    recorded_s: float = float("-inf")
    """Monotonic clock of that write."""
    outcomes: list[str] = field(default_factory=list[str])
    """The last 20 outcomes, newest last."""
    episodes: int = 0
    load_backoff: LoadBackoff = field(default_factory=LoadBackoff)

    def take_episode(self, episode: Episode, now_s: float) -> str:
        """Count one episode; return a sentence if an operator must look at the station, else an empty string."""
        self.episodes += 1
        self.outcomes = [*self.outcomes[-19:], episode.outcome]
        return self.load_backoff.record(episode, now_s)

    def has_verifier_of(self, digest: str) -> bool:
        """Whether the station runs the campaign's verifier. A campaign without a recorded digest accepts any."""
        return not digest or self.facts.get("verifier") == digest

    def seconds(self) -> dict[str, float]:
        """Robot time in this session, in seconds by phase, over all processes of the station."""
        both = (self.earlier_processes_s, self.process_s)
        return {phase: sum(one.get(phase, 0.0) for one in both) for phase in {**both[0], **both[1]}}

    def take_heartbeat(self, beat: Heartbeat, now_s: float, began_s: float) -> None:
        """Apply a heartbeat in a session that began at `began_s`.

        A station process can be older than the session: its time before the first heartbeat is subtracted. The time of
        one process never falls, so a smaller total means that a new process reports. A total that exceeds the length of
        the session is ignored.
        """
        known = self.earlier_processes_s, self.process_s
        reported = {str(phase): seconds for phase, seconds in beat.seconds.items()}
        if not self.process_s and sum(reported.values()) > now_s - began_s:
            self.earlier_processes_s = {phase: -seconds for phase, seconds in reported.items()}
        elif sum(reported.values()) < sum(self.process_s.values()):
            self.earlier_processes_s = self.seconds()
        self.process_s = reported
        if sum(self.seconds().values()) > CLOCKS_AGREE * (now_s - began_s):
            self.earlier_processes_s, self.process_s = known
        self.last_heartbeat, self.heard_s, self.away_since_s = beat, now_s, None


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingCommand:
    """An accepted command that is not yet effective."""

    command: OperatorCommand
    since_s: float
    """Monotonic clock when it was accepted."""
    ends: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    """Of a resume: station -> ids of the stops that it ends there."""


class AgentSession(Protocol):
    """One agent session, which runs next to the loop."""

    def turn(self, lab: Lab) -> None:
        """Start or restart the agent when it is due. Does not block."""
        ...

    def end(self) -> None:
        """End the agent's process. Returns after the process has ended."""
        ...


@dataclass(slots=True)
class Lab:
    """The data that every step reads. A step changes the state only through `write`."""

    campaign: Campaign
    recipe: Recipe
    base_recipe: Recipe
    home: Home
    ledger: Ledger
    records: Reading
    """Queries on the same ledger: orders of every campaign of the home."""
    store: FolderStore
    fleet: Fleet
    task: Task
    state: CampaignState
    stations: dict[str, StationStatus] = field(default_factory=dict[str, StationStatus])
    train: Callable[[ImprovementJob], TrainingProcess] = TrainingProcess.begin
    """Starts a training run, on this machine or on another one."""
    learner: TrainingProcess | None = None
    learner_progress: Progress | None = None
    learner_slots: Callable[[], int] = lambda: 2
    """Training runs for which this machine, or the cluster, has room now; the session sets it."""
    branch_learners: dict[str, TrainingProcess] = field(default_factory=dict[str, TrainingProcess])
    """Training runs of branches in this session, by job."""
    clock: Callable[[], float] = time.monotonic
    """Monotonic seconds. Every deadline of the loop uses this clock."""
    began_s: float = field(init=False)
    event_observers: list[EventObserver] = field(default_factory=list[EventObserver])
    """Called with every event after the event is durable, for the terminal and the page."""
    tick: Callable[[], None] = lambda: None
    """Called once per turn of the loop, to show the lab to the observers."""
    end_reason: str = ""
    """Why an operator or a signal stops the session; empty while it runs."""
    waits_for_space: bool = False
    """Whether the loop waits for free space on the disk of the home (steps/hold.py)."""
    log: Callable[[str], None] = lambda line: None
    """Prints one line for the operator."""
    ends_campaign: bool = False
    """Whether `end_reason` ends the campaign. Otherwise it ends only this session."""
    scheduler: DrawsOrders = field(init=False)
    secret: bytes = field(init=False, repr=False)
    """The laboratory's secret, read once. Every start is keyed by it."""
    inbox: CommandInbox = field(init=False)
    """Commands of operators. The session sets the inbox that the page of this process also uses."""
    agent_inbox: AgentInbox = field(init=False)
    """Requests of agents."""
    pending_commands: dict[str, PendingCommand] = field(default_factory=dict[str, PendingCommand])
    """Accepted commands that are not yet effective, by command id."""
    branch_looks: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    """(version of a branch, champion) -> starts on which they were last compared, in this session."""
    known: KnownSuccesses | None = None
    """What the known successes have in common, for the tripwires (steps/tripwires.py)."""
    known_from: int = 0
    """Number of known successes when `known` was computed."""
    known_due: int = 0
    """Number of episodes before which `known` need not be computed again."""
    named_champions: int = 0
    """Champions whose code has its ref, in this session."""
    regimes: Mapping[str, Recipe] = field(default_factory=dict[str, Recipe])
    """The recipes that experiments in branches may use, by name."""
    agent_sessions: list[AgentSession] = field(default_factory=list[AgentSession])
    last_done_s: dict[str, float] = field(default_factory=dict[str, float])
    """Periodic duty -> monotonic clock at which it was last done."""
    pace_s: float = 0.0
    """How long a turn waits before it reads messages, in seconds: those of one moment share a turn."""
    gather_s: float = 0.0
    """How long a delivered episode may wait for others, to be stored with them, in seconds (steps/record.py)."""
    gathered: list[Delivered] = field(default_factory=list[Delivered])
    """The delivered episodes that wait."""
    gathered_s: float = 0.0
    """Monotonic clock at which the first of them arrived."""
    refused_log: LogLimiter = field(init=False)
    """Limits how many refused episodes the ledger lists one by one."""

    def __post_init__(self) -> None:
        """Seed the order generator. A resumed campaign gets another seed, so it does not repeat orders."""
        self.began_s = self.clock()
        self.refused_log = LogLimiter(self.clock, "refused episodes")
        seed = f"{self.campaign.seed} {self.state.campaign_id} {sum(self.state.outcomes.values())}"
        self.secret = self.home.secret()
        self.inbox = CommandInbox(self.home.inbox)
        self.agent_inbox = AgentInbox(self.home.inbox)
        kind = Lockstep if self.campaign.rounds.lockstep else Scheduler
        self.scheduler = kind(self.campaign, self.start, random.Random(seed), self.task.spec.limit_ticks)

    def write(self, *events: Event) -> None:
        """Append events of this campaign durably, then apply them to the state as the ledger returns them."""
        if not events:
            return
        for entry in self.ledger.append(events, self.state.campaign_id):
            apply_event(self.state, entry.event, entry.seq)
            self.notify(entry.event)

    def write_to(self, campaign_id: str, event: Event) -> None:
        """Append an event of another campaign durably; it changes nothing in this campaign's state."""
        for entry in self.ledger.append([event], campaign_id):
            self.state.newest_event = entry.seq

    def notify(self, event: Event) -> None:
        """Send an event to the observers. An event that is sent before its write is sent again after it."""
        for observer in self.event_observers:
            observer(event)

    def start(self, split: Split, index: int, scope: str = "") -> Start:
        """Return a start of the task. Hidden starts are keyed by the laboratory's secret and by `scope`.

        Split `confirm`: `scope` is the policy's hash, so the starts cannot exist before the policy. Split `holdout`:
        `scope` is the gate, so two gates share no start, and the result of one gate cannot help in the next. In
        lockstep, the campaign's name and seed replace its id, so that a repeated campaign has the same starts.
        """
        campaign = self.campaign
        owner = f"{campaign.name} {campaign.seed}" if campaign.rounds.lockstep else self.state.campaign_id
        key = hmac.new(self.secret, f"{owner} {split} {scope}".encode(), hashlib.sha256)
        return self.task.start(split, index, key.digest())

    def elapsed_s(self) -> float:
        """Wall-clock seconds of the campaign over all its sessions."""
        return self.state.wall_s + self.clock() - self.began_s

    def due(self, what: str, every_s: float) -> bool:
        """Whether a periodic duty is due. A call that returns True marks it as done now."""
        now = self.clock()
        if now - self.last_done_s.get(what, self.began_s) < every_s:
            return False
        self.last_done_s[what] = now
        return True
