"""The disk is full: stations get no new orders until it has space, and operators' stops still reach them."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field

from enpire.errors import EnpireError, StorageFull
from enpire.home import Home
from enpire.lab import Lab
from enpire.requests.file_queue import Unreadable
from enpire.requests.operator_commands import URGENT, OperatorCommand
from enpire.steps.handle_commands import handle_urgent, is_effective, refusal_of, report_effect, send, set_aside
from enpire.steps.record import POLL_S, leave_stop, take
from enpire.store import durable
from enpire.wire.arrivals import Heartbeat, Joined, Left

ROOM_BYTES = 64 * 2**20
"""Free space that a campaign waits for after its disk was full, in bytes."""
PROBE_BYTES = 4096


def has_space(home: Home) -> bool:
    """Whether the disk of a home has room and takes a write.

    Raises:
        EnpireError: the disk refuses for another reason than space.
    """
    if shutil.disk_usage(home.root).free < ROOM_BYTES:
        return False
    probe = home.root / ".space"
    try:
        durable.write(probe, bytes(PROBE_BYTES))
        durable.remove(probe)
    except StorageFull:
        return False
    return True


def hold(lab: Lab, problem: StorageFull) -> None:
    """Wait until the disk has space, or until an operator ends the session.

    Stations finish the episodes that run, and keep them: a delivery is not acknowledged now, so it is repeated later. A
    stop or a pause is sent at once, and recorded when there is space.
    """
    if has_space(lab.home):
        return
    lab.waits_for_space = True
    lab.log(f"{problem} The robots hold until then: stations get no new orders, and a stop still reaches them.")
    for name in lab.stations:
        lab.fleet.release(name, [order.order_id for order in lab.state.open.values() if order.station == name])
    waiting = _Waiting(lab)
    while not lab.wanted and not has_space(lab.home):
        waiting.turn()
    if not lab.wanted:
        lab.waits_for_space = False
        waiting.record()


@dataclass(slots=True)
class _Waiting:
    """A lab that waits for space."""

    lab: Lab
    sent: dict[str, OperatorCommand] = field(default_factory=dict[str, OperatorCommand])
    """Stops and pauses that were sent, by id."""
    effective: set[str] = field(default_factory=set[str])
    """Those that the stations report as effective."""
    joined_or_left: list[Joined | Left] = field(default_factory=list[Joined | Left])
    unreadable: list[Unreadable] = field(default_factory=list[Unreadable])

    def turn(self) -> None:
        """One turn of the loop without a write to the ledger."""
        try:
            self._hear()
            self._send()
            self.lab.tick()
        except (EnpireError, OSError) as problem:
            if durable.shortage(problem) is None:
                raise  # images and log files have no space either: that is no news

    def record(self) -> None:
        """Write what happened while the disk was full."""
        self.lab.write(*map(set_aside, self.unreadable))
        take(self.lab, self.joined_or_left)
        handle_urgent(self.lab)

    def _hear(self) -> None:
        lab = self.lab
        for arrival in lab.fleet.poll(POLL_S):
            if isinstance(arrival, Heartbeat):
                seat = lab.stations.get(arrival.station)
                if seat is not None and arrival.lease == seat.lease:
                    seat.hear(arrival, lab.clock(), lab.began_s)
                    leave_stop(lab, arrival)
            elif isinstance(arrival, Joined | Left):
                self.joined_or_left.append(arrival)
                self._hold_again(arrival.station)

    def _send(self) -> None:
        """Send each stop and pause once, and report it when the stations obey."""
        lab = self.lab
        for command in lab.inbox.waiting():
            if isinstance(command, Unreadable):
                self.unreadable.append(command)
            elif command.kind in URGENT and command.command_id not in self.sent and not refusal_of(lab, command):
                self.sent[command.command_id] = command
                send(lab, command)
                lab.log(
                    f"The {command.kind} of {command.operator} was sent to the stations. The disk has no space to "
                    "record it; it is recorded when there is space."
                )
        for command_id, command in self.sent.items():
            if command_id not in self.effective and is_effective(lab, command):
                self.effective.add(command_id)
                report_effect(lab, command)

    def _hold_again(self, station: str) -> None:
        """Send a station that joined what holds it: by the ledger, and by what was sent since."""
        for kind, by in self.lab.state.holds.at(station).items():
            self.lab.fleet.control(station, kind, by)
        for command in self.sent.values():
            if command.target in ("", station):
                self.lab.fleet.control(station, command.kind, command.operator)
