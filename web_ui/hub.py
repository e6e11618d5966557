"""Keeps the newest document of every topic and wakes the subscribed connections.

Topics: `fleet`, `commands`, `tasks` (those that agents wrote), `campaign/ID`. A slow connection misses intermediate
documents, but gets the newest one.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import cast

from enpire import plugins
from enpire.errors import EnpireError
from enpire.service.watching import COMMAND_KINDS, LabSnapshot, Sensed, StationLine
from web_ui.alarms import Alarms
from web_ui.archive import Archive
from web_ui.commands import CommandTracker
from web_ui.documents import (
    Alarm,
    FleetDocument,
    GateBar,
    Headline,
    Json,
    LearnerBar,
    RoundPoint,
    StationTile,
    plain,
    rate_of,
)
from web_ui.live import LiveCameras, LiveLab
from web_ui.phases import PhaseClocks

POLL_EVERY_S = 0.15
"""Least seconds between readings of the lab's state."""
MOST_SHARE = 0.2
"""Largest share of the loop's time for these readings, so that requests of a fleet of 1,000 stations do not wait."""
FOLLOW_EVERY_S = 0.015
"""Seconds between readings of the states of open commands."""
READ_EVERY_S = 2.0
"""Seconds between readings of the ledger, for subscribed campaigns and for commands."""
AT_ONCE = 100
"""Stations that are read before other tasks of the server have a turn."""
COMMANDS_READ = 1000
"""Most events of commands that are read at once."""


@dataclass(frozen=True, slots=True)
class _KnownTile:
    """The document of a station, and what it was made from."""

    of: tuple[StationLine, int, str]
    tile: StationTile
    body: Json


@dataclass(slots=True)
class Published:
    """The newest document of a topic."""

    version: int
    body: Json


