"""Keeps the newest document of every topic and wakes whoever watches; the socket sends from here.

Topics: `fleet`, `commands`, `campaign/ID`. A watcher that is slow misses states, never the newest one.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from dataclasses import dataclass

from enpire.errors import EnpireError
from enpire.service.watching import STATE_OF_EVENT, LabSnapshot, StationLine
from web_ui.archive import Archive
from web_ui.commands import CommandTracker
from web_ui.documents import (
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

LOOK_EVERY_S = 0.15
"""How often the lab is looked at; a page that is drawn more often costs more than it shows."""
FOLLOW_EVERY_S = 0.015
"""How often it is asked about commands that are on their way."""
READ_EVERY_S = 2.0
"""How often the ledger is read for a campaign that somebody watches, and for commands."""
COMMANDS_READ = 1000
"""Events of commands that are read at once."""


@dataclass(slots=True)
class Posted:
    """The newest document of a topic."""

    version: int
    body: Json


class Hub:
    """One per server; its methods belong to the server's event loop."""

    def __init__(self, live: LiveLab, commands: CommandTracker, archive: Archive) -> None:
        self._live = live
        self._commands = commands
        self._archive = archive
        self._posted: dict[str, Posted] = {}
        self._watchers: set[asyncio.Event] = set()
        self._watched: Counter[str] = Counter()
        self._phases = PhaseClocks()
        self._seen: LabSnapshot | None = None
        self._told = ("", 0)
        """Of which campaign the commands in the ledger were read, and up to which event."""
        self._asked = asyncio.Event()
        self._submitted = asyncio.Event()
        self._moved_s = time.monotonic()
        self.looked_s = time.monotonic()
        """When the lab was last looked at; /healthz says how long ago."""

    async def run(self) -> None:
        """Look at the lab until cancelled."""
        await asyncio.gather(self._follow_lab(), self._follow_ledger())

    def watch(self) -> asyncio.Event:
        """An event that is set whenever some topic changed."""
        event = asyncio.Event()
        self._watchers.add(event)
        return event

    def leave(self, event: asyncio.Event, topics: set[str]) -> None:
        """The watcher is gone."""
        self._watchers.discard(event)
        self._watched.subtract(topics)

    def want(self, topic: str) -> None:
        """Somebody watches a topic from now on."""
        self._watched[topic] += 1
        self._asked.set()

    def unwant(self, topic: str) -> None:
        """One watcher fewer of a topic."""
        self._watched[topic] -= 1

    def newest(self, topic: str) -> Posted | None:
        """The newest document; None while there is none."""
        return self._posted.get(topic)

    def lab_age_s(self) -> float:
        """Seconds since the running campaign last gave a new state: a loop that hangs must not look alive."""
        running = self._seen is not None and self._seen.campaign_id != ""
        return round(time.monotonic() - self._moved_s, 1) if running else 0.0

    def look(self) -> FleetDocument:
        """The fleet as it is now."""
        return self._fleet(self._live.snapshot())

    async def _follow_lab(self) -> None:
        while True:
            if time.monotonic() >= self.looked_s + LOOK_EVERY_S or "fleet" not in self._posted:
                self._look_at(self._live.snapshot())
            if self._commands.refresh() or "commands" not in self._posted:
                self.post_commands()
            with contextlib.suppress(TimeoutError):
                pause_s = FOLLOW_EVERY_S if self._commands.open() else LOOK_EVERY_S
                await asyncio.wait_for(self._submitted.wait(), pause_s)
            self._submitted.clear()

    def _look_at(self, snapshot: LabSnapshot | None) -> None:
        self.looked_s = time.monotonic()
        if snapshot is not self._seen or "fleet" not in self._posted:
            self._seen, self._moved_s = snapshot, time.monotonic()
            self._post("fleet", plain(self._fleet(snapshot)))

    async def _follow_ledger(self) -> None:
        """Read the campaigns that are watched, when the ledger grew; a broken ledger is shown, not hidden."""
        read: dict[str, int] = {}
        while True:
            await self._read_commands()
            for topic in [name for name, count in self._watched.items() if count > 0 and name.startswith("campaign/")]:
                campaign_id = topic.partition("/")[2]
                try:
                    newest = await asyncio.to_thread(self._archive.newest_seq)
                    if read.get(topic) == newest:
                        continue
                    body = await asyncio.to_thread(self._archive.campaign, campaign_id)
                    read[topic] = newest
                    self._post(topic, plain(body))
                except EnpireError as problem:
                    read.pop(topic, None)  # once it can be read again, that is news even if it did not grow
                    self._post(topic, {"problem": str(problem)})
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._asked.wait(), READ_EVERY_S)
            self._asked.clear()

    async def _read_commands(self) -> None:
        """Show what was asked of the running campaign in another way than through this server, as from a terminal."""
        campaign_id = self._seen.campaign_id if self._seen else ""
        after = self._told[1] if self._told[0] == campaign_id else 0
        if not campaign_id:
            return
        try:
            events = await asyncio.to_thread(
                self._archive.events, after, campaign_id, COMMANDS_READ, tuple(STATE_OF_EVENT)
            )
        except EnpireError:
            return  # who asks for the campaign or its episodes is told why; the next look tries again
        self._told = campaign_id, events[-1].seq if events else after
        if events:
            self._commands.learn(events)
            self.post_commands()

    def submitted(self) -> None:
        """A command was handed in: show it at once, and follow it closely."""
        self.post_commands()
        self._submitted.set()

    def post_commands(self) -> None:
        """Show the commands as they are now."""
        self._post("commands", {document.id: plain(document) for document in self._commands.all()})

    def _post(self, topic: str, body: Json) -> None:
        before = self._posted.get(topic)
        if before is not None and before.body == body:
            return
        self._posted[topic] = Posted(version=before.version + 1 if before else 1, body=body)
        for event in self._watchers:
            event.set()

    def _fleet(self, snapshot: LabSnapshot | None) -> FleetDocument:
        if snapshot is None:
            return FleetDocument(connected=False)
        learner, gate = snapshot.learner, snapshot.gate
        return FleetDocument(
            connected=True,
            why="" if snapshot.campaign_id else snapshot.phase_text,
            campaign=_headline(snapshot) if snapshot.campaign_id else None,
            learner=LearnerBar(stage=learner.stage, done=learner.done, total=learner.total) if learner else None,
            gate=GateBar(
                pairs=gate.pairs, max_pairs=gate.max_pairs, wins=gate.wins, losses=gate.losses,
                log_e=gate.log_e, need=gate.need, more=gate.more,
            ) if gate else None,
            rounds=tuple(
                RoundPoint(round=line.round, purpose=line.purpose, success=rate_of(line.interval))
                for line in snapshot.rounds
            ),
            stations={line.name: self._tile(line) for line in snapshot.stations},
            usual=self._phases.usual_s(),
        )  # fmt: skip

    def _tile(self, line: StationLine) -> StationTile:
        since_ms = self._phases.since_ms(line.name, line.phase)
        return StationTile(
            name=line.name, phase=line.phase, since_ms=since_ms, lanes=line.lanes, episodes=line.episodes,
            episodes_per_min=round(line.episodes_per_min, 1), verdicts=line.verdicts[-20:], deployed=line.deployed,
            paused=line.paused, stopped=line.stopped, alarm=line.alarm,
            cameras=line.cameras if isinstance(self._live, LiveCameras) else (),
        )  # fmt: skip


def _headline(snapshot: LabSnapshot) -> Headline:
    interval = snapshot.champion_interval
    return Headline(
        id=snapshot.campaign_id, name=snapshot.campaign_name, task=snapshot.task, elapsed_s=int(snapshot.elapsed_s),
        wall_budget_s=snapshot.wall_budget_s, round=snapshot.round, phase_text=snapshot.phase_text,
        goal=snapshot.goal, champion=snapshot.champion, success=rate_of(interval) if interval else None,
        mru=snapshot.mru, episodes=snapshot.episodes, paused=snapshot.paused, paused_why=snapshot.paused_why,
        stopped=snapshot.stopped,
    )  # fmt: skip
