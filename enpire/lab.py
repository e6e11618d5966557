"""The laboratory that the loop moves: its campaign, its state, its ledger, its fleet."""

from __future__ import annotations

import hashlib
import hmac
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from enpire.campaign.apply_events import apply_event
from enpire.campaign.campaign import Campaign
from enpire.campaign.events import Event
from enpire.campaign.ledger import Ledger
from enpire.campaign.load_backoff import LoadBackoff
from enpire.campaign.recipe import Recipe
from enpire.campaign.state import CampaignState
from enpire.home import Home
from enpire.interfaces import ImprovementJob, Progress, Task
from enpire.processes.training_process import TrainingProcess
from enpire.requests.operator_commands import CommandInbox, OperatorCommand
from enpire.scheduling.lockstep import Lockstep
from enpire.scheduling.scheduler import Scheduler
from enpire.store.episodes import FolderStore
from enpire.store.reading import Reading
from enpire.types import Episode, Split, Start
from enpire.wire.arrivals import Fleet, Heartbeat
from enpire.wire.log_limiter import LogLimiter

Watcher = Callable[[Event], None]


CLOCKS_AGREE = 1.02
"""A station's clock runs at most so much faster than ours."""


@dataclass(slots=True)
class StationSeat:
    """One station as the orchestrator knows it in this session."""

    name: str
    lanes: int
    lease: int
    facts: Mapping[str, str]
    last_beat: Heartbeat | None = None
    heard_s: float = 0.0
    """Monotonic clock of the last sign of life."""
    away_since_s: float | None = None
    earlier_s: dict[str, float] = field(default_factory=dict[str, float])
    """Robot time of its processes before the one that speaks now, by phase, less what that did before this session."""
    spoken_s: dict[str, float] = field(default_factory=dict[str, float])
    """Robot time of the process that speaks now, as its last beat said."""
    told: Heartbeat | None = None
    """The beat whose alarm and version were written down last."""
    told_s: float = float("-inf")
    verdicts: list[str] = field(default_factory=list[str])
    """The last outcomes, newest last."""
    episodes: int = 0
    load_backoff: LoadBackoff = field(default_factory=LoadBackoff)

    def take(self, episode: Episode, now_s: float) -> str:
        """Count the end of one of its orders; one sentence where a person should look at the station."""
        self.episodes += 1
        self.verdicts = [*self.verdicts[-19:], episode.outcome]
        return self.load_backoff.record(episode, now_s)

    def trusts(self, digest: str) -> bool:
        """Whether its verifier is the one that the campaign began with; one that says nothing is believed."""
        return not digest or self.facts.get("verifier", digest) == digest

    def seconds(self) -> dict[str, float]:
        """Robot-time stack of this session, over all processes of the station."""
        both = (self.earlier_s, self.spoken_s)
        return {phase: sum(one.get(phase, 0.0) for one in both) for phase in {**both[0], **both[1]}}

    def hear(self, beat: Heartbeat, now_s: float, began_s: float) -> None:
        """Take a beat of a session that began at `began_s`.

        What a process older than the session did before it counted there. The time of one process never falls, so where
        it does another process speaks from now on. Nobody works for longer than the session lasts: who says so is not
        believed.
        """
        known = self.earlier_s, self.spoken_s
        said = {str(phase): seconds for phase, seconds in beat.seconds.items()}
        if not self.spoken_s and sum(said.values()) > now_s - began_s:
            self.earlier_s = {phase: -seconds for phase, seconds in said.items()}
        elif sum(said.values()) < sum(self.spoken_s.values()):
            self.earlier_s = self.seconds()
        self.spoken_s = said
        if sum(self.seconds().values()) > CLOCKS_AGREE * (now_s - began_s):
            self.earlier_s, self.spoken_s = known
        self.last_beat, self.heard_s, self.away_since_s = beat, now_s, None


class AgentLane(Protocol):
    """One agent at work beside the loop."""

    def turn(self, lab: Lab) -> None:
        """See to it that the agent runs; never blocks."""
        ...

    def end(self) -> None:
        """End its process; returns when it has ended."""
        ...