class Hub:
    """One per server. Call its methods only from the server's event loop."""

    def __init__(
        self, live: LiveLab, commands: CommandTracker, archive: Archive,
        alarmed: Callable[[str, Mapping[str, Alarm]], None] = lambda campaign, alarms: None,
        operator_of: Callable[[str], str] = lambda station: "",
    ) -> None:  # fmt: skip
        """Follow a lab.

        Args:
            live: the lab.
            commands: the commands of this server.
            archive: the records.
            alarmed: called with the name of the campaign and its alarms; it must not wait.
            operator_of: station -> who takes its robot over on this server; empty without one.
        """
        self._live = live
        self._commands = commands
        self._archive = archive
        self._published: dict[str, Published] = {}
        self._listeners: set[asyncio.Event] = set()
        self._subscribers: Counter[str] = Counter()
        self._phases = PhaseClocks()
        self._alarms, self._alarmed = Alarms(), alarmed
        self._operator_of = operator_of
        self._has_images = isinstance(live, LiveCameras)
        self._tiles: dict[str, _KnownTile] = {}
        """The newest document of each station; what has not changed is not made again."""
        self._snapshot: LabSnapshot | None = None
        self._is_reading = False
        self._commands_read = ("", 0)
        """Campaign and number of the last event up to which commands were read from the ledger."""
        self._subscribed = asyncio.Event()
        self._submitted = asyncio.Event()
        self._changed_s = time.monotonic()
        self._update_s = 0.0
        """Seconds that the last reading of the lab's state took."""
        self.polled_s = time.monotonic()
        """Monotonic time of the last reading of the lab's state; /healthz reports its age."""

    async def run(self) -> None:
        """Follow the lab and the ledger until cancelled."""
        await asyncio.gather(self._follow_lab(), self._follow_commands(), self._follow_ledger())

    def join(self) -> asyncio.Event:
        """Add a connection; the returned event is set whenever a topic changes."""
        event = asyncio.Event()
        self._listeners.add(event)
        return event

    def leave(self, event: asyncio.Event, topics: set[str]) -> None:
        """Remove a connection and its subscriptions."""
        self._listeners.discard(event)
        self._subscribers.subtract(topics)

    def subscribe(self, topic: str) -> None:
        """Add one subscriber to a topic."""
        self._subscribers[topic] += 1
        self._subscribed.set()

    def unsubscribe(self, topic: str) -> None:
        """Remove one subscriber from a topic."""
        self._subscribers[topic] -= 1

    def newest(self, topic: str) -> Published | None:
        """The newest document of a topic; None while there is none."""
        return self._published.get(topic)

    def lab_age_s(self) -> float:
        """Seconds since the running campaign gave a new state; 0 when none runs. Shows a loop that hangs."""
        running = self._snapshot is not None and self._snapshot.campaign_id != ""
        return round(time.monotonic() - self._changed_s, 1) if running else 0.0

    def stays(self, station: str) -> list[tuple[int, str]]:
        """The phases of a station in the last hour, as this server saw them."""
        return self._phases.stays(station)

    def fleet(self) -> FleetDocument:
        """The current document of the topic `fleet`."""
        # While a snapshot is read in parts, a newer one would make the time in a phase run backwards.
        return self._fleet_document(self._snapshot if self._is_reading else self._live.snapshot())

    async def _follow_commands(self) -> None:
        """Publish what changed of the open commands, also while a large fleet is read."""
        while True:
            if self._commands.refresh() or "commands" not in self._published:
                self.publish_commands()
            with contextlib.suppress(TimeoutError):
                pause_s = FOLLOW_EVERY_S if self._commands.open() else POLL_EVERY_S
                await asyncio.wait_for(self._submitted.wait(), pause_s)
            self._submitted.clear()

    async def _follow_lab(self) -> None:
        while True:
            await self._update_fleet(self._live.snapshot())
            await asyncio.sleep(max(POLL_EVERY_S, self._update_s / MOST_SHARE))

    async def _update_fleet(self, snapshot: LabSnapshot | None) -> None:
        self.polled_s, took_s = time.monotonic(), 0.0
        if snapshot is not self._snapshot or "fleet" not in self._published:
            self._snapshot, self._changed_s = snapshot, time.monotonic()
            lines = snapshot.stations if snapshot is not None else ()
            self._is_reading = True
            for at in range(0, len(lines), AT_ONCE):  # requests do not wait until a large fleet is read
                began_s = time.monotonic()
                self._tiles |= self._known_tiles(lines[at : at + AT_ONCE])
                took_s += time.monotonic() - began_s
                await asyncio.sleep(0)
            self._is_reading = False
            began_s = time.monotonic()
            document = self._fleet_document(snapshot)
            body = cast("dict[str, Json]", plain(replace(document, stations={})))
            body["stations"] = {name: self._tiles[name].body for name in document.stations}
            self._publish("fleet", body)
            self._alarmed(document.campaign.name if document.campaign else "", document.alarms)
            took_s += time.monotonic() - began_s
        self._update_s = took_s

    async def _follow_ledger(self) -> None:
        """Read the subscribed campaigns when the ledger has grown; publish the problem of a damaged ledger."""
        read: dict[str, int] = {}
        while True:
            await self._read_commands()
            if self._subscribers["tasks"] > 0:
                await self._read_tasks()
            for topic in [
                name for name, count in self._subscribers.items() if count > 0 and name.startswith("campaign/")
            ]:
                campaign_id = topic.partition("/")[2]
                try:
                    newest = await asyncio.to_thread(self._archive.newest_seq)
                    if read.get(topic) == newest:
                        continue
                    body = await asyncio.to_thread(self._archive.campaign, campaign_id)
                    read[topic] = newest
                    self._publish(topic, plain(body))
                except EnpireError as problem:
                    read.pop(topic, None)  # publish it again once the ledger can be read, even if it has not grown
                    self._publish(topic, {"problem": str(problem)})
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._subscribed.wait(), READ_EVERY_S)
            self._subscribed.clear()

    async def _read_commands(self) -> None:
        """Publish commands to the running campaign that were submitted elsewhere, for example in a terminal."""
        campaign_id = self._snapshot.campaign_id if self._snapshot else ""
        after = self._commands_read[1] if self._commands_read[0] == campaign_id else 0
        if not campaign_id:
            return
        try:
            events = await asyncio.to_thread(self._archive.events, after, campaign_id, COMMANDS_READ, COMMAND_KINDS)
        except EnpireError:
            return  # requests for the campaign report the problem; the next reading tries again
        self._commands_read = campaign_id, events[-1].seq if events else after
        if events:
            self._commands.add_events(events)
            self.publish_commands()

    async def _read_tasks(self) -> None:
        """Publish the tasks that agents wrote. They are files, which other processes change, too."""
        try:
            lines = await asyncio.to_thread(self._archive.authored_tasks)
        except (EnpireError, OSError) as problem:
            self._publish("tasks", {"problem": str(problem)})
            return
        known = {line.id: cast("Json", line.model_dump(exclude_none=True)) for line in lines}
        self._publish("tasks", {"problem": "", "tasks": known})

    def tasks_changed(self) -> None:
        """A person answered a task here: read them at once."""
        self._subscribed.set()

    def submitted(self) -> None:
        """A command was submitted: publish it at once and poll its state."""
        self.publish_commands()
        self._submitted.set()

    def publish_commands(self) -> None:
        """Publish the current commands."""
        self._publish("commands", {document.id: plain(document) for document in self._commands.all()})

    def _publish(self, topic: str, body: Json) -> None:
        before = self._published.get(topic)
        if before is not None and before.body == body:
            return
        self._published[topic] = Published(version=before.version + 1 if before else 1, body=body)
        for event in self._listeners:
            event.set()

    def _fleet_document(self, snapshot: LabSnapshot | None) -> FleetDocument:
        alarms = self._alarms.update(snapshot, self._commands.all())
        if snapshot is None:
            return FleetDocument(connected=False)
        learner = snapshot.learner
        self._tiles = self._known_tiles(snapshot.stations)
        return FleetDocument(
            connected=True,
            why="" if snapshot.campaign_id else snapshot.phase_text,
            campaign=_headline(snapshot) if snapshot.campaign_id else None,
            learner=LearnerBar(stage=learner.stage, done=learner.done, total=learner.total) if learner else None,
            gates=tuple(
                GateBar(
                    id=gate.id, k=gate.k, candidate=gate.candidate, pairs=gate.pairs, max_pairs=gate.max_pairs,
                    wins=gate.wins, losses=gate.losses, log_e=gate.log_e, need=gate.need, more=gate.more,
                )
                for gate in snapshot.gates
            ),
            rounds=tuple(
                RoundPoint(round=line.round, purpose=line.purpose, success=rate_of(line.interval), id=line.id)
                for line in snapshot.rounds
            ),
            stations={name: known.tile for name, known in self._tiles.items()},
            alarms=alarms,
            usual=self._phases.usual_s(),
        )  # fmt: skip

    def _known_tiles(self, lines: Iterable[StationLine]) -> dict[str, _KnownTile]:
        """The documents of stations; made again only for those that have changed."""
        found: dict[str, _KnownTile] = {}
        for line in lines:
            of = line, self._phases.since_ms(line.name, line.phase), self._operator_of(line.name)
            known = self._tiles.get(line.name)
            if known is None or known.of != of:
                tile = self._tile(*of)
                known = _KnownTile(of, tile, plain(tile))
            found[line.name] = known
        return found

    def _tile(self, line: StationLine, since_ms: int, operator: str) -> StationTile:
        return StationTile(
            name=line.name, phase=line.phase, since_ms=since_ms, lanes=line.lanes, episodes=line.episodes,
            episodes_per_min=round(line.episodes_per_min, 1), verdicts=line.verdicts[-20:], deployed=line.deployed,
            paused=line.paused, stopped=line.stopped, alarm=line.alarm,
            cameras=line.cameras if self._has_images else (), stopped_by=line.stopped_by,
            stopped_itself=line.stopped_itself, rate_hz=round(line.rate_hz, 1), jitter_ms=round(line.jitter_ms, 1),
            sensed=tuple(
                Sensed(name=one.name, unit=one.unit, value=float(f"{one.value:.4g}")) for one in line.sensed
            ),
            service_by=line.service_by, service_why=line.service_why, motions=line.motions, moved_by=line.moved_by,
            operator=operator,
            viability=None if line.viability is None else round(line.viability, 3),
        )  # fmt: skip


def _headline(snapshot: LabSnapshot) -> Headline:
    interval = snapshot.champion_interval
    return Headline(
        id=snapshot.campaign_id, name=snapshot.campaign_name, task=snapshot.task, elapsed_s=int(snapshot.elapsed_s),
        wall_budget_s=snapshot.wall_budget_s, round=snapshot.round, phase_text=snapshot.phase_text,
        goal=snapshot.goal, goal_by=snapshot.goal_by, champion=snapshot.champion,
        success=rate_of(interval) if interval else None,
        mru=snapshot.use.mru, motion=snapshot.use.motion, episodes=snapshot.episodes, paused=snapshot.paused,
        paused_why=snapshot.paused_why,
        stopped=snapshot.stopped, newest_event=snapshot.newest_event,
        simulator_truth=plugins.is_simulator_truth(snapshot.task),
        real_time_factor=snapshot.use.real_time_factor,
    )  # fmt: skip
