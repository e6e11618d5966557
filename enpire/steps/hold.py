"""Hold the loop while the disk is full: stations get no new orders, and still get stops of operators."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field

from enpire.errors import EnpireError, StorageFull
from enpire.home import Home
from enpire.lab import Lab
from enpire.requests.file_queue import Unreadable
from enpire.requests.operator_commands import URGENT, OperatorCommand
from enpire.steps.handle_commands import handle_urgent, refusal_of, refuse_unreadable, report_effect
from enpire.steps.record import POLL_S, leave_stop, take
from enpire.steps.station_commands import is_effective, send
from enpire.store import durable
from enpire.wire.arrivals import Heartbeat, Joined, Left

MIN_FREE_BYTES = 64 * 2**20
"""Free space that a campaign waits for after its disk was full, in bytes."""
PROBE_BYTES = 4096
"""Size of the file that tests whether the disk takes a write, in bytes."""


def has_space(home: Home) -> bool:
    """Whether the disk of a home has enough free space and takes a write.

    Raises:
        EnpireError: the disk refuses the write for another reason.
    """
    if shutil.disk_usage(home.root).free < MIN_FREE_BYTES:
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

    Stations finish their current episodes and keep them: a delivery is not acknowledged, so the station repeats it
    later. A stop or a pause is sent at once, and recorded when the disk has space.
    """
    if has_space(lab.home):
        return
    lab.waits_for_space = True
    lab.log(f"{problem} Until then stations get no new orders, and a stop still reaches them.")
    for name in lab.stations:
        lab.fleet.release(name, [order.order_id for order in lab.state.open.values() if order.station == name])
    waiting = _Waiting(lab)
    while not lab.end_reason and not has_space(lab.home):
        waiting.turn()
    if not lab.end_reason:
        lab.waits_for_space = False
        waiting.record()


@dataclass(slots=True)
class _Waiting:
    """A lab that waits for free space."""

    lab: Lab
    sent: dict[str, OperatorCommand] = field(default_factory=dict[str, OperatorCommand])
    """Stops and pauses that were sent, by id."""
    effective: set[str] = field(default_factory=set[str])
    """Ids of commands that the stations report as effective."""
    joined_or_left: list[Joined | Left] = field(default_factory=list[Joined | Left])
    unreadable: list[Unreadable] = field(default_factory=list[Unreadable])

    def turn(self) -> None:
        """Do one turn of the loop without a write to the ledger."""
        try:
            self._poll()
            self._send()
            self.lab.tick()
        except (EnpireError, OSError) as problem:
            if durable.shortage(problem) is None:
                raise  # images and log files cannot be written either; the operator knows already

    def record(self) -> None:
        """Write what happened while the disk was full."""
        self.lab.write(*map(refuse_unreadable, self.unreadable))
        take(self.lab, self.joined_or_left)
        handle_urgent(self.lab)

    def _poll(self) -> None:
        lab = self.lab
        for arrival in lab.fleet.poll(POLL_S):
            if isinstance(arrival, Heartbeat):
                station = lab.stations.get(arrival.station)
                if station is not None and arrival.lease == station.lease:
                    station.take_heartbeat(arrival, lab.clock(), lab.began_s)
                    leave_stop(lab, arrival)
            elif isinstance(arrival, Joined | Left):
                self.joined_or_left.append(arrival)
                self._resend_holds(arrival.station)

    def _send(self) -> None:
        """Send each stop and pause once, and report it when the stations show its effect."""
        lab = self.lab
        for command in lab.inbox.waiting():
            if isinstance(command, Unreadable):
                self.unreadable.append(command)
            elif command.kind in URGENT and command.command_id not in self.sent and not refusal_of(lab, command):
                self.sent[command.command_id] = command
                send(lab, command)
                lab.log(
                    f"The {command.kind} of {command.operator} was sent to the stations. It is recorded "
                    "in the ledger when the disk has space."
                )
        for command_id, command in self.sent.items():
            if command_id not in self.effective and is_effective(lab, command):
                self.effective.add(command_id)
                report_effect(lab, command)

    def _resend_holds(self, station: str) -> None:
        """Send a station that joined its stops and pauses: those of the ledger, and those sent since."""
        for kind, hold in self.lab.state.holds.controls(station).items():
            self.lab.fleet.control(station, kind, hold.by, [hold.command_id])
        for command in self.sent.values():
            if command.target in ("", station):
                self.lab.fleet.control(station, command.kind, command.operator, [command.command_id])
