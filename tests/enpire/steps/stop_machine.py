"""One station and one orchestrator, driven through every order of stops, resumes, pauses, kills and rejoins.

The real parts: `CommandInbox` with its files, `handle_commands`, `record`, the state from the events, `RobotSession`,
`StopControl` and `StopLatch`. The wire is a list, the ledger is in memory, and the robot is a flag.

The machine also knows what each operator saw: a resume may end a stop only if its operator saw that stop on the page.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from enpire.campaign.apply_events import rebuilt
from enpire.campaign.command_events import CommandAccepted
from enpire.campaign.events import Event, LedgerEntry, kind_of
from enpire.home import Home
from enpire.lab import Lab
from enpire.requests.operator_commands import CommandInbox, OperatorCommand, leave_command
from enpire.station.robot_session import RobotSession
from enpire.station.station_file import StationFile
from enpire.station.stop_control import StopControl
from enpire.station.stop_latch import StopLatch
from enpire.steps import record
from enpire.steps.handle_commands import handle_commands
from enpire.steps.take_snapshot import snapshot
from enpire.store.entries import read_entry, stored_text
from enpire.types import Order
from enpire.wire.arrivals import Arrival, Heartbeat, Joined
from tests.enpire.test_loop import BETTER, CAMPAIGN
from tests.fakes.fake_fleet import CoinTask
from tests.fakes.point_task import PointRig, PointTask
from tests.fakes.sample_events import append

STATION = "a"
HERE = "tests.enpire.steps.stop_machine"


class Killed(BaseException):
    """kill -9 of the orchestrator."""


class Button(PointRig):
    """A robot whose own stop button is pressed while `pressed` is set; a resume from afar releases it."""

    def __init__(self, *given: object) -> None:
        super().__init__(*given)  # type: ignore[arg-type]
        self.stopped = False

    def stop(self) -> None:
        self.stopped = True

    def resume(self) -> None:
        self.stopped = False


def open_rig(task: PointTask, lanes: int, seed: int, options: Mapping[str, object]) -> Button:
    return Button(task.spec, lanes, options)


@dataclass
class MemoryLedger:
    """The events of a home; survives the orchestrator."""

    entries: list[LedgerEntry] = field(default_factory=list[LedgerEntry])
    appends_left: int = -1
    """The orchestrator is killed before it appends once more than this; -1: never."""

    def append(self, events: Iterable[Event], campaign_id: str = "") -> Sequence[LedgerEntry]:
        if self.appends_left == 0:
            raise Killed
        self.appends_left -= self.appends_left > 0
        rows = [(kind_of(event), stored_text(event, campaign_id)) for event in events]
        new = [
            read_entry((len(self.entries) + number, 0, kind, campaign_id, text, "", ""))
            for number, (kind, text) in enumerate(rows, 1)
        ]
        self.entries.extend(new)
        return new

    def events(self, after: int = 0, kinds: Sequence[str] = (), limit: int = 0) -> Iterator[LedgerEntry]:
        found = (entry for entry in self.entries[after:] if not kinds or entry.kind in kinds)
        return itertools.islice(found, limit or None)

    def verify(self) -> int:
        return len(self.entries)

    def close(self) -> None:
        pass


def _begun() -> LedgerEntry:
    ledger = MemoryLedger()
    append(ledger, [("campaign started", {"campaign_id": "C", "name": "coin"})])
    return ledger.entries[0]


BEGUN = _begun()


@dataclass
class Wire:
    """The connection of the station under one lease, in both directions; in order, and lost as a whole."""

    down: list[tuple[str, str, tuple[str, ...]]] = field(default_factory=list[tuple[str, str, tuple[str, ...]]])
    up: list[Arrival] = field(default_factory=list[Arrival])

    def control(self, station: str, control: str, argument: str = "", stop_ids: Sequence[str] = ()) -> None:
        self.down.append((control, argument, tuple(stop_ids)))

    def poll(self, timeout_s: float) -> Sequence[Arrival]:
        arrivals, self.up = self.up, []
        return arrivals

    def send(self, station: str, orders: Sequence[Order]) -> None:
        raise AssertionError("no order is issued here")

    def release(self, station: str, order_ids: Sequence[str]) -> None:
        pass


class NoEpisodes:
    """A store that gets no episode."""

    def put_many(self, recordings: Iterable[object]) -> None:
        assert not list(recordings)


@dataclass(frozen=True)
class Resume:
    """A resume in an operator's hand."""

    command: OperatorCommand
    saw: frozenset[str]
    """Ids of the stops that its operator saw."""


