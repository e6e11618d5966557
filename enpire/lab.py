"""The laboratory that the loop moves: its campaign, its state, its ledger, its fleet."""

from __future__ import annotations

import hashlib
import hmac
import random
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import cast

from enpire.campaign import Campaign
from enpire.fleet.arrivals import Beat, Fleet
from enpire.fleet.scheduler import Scheduler, Seat
from enpire.home import Home
from enpire.interfaces import EpisodeStore, Ledger, Progress, Task
from enpire.recipe import Recipe
from enpire.state import CampaignState
from enpire.steps.training_process import TrainingProcess
from enpire.store.records import episode_of, orders_of
from enpire.types import Split, Start

Entry = tuple[str, Mapping[str, object]]


@dataclass(slots=True)
class StationSeat:
    """One station as the orchestrator knows it in this session."""

    name: str
    lanes: int
    lease: int
    facts: Mapping[str, str]
    last_beat: Beat | None = None
    heard_s: float = 0.0
    """Monotonic clock of the last sign of life."""
    away_since_s: float | None = None
    earlier_s: dict[str, float] = field(default_factory=dict)
    """Robot time of its processes before the one that speaks now, by phase."""
    verdicts: list[str] = field(default_factory=list)
    """The last outcomes, newest last."""
    episodes: int = 0

    def seconds(self) -> dict[str, float]:
        """Robot-time stack of this session, over all processes of the station."""
        total = dict(self.earlier_s)
        for phase, seconds in (self.last_beat.seconds if self.last_beat else {}).items():
            total[phase] = total.get(phase, 0.0) + seconds
        return total


@dataclass(slots=True)
class Lab:
    """What every step reads, and the one way to write: `write`."""

    campaign: Campaign
    recipe: Recipe
    base_recipe: Recipe
    home: Home
    ledger: Ledger
    store: EpisodeStore
    fleet: Fleet
    task: Task
    state: CampaignState
    stations: dict[str, StationSeat] = field(default_factory=dict)
    learner: TrainingProcess | None = None
    learner_progress: Progress | None = None
    began_s: float = field(default_factory=time.monotonic)
    watchers: list[Callable[[str, Mapping[str, object]], None]] = field(default_factory=list)
    """Told of every event, after it is durable: the terminal, the page."""
    wanted: str = ""
    """Why the campaign shall stop, when somebody or a signal asked for it."""
    scheduler: Scheduler = field(init=False)
    timer_s: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Seed the draw of orders; a resumed campaign draws on, never again the same."""
        seed = f"{self.campaign.seed} {self.state.campaign_id} {sum(self.state.outcomes.values())}"
        self.scheduler = Scheduler(self.campaign, self.start, random.Random(seed))

    def write(self, *entries: Entry) -> None:
        """Append events durably, then fold the same events into the state."""
        stamped = [(kind, {"campaign_id": self.state.campaign_id, **body}) for kind, body in entries]
        if not stamped:
            return
        self.ledger.append(stamped)
        for kind, body in stamped:
            fold(self.state, kind, body)
            for watcher in self.watchers:
                watcher(kind, body)

    def start(self, split: Split, index: int, scope: str = "") -> Start:
        """A start of the task. Hidden ones are keyed by the laboratory's secret and their scope.

        confirm: scope is the frozen policy's hash, so its starts exist only after it does. holdout: scope is the gate,
        so no two gates share a start and what one gate revealed is of no use in the next.
        """
        key = hmac.new(self.home.secret(), f"{self.state.campaign_id} {split} {scope}".encode(), hashlib.sha256)
        return self.task.start(split, index, key.digest())

    def elapsed_s(self) -> float:
        """Wall-clock seconds of the campaign, over all its sessions."""
        return self.state.wall_s + time.monotonic() - self.began_s

    def seat(self, station: StationSeat) -> Seat:
        """How many orders a station can take now."""
        held = sum(order.station == station.name for order in self.state.open.values())
        room = station.lanes + self.campaign.stations.ahead - held
        return Seat(station.name, station.lease, max(0, room))

    def due(self, what: str, every_s: float) -> bool:
        """Whether a periodic duty is due; calling it says that it is done now."""
        now = time.monotonic()
        if now - self.timer_s.get(what, self.began_s) < every_s:
            return False
        self.timer_s[what] = now
        return True


def fold(state: CampaignState, kind: str, body: Mapping[str, object]) -> None:
    """Fold one event into a state, orders and episodes included."""
    if kind == "order issued":
        for order in orders_of(body):
            state.issue(order)
    elif kind == "orders ended":
        for item in cast("Iterable[Mapping[str, object]]", body["episodes"]):
            order = state.open.get(str(item["order_id"]))
            if order is not None:
                state.end(episode_of(item, order))
    else:
        state.apply(kind, body)


def rebuilt(ledger: Ledger, campaign_id: str) -> CampaignState:
    """The state of a campaign from its events alone."""
    state = CampaignState(campaign_id=campaign_id)
    for event in ledger.events():
        if event.body.get("campaign_id") == campaign_id:
            fold(state, event.kind, event.body)
    return state