@dataclass(slots=True)
class Lab:
    """What every step reads, and the one way to write: `write`."""

    campaign: Campaign
    recipe: Recipe
    base_recipe: Recipe
    home: Home
    ledger: Ledger
    records: Reading
    """Answers about the same ledger: orders of every campaign of the home."""
    store: FolderStore
    fleet: Fleet
    task: Task
    state: CampaignState
    stations: dict[str, StationSeat] = field(default_factory=dict[str, StationSeat])
    train: Callable[[ImprovementJob], TrainingProcess] = TrainingProcess.begin
    """How a training run is begun, here or on another machine."""
    learner: TrainingProcess | None = None
    learner_progress: Progress | None = None
    clock: Callable[[], float] = time.monotonic
    """Monotonic seconds: whatever has a deadline in the loop goes by it."""
    began_s: float = field(init=False)
    watchers: list[Watcher] = field(default_factory=list[Watcher])
    """Told of every event, after it is durable: the terminal, the page."""
    tick: Callable[[], None] = lambda: None
    """Called once a turn of the loop: whoever watches is shown the lab."""
    wanted: str = ""
    """Why the campaign shall stop, when somebody or a signal asked for it."""
    waits_for_space: bool = False
    """Whether the loop waits for space on the disk of the home (steps/hold.py)."""
    log: Callable[[str], None] = lambda line: None
    """Prints one line for the operator."""
    for_good: bool = False
    """Whether `wanted` ends the campaign; otherwise only this session of it."""
    scheduler: Scheduler = field(init=False)
    secret: bytes = field(init=False, repr=False)
    """The laboratory's secret, read once: every start is keyed by it."""
    inbox: CommandInbox = field(init=False)
    """What operators ask for. The session puts the one here that the page of this process shares."""
    pending_commands: dict[str, tuple[OperatorCommand, float]] = field(
        default_factory=dict[str, tuple[OperatorCommand, float]]
    )
    """Commands that were accepted and are not yet seen to be effective, by id; since when."""
    agent_lanes: list[AgentLane] = field(default_factory=list[AgentLane])
    timer_s: dict[str, float] = field(default_factory=dict[str, float])
    complaints: LogLimiter = field(init=False)
    """Which refused episodes are written down one by one."""

    def __post_init__(self) -> None:
        """Seed the draw of orders; a resumed campaign draws on, never again the same."""
        self.began_s = self.clock()
        self.complaints = LogLimiter(self.clock, "refused episodes")
        seed = f"{self.campaign.seed} {self.state.campaign_id} {sum(self.state.outcomes.values())}"
        self.secret = self.home.secret()
        self.inbox = CommandInbox(self.home.inbox)
        kind = Lockstep if self.campaign.rounds.lockstep else Scheduler
        self.scheduler = kind(self.campaign, self.start, random.Random(seed))

    def write(self, *events: Event) -> None:
        """Append events of this campaign durably, then apply them to the state, as the ledger reads them back."""
        if not events:
            return
        for entry in self.ledger.append(events, self.state.campaign_id):
            apply_event(self.state, entry.event)
            self.tell(entry.event)

    def tell(self, event: Event) -> None:
        """Show the watchers an event; they see it once more when it is written, if they saw it before."""
        for watcher in self.watchers:
            watcher(event)

    def start(self, split: Split, index: int, scope: str = "") -> Start:
        """A start of the task. Hidden ones are keyed by the laboratory's secret and their scope.

        confirm: scope is the frozen policy's hash, so its starts exist only after it does. holdout: scope is the gate,
        so no two gates share a start and what one gate revealed is of no use in the next. In lockstep the campaign's
        name and seed stand for its id, so that the same campaign has the same starts again.
        """
        campaign = self.campaign
        whose = f"{campaign.name} {campaign.seed}" if campaign.rounds.lockstep else self.state.campaign_id
        key = hmac.new(self.secret, f"{whose} {split} {scope}".encode(), hashlib.sha256)
        return self.task.start(split, index, key.digest())

    def elapsed_s(self) -> float:
        """Wall-clock seconds of the campaign, over all its sessions."""
        return self.state.wall_s + self.clock() - self.began_s

    def due(self, what: str, every_s: float) -> bool:
        """Whether a periodic duty is due; calling it says that it is done now."""
        now = self.clock()
        if now - self.timer_s.get(what, self.began_s) < every_s:
            return False
        self.timer_s[what] = now
        return True