class World:
    """The machine. Each method named by a letter in OPERATIONS is one step of one actor."""

    def __init__(self, home: Home, folder: Path) -> None:
        self.home, self.folder = home, folder
        self.ledger, self.lease, self.numbers, self.seconds = MemoryLedger(), 0, itertools.count(1), itertools.count()
        self.hand: list[Resume] = []
        self.asked: dict[str, str] = {}
        """Every stop that was requested: id -> who."""
        self.ended: set[str] = set()
        """Stops that a delivered resume may end, because its operator saw them."""
        self.ledger.entries.append(BEGUN)
        self.file = StationFile(
            name=STATION, task="tests.fakes.point_task:PointTask", driver=f"{HERE}:open_rig", lanes=1,
            home=folder / "station", pace="fast", reset="teleport",
        )  # fmt: skip
        self.start_station()
        self.start_orchestrator()
        self.down()
        self.turn()

    # What runs

    def start_orchestrator(self) -> None:
        self.ledger.appends_left = -1
        given: dict[str, Any] = {
            "records": None, "store": NoEpisodes(), "fleet": Wire(), "task": CoinTask(), "ledger": self.ledger,
        }  # fmt: skip
        self.lab = Lab(
            campaign=CAMPAIGN, recipe=BETTER, base_recipe=BETTER, home=self.home, state=rebuilt(self.ledger, "C"),
            clock=lambda: float(next(self.seconds)), **given,
        )  # fmt: skip
        self.lab.inbox = CommandInbox(self.folder / "inbox")
        self.reconnect()

    def start_station(self) -> None:
        self.robot = RobotSession(self.file, PointTask(), lambda line: None, lambda: 0.0)
        self.rig = cast("Button", self.robot._rig)  # pyright: ignore[reportPrivateUsage]
        self.station = StopControl(self.robot, StopLatch(self.folder / "stopped.json", print), lambda line: None)

    @property
    def wire(self) -> Wire:
        return cast("Wire", self.lab.fleet)

    # What happens

    def stop_here(self) -> None:
        """An operator stops the station on the page of the orchestrator's own process."""
        self.lab.inbox.leave(self._stop(STATION))

    def stop_all(self) -> None:
        """An operator stops all stations from another process."""
        leave_command(self.folder / "inbox", self._stop(""))

    def _stop(self, target: str) -> OperatorCommand:
        stop_id = f"S{next(self.numbers)}"
        self.asked[stop_id] = "an operator"
        return OperatorCommand(command_id=stop_id, kind="stop", target=target, operator="ann")

    def pause(self) -> None:
        """An operator pauses the station from another process."""
        pause = OperatorCommand(command_id=f"P{next(self.numbers)}", kind="pause", target=STATION, operator="ann")
        leave_command(self.folder / "inbox", pause)

    def look(self) -> None:
        """An operator looks at the page and decides to resume the station."""
        seen = snapshot(self.lab).newest_event
        events = [entry.event for entry in self.ledger.entries]
        saw = {event.command_id for event in events if isinstance(event, CommandAccepted) and event.command == "stop"}
        beat = self.lab.stations[STATION].last_heartbeat if STATION in self.lab.stations else None
        saw |= {beat.own_stop_id} if beat is not None else set()
        command = OperatorCommand(
            command_id=f"R{next(self.numbers)}", kind="resume", target=STATION, operator="bob", seen=seen
        )
        self.hand.append(Resume(command, frozenset(saw)))

    def send(self) -> None:
        """The oldest resume reaches the inbox; its file time says that it is older than everything."""
        if self.hand:
            resume = self.hand.pop(0)
            leave_command(self.folder / "inbox", resume.command)
            for path in (self.folder / "inbox").rglob(f"{resume.command.command_id}.json"):
                os.utime(path, (0, 0))
            self.ended |= resume.saw

    def turn(self) -> None:
        """The loop reads the messages of the station and handles the commands."""
        record.take(self.lab, self.lab.fleet.poll(0.0))
        self.lab.last_done_s["inbox"] = -1e9
        handle_commands(self.lab)

    def turn_cut(self) -> None:
        """kill -9 of the orchestrator before the first write of a turn: a stop is then sent and not recorded."""
        self._cut_after(0)

    def turn_cut_later(self) -> None:
        """kill -9 of the orchestrator after the first write of a turn: a command is recorded and its file remains."""
        self._cut_after(1)

    def _cut_after(self, appends: int) -> None:
        self.ledger.appends_left = appends
        sent: list[tuple[str, str, tuple[str, ...]]] = self.wire.down
        try:
            self.turn()
        except Killed:
            for message in sent:  # what was sent before the kill still arrives
                self._receive(message)
        self.start_orchestrator()

    def kill_orchestrator(self) -> None:
        """kill -9 of the orchestrator between two turns. Messages that it sent are lost."""
        self.start_orchestrator()

    def kill_station(self) -> None:
        """kill -9 of the station; its robot is let go, and the next process opens it anew."""
        self.start_station()
        self.reconnect()

    def reconnect(self) -> None:
        """The connection breaks; the station says hello under a new lease."""
        self.lease += 1
        self.lab.fleet = Wire()  # pyright: ignore[reportAttributeAccessIssue]
        self.wire.up = [Joined(station=STATION, lanes=1, lease=self.lease, running=(), spooled=())]

    def down(self) -> None:
        """The station receives what was sent to it, then sends a heartbeat."""
        while self.wire.down:
            self._receive(self.wire.down.pop(0))
        self.robot.look()
        self.wire.up.append(self._heartbeat())

    def stop_at_station(self) -> None:
        """A node on the station's own network asks for a stop (`Station._stop_here`)."""
        self.station.stop_here("a node")
        self.asked[self.station.stops[0].stop_id] = "a node"

    def press_button(self) -> None:
        """Somebody presses the button on the robot."""
        if not self.rig.stopped:
            self.rig.stopped = True
            self.robot.look()
            self.asked[self.station.own_stop_id] = "the button"

    def _receive(self, message: tuple[str, str, tuple[str, ...]]) -> None:
        match message:
            case ("stop", by, stop_ids):
                self.station.stop(by, stop_ids[0])
            case ("pause", _, _):
                self.station.paused = True
            case ("resume", _, stop_ids):
                self.station.resume(stop_ids)
            case _:
                pass

    def _heartbeat(self) -> Heartbeat:
        held = tuple(stop.stop_id for stop in self.station.stops)
        return Heartbeat(
            station=STATION, lease=self.lease, phase="wait-order", seconds={}, queued=0, running=0, deployed="",
            stopped=bool(self.robot.stopped_by), paused=self.station.paused, stop_id=held[0] if held else "",
            stop_by="somebody", stop_ids=held, own_stop_id=self.station.own_stop_id, alarm=self.robot.alarm,
        )  # fmt: skip

    # What must be true

    @property
    def may_move(self) -> bool:
        """Whether an order would move the robot."""
        return self.robot.ready and not self.rig.stopped and not self.station.paused

    def settle(self) -> None:
        """Everybody goes on undisturbed until nothing changes any more."""
        for _ in range(4):
            self.turn()
            self.down()

    def fault(self) -> str:
        """A stop that no operator who saw it has resumed, and that does not hold after everything was delivered."""
        self.settle()
        # The button of a robot whose process was killed is the robot's own matter.
        held = [stop for stop, who in self.asked.items() if stop not in self.ended and who != "the button"]
        if not held:
            return ""
        if self.may_move:
            return f"the robot may move, although {held} were not resumed"
        if "stop" not in self.lab.state.holds.at(STATION):
            return f"the ledger has no stop at the station, although {held} were not resumed"
        return ""

    def stuck(self) -> str:
        """Why an operator who sees all cannot resume; empty if the robot may move then."""
        self.look()
        while self.hand:
            self.send()
        self.settle()
        waiting = [command.command.kind for command in self.lab.pending_commands.values()]
        return "" if self.may_move and not self.lab.state.holds.at(STATION) else f"the robot stays held; {waiting}"

    def key(self) -> object:
        """The state without its history: equal keys have equal futures."""
        names: dict[str, int] = {}

        def short(name: str) -> int:
            return names.setdefault(name, len(names)) if name else -1

        holds = self.lab.state.holds.commands
        levels = [hold.seq for hold in holds]
        own = self.lab.stations[STATION].own_stop_after if STATION in self.lab.stations else 0

        def rank(seen: int) -> tuple[int, bool]:
            return sum(level <= seen for level in levels), seen > own

        def of(command: OperatorCommand) -> tuple[object, ...]:
            return command.kind, short(command.command_id), command.target, rank(command.seen)

        waiting = [of(item) for item in self.lab.inbox.waiting() if isinstance(item, OperatorCommand)]
        beat = self.lab.stations[STATION].last_heartbeat if STATION in self.lab.stations else None
        beats = [item for item in (beat, *self.wire.up) if isinstance(item, Heartbeat)]
        return (
            tuple((hold.command, hold.station, short(hold.command_id)) for hold in holds),
            tuple(waiting), tuple(of(command) for command in self.lab.inbox.handed_over()),
            tuple((of(resume.command), frozenset(map(short, resume.saw))) for resume in self.hand),
            tuple((control, tuple(map(short, stop_ids))) for control, _, stop_ids in self.wire.down),
            tuple(
                (beat.stopped, beat.paused, tuple(map(short, beat.stop_ids)), short(beat.own_stop_id)) for beat in beats
            ),
            any(isinstance(item, Joined) for item in self.wire.up),
            beat is None, STATION in self.lab.stations, bool(own),
            self.robot.stopped_by == "the robot", bool(self.robot.stopped_by), self.rig.stopped,
            tuple(short(stop.stop_id) for stop in self.station.stops), short(self.station.own_stop_id),
            self.station.paused,
            tuple(
                (of(pending.command), tuple(map(short, pending.ends.get(STATION, ()))))
                for pending in self.lab.pending_commands.values()
            ),
            frozenset(short(stop) for stop in self.asked if stop not in self.ended),
        )  # fmt: skip


OPERATIONS: Mapping[str, Callable[[World], None]] = {
    "s": World.stop_here, "S": World.stop_all, "p": World.pause, "l": World.look, "r": World.send, "t": World.turn,
    "c": World.turn_cut, "C": World.turn_cut_later, "k": World.kill_orchestrator, "x": World.kill_station,
    "j": World.reconnect, "d": World.down, "b": World.stop_at_station, "o": World.press_button,
}  # fmt: skip
