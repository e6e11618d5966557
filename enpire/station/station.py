"""A station: turns orders into episodes. READ `Station.serve` FIRST.

    take orders → reset → roll out → verify → spool → ship

Orders come from the orchestrator. An episode is durable on this machine before the station announces it, and is deleted
only when it is durable at the orchestrator. The station never waits for the orchestrator: while that is away, the
station finishes its running orders, keeps the episodes, and says hello again.
"""

from __future__ import annotations

import argparse
import signal
import sys
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from enpire.errors import EnpireError, PolicyProblem
from enpire.log_lines import one_line, print_line
from enpire.parts import TASKS
from enpire.policy_calls import LoadedPolicy
from enpire.processes.child_process import die_with_parent
from enpire.station.bridges import Bridges
from enpire.station.camera_recorder import CameraRecorder
from enpire.station.champion import Champion
from enpire.station.lanes import Lanes
from enpire.station.outbox import Outbox
from enpire.station.pace import Pace
from enpire.station.policy_cache import PolicyCache, loader_of
from enpire.station.preview_camera import PreviewCamera
from enpire.station.remote_policy import policy_server
from enpire.station.robot_session import RobotSession
from enpire.station.spool import Spool
from enpire.station.station_file import StationFile, facts, read_station
from enpire.station.stop_control import StopControl
from enpire.station.stop_latch import StopLatch
from enpire.station.uplink import Uplink
from enpire.types import REFUSED, Order
from enpire.verifiers import with_verifiers
from enpire.wire.arrivals import Heartbeat
from enpire.wire.curve_keys import station_keys
from enpire.wire.host_services import THIS_HOST, HostServices
from enpire.wire.messages import ControlMessage, Hello, Message, Orders, PolicyMissing, PolicyPart, Release
from enpire.wire.private_socket import check_plain
from enpire.wire.zmq_link import StationLink

_IDLE_S = 0.02
"""How long an idle station waits for messages in one turn."""
_LEAVE_S, _SIGNAL_S = 8.0, 0.8
"""How long a leaving station continues to deliver: after `leave`, since the orchestrator last took an episode; after a
signal, in total."""
_LOOK_S = 0.25
"""How often the station checks the robot's own stop."""


class Station:
    """One robot, or several that move in step.

    Args:
        file: settings of the station.
        address: of the orchestrator.
        say: prints one line about an event.
        host: clock, sockets and helper threads.
    """

    def __init__(
        self, file: StationFile, address: str, say: Callable[[str], None], host: HostServices = THIS_HOST
    ) -> None:
        keys = station_keys(file.key_file, file.server_key) if file.key_file and file.server_key else None
        if keys is None:
            check_plain(address)  # before any folder is made
        self._file, self._say, self._clock = file, say, host.clock
        self._task = with_verifiers(TASKS.make(file.task), file.verifiers, file.account or file.home / "tokens")
        self._spool = Spool(file.home / "spool", file.min_free_mb * 2**20)
        self._camera_recorder = CameraRecorder(file.recording_rule, self._spool.pictures, host.helper)
        self._outbox = Outbox(self._spool, host, say, self._camera_recorder, file.lanes)
        self._policy_server = policy_server(file)
        make = self._policy_server.make if self._policy_server is not None else loader_of(file)
        self._policy_cache = PolicyCache(file.home / "policies", self._task, file.seed, host, make)
        self._policy_cache.has_operator = bool(file.operator)
        self._robot = RobotSession(file, self._task, say, host.clock, self._camera_recorder)
        self._link = StationLink(address, file.name, keys, host)
        self._preview = PreviewCamera(file.name, address, keys)
        self._uplink = Uplink(self._link, self._spool, self._hello, say, host)
        self._bridges = Bridges(file.name, file.bridges, host.clock)
        self._queue: deque[Order] = deque()
        self._champion = Champion(self._policy_cache)
        self._stops = StopControl(self._robot, StopLatch(file.home / "stopped.json", say), say)
        self._leaving, self._patience_s, self._asked_to_leave_s = "", float("inf"), 0.0
        self._pace = Pace(0.0 if file.pace == "fast" else self._task.spec.period_s, host.clock)
        self._resting, self._asked_lease = True, 0
        self._looked_s = self._clock()

    def serve(self) -> int:
        """Work until something asks the station to leave; returns the exit code of the process."""
        while self.stays:
            self.turn()
        return self.leave()

    @property
    def stays(self) -> bool:
        """Whether nothing has asked the station to leave."""
        return not self._leaving and not self._uplink.fenced

    def turn(self) -> None:
        """One turn of the station: at most one period of the robot."""
        self.hear()
        self.sense()
        self.take_orders()
        self._robot.act()
        self.spool()
        self.ship()

    def hear(self) -> None:
        """Handle messages from the orchestrator. While robots move, wait for none."""
        for message in self._uplink.hear(self._spare_s()):
            self._handle(message)
        self._bridges.hear(self._stop_here)

    def sense(self) -> None:
        """The first half of a period, at its rate: episodes that are over end here."""
        works = self._robot.works
        if works:
            self._pace.keep(resting=self._resting)
            self._robot.sense()
        self._resting = not works

    def take_orders(self) -> None:
        """Give waiting orders to free lanes and begin their resets. Orders whose policy is not loaded yet wait.

        It is called in the middle of a period, so that a robot whose episode has just ended waits for nothing.
        """
        if self._stops.paused and self._robot.ready:
            self._lanes.time.switch(self._lanes.free(), "wait-person")
        if self._stops.paused or not self._robot.ready or not self._queue:
            return
        ready: dict[str, LoadedPolicy | None] = {}
        for lane in self._lanes.free():
            order = self._next_ready(ready) if self._robot.ready else None
            if order is None:
                return
            policy = ready[order.policy_id]
            if policy is not None:
                self._robot.move(lambda lane=lane, order=order, policy=policy: self._lanes.begin(lane, order, policy))

    def spool(self, *, to_the_last: bool = False) -> None:
        """Make ended episodes durable here, before the station announces them."""
        self._outbox.add(self._lanes.take_ended())
        for episode in self._outbox.spool(to_the_last=to_the_last):
            self._bridges.ended(episode)

    def ship(self) -> None:
        """Deliver spooled episodes, send heartbeats, and request policies."""
        self._check_regularly()
        self._uplink.keep_contact(self._heartbeat)
        self._bridges.show(lambda: self._heartbeat(self._uplink.lease))
        if self._uplink.lease != self._asked_lease:
            self._asked_lease = self._uplink.lease
            self._policy_cache.ask_again()
        self._preview.serve(self._uplink.preview_port, self._robot.capture_live)
        self._uplink.request(self._policy_cache.next_request())
        self._uplink.ship()

    def ask_to_leave(self, cause: str, patience_s: float = _SIGNAL_S) -> None:
        """Leave after this period. Allowed in a signal handler; a later call may shorten `patience_s`."""
        self._leaving, self._asked_to_leave_s = self._leaving or cause, self._clock()
        self._patience_s = min(self._patience_s, patience_s)

    def leave(self) -> int:
        """Abort running orders, release those that have not begun, keep every episode in the spool, say goodbye."""
        self.end_orders()
        while self.deliver():
            pass
        return self.say_goodbye()

    def end_orders(self) -> None:
        """Stop the robot and end every order; the episodes are durable here afterwards."""
        self._robot.stop("the station, which leaves", f"the station left: {self._leave_cause}")
        self._release([order.order_id for order in self._queue], "released: the station left")
        self.spool(to_the_last=True)

    def deliver(self) -> bool:
        """Deliver spooled episodes once; returns whether more wait and there is time left."""
        since_s = self._asked_to_leave_s
        if self._patience_s > _SIGNAL_S:
            since_s = max(since_s, self._uplink.taken_s)
        if not (len(self._spool) and self._uplink.lease and self._clock() - since_s < self._patience_s):
            return False
        self._uplink.ship()
        self._uplink.hear(0.02)
        return True

    def say_goodbye(self) -> int:
        """Say goodbye to the orchestrator; returns the exit code of the process."""
        self._uplink.say_goodbye(self._leave_cause)
        waiting = f"{len(self._spool)} episodes wait here; late periods: {self._pace.late}"
        self._say(f"left ({self._leave_cause}); {waiting}")
        return 1 if self._uplink.fenced else 0

    def close(self) -> None:
        """Close the robot, the sockets and the spool. Allowed after a failure."""
        self._preview.close()
        self._robot.close()
        self._bridges.close()
        if self._policy_server is not None:
            self._policy_server.close()
        self._policy_cache.close()
        self._camera_recorder.close()
        self._outbox.close()
        self._uplink.close()
        self._link.close()
        self._spool.close()

    def fail(self, cause: str) -> None:
        """End a station that failed: the robot stops, its episodes end and are durable."""
        self._robot.stop("a failure of the station", cause)
        self.spool(to_the_last=True)

    @property
    def _leave_cause(self) -> str:
        return self._leaving or "its name was taken by another process"

    @property
    def _lanes(self) -> Lanes:
        return self._robot.lanes

    def _spare_s(self) -> float:
        """Seconds to wait for messages: 0 for a working fast simulation, until the next period for a real robot."""
        return self._pace.spare_s() if self._robot.works else _IDLE_S

    def _handle(self, message: Message) -> None:
        match message:
            case Orders(orders=orders):
                self._accept(orders)
            case Release(order_ids=order_ids):
                self._release(order_ids, "released")
            case ControlMessage():
                self._control(message)
                # At once: the operator waits for it, and episodes that a stop ended become durable only later.
                self._uplink.send_heartbeat(self._heartbeat)
            case PolicyPart():
                self._policy_cache.arrived(message)
            case PolicyMissing():
                self._policy_cache.missing(message)
            case _:
                self._say(f"ignored a {type(message).__name__} message, which is not for stations")

    def _control(self, message: ControlMessage) -> None:
        match message:
            case ControlMessage(control="deploy", argument=policy_id):
                self._champion.wanted = policy_id
            case ControlMessage(control="stop", argument=by, stop_ids=stop_ids):
                self._stops.stop(by, stop_ids[0] if stop_ids else "")
            case ControlMessage(control="pause"):
                self._stops.paused = True
            case ControlMessage(control="resume", stop_ids=stop_ids):
                self._stops.resume(stop_ids)
            case ControlMessage(control="reset" | "home" as kind, argument=by, stop_ids=ids):
                self._robot.begin_motion(kind, ids[0] if ids else "", by)
            case _:
                self.ask_to_leave("the orchestrator asked it to", _LEAVE_S)

    def _stop_here(self, by: str) -> str:
        """Stop the robot on a request at this station. The orchestrator records the stop like any other.

        Returns why the robot may still move; empty when it holds.
        """
        self._stops.stop_here(by)
        self._uplink.send_heartbeat(self._heartbeat)
        return "" if self._robot.stopped_by else self._robot.alarm

    def _accept(self, orders: Sequence[Order]) -> None:
        held = set(self._held()) | set(self._spool.ids())
        for order in orders:
            if order.order_id in held:
                continue
            if order.task not in (self._file.task, self._task.spec.name):
                self._outbox.refuse(order, f"{REFUSED}: this station does the task {self._file.task}")
            elif not self._outbox.room():
                self._outbox.refuse(order, "released: the station's disk is nearly full")
            else:
                self._queue.append(order)

    def _next_ready(self, ready: dict[str, LoadedPolicy | None]) -> Order | None:
        """Take the oldest order whose policy is ready; orders whose policy is refused end here.

        Neither trial of a pair begins before both versions are ready: if this station refuses one version, both trials
        must run at another station, so that the versions are compared on the same station.
        """
        for order in list(self._queue):
            pair = [one for one in self._queue if one is order or (one.gate_id and _pair(one) == _pair(order))]
            for one in pair:
                try:
                    if ready.get(one.policy_id) is None:
                        ready[one.policy_id] = self._policy_cache.find(one.policy_id)
                except PolicyProblem as problem:
                    self._release([one.order_id], f"{REFUSED}: {problem}")
                    self._release([other.order_id for other in pair], "released: its pair cannot run here")
                    break
            if order in self._queue and all(ready[one.policy_id] is not None for one in pair):
                self._queue.remove(order)
                return order
        return None

    def _check_regularly(self) -> None:
        """Check the robot and the policies every `_LOOK_S`, with or without an orchestrator."""
        if self._clock() - self._looked_s > _LOOK_S:
            self._looked_s = self._clock()
            self._robot.look()
            self._policy_cache.look()
        if deployed := self._champion.load():
            self._say(f"runs {deployed}")

    def _release(self, order_ids: Sequence[str], cause: str) -> None:
        for order in [order for order in self._queue if order.order_id in set(order_ids)]:
            self._queue.remove(order)
            self._outbox.refuse(order, cause)
        self._lanes.end_waits(order_ids, cause)

    def _held(self) -> Sequence[str]:
        """Ids of the orders whose episode is not durable yet."""
        orders = [*self._lanes.running(), *self._lanes.ended(), *self._queue]
        return [*(order.order_id for order in orders), *self._outbox.order_ids()]

    def _alarm(self) -> str:
        full = "" if self._outbox.room() else f"The disk of {self._file.home} is nearly full; free some space."
        return self._robot.alarm or full or self._policy_cache.alarm

    def _hello(self, greeting: int) -> Hello:
        return Hello(
            station=self._file.name, greeting=greeting, lanes=self._file.lanes, running=tuple(self._held()),
            spooled=self._spool.ids(), facts=facts(self._file, self._task),
        )  # fmt: skip

    def _heartbeat(self, lease: int) -> Heartbeat:
        stops, (rate_hz, jitter_ms) = self._stops.stops, self._pace.measured()
        motion_id, why = self._robot.ended_motion
        return Heartbeat(
            station=self._file.name, lease=lease, phase=self._lanes.time.most(), seconds=self._lanes.time.seconds(),
            queued=len(self._queue), running=len(self._lanes.running()), deployed=self._champion.deployed,
            stopped=bool(self._robot.stopped_by), paused=self._stops.paused, alarm=self._alarm()[:1000],
            stop_id=stops[0].stop_id if stops else "", stop_by=stops[0].by[:200] if stops else "",
            stop_ids=tuple(stop.stop_id for stop in stops), own_stop_id=self._stops.own_stop_id,
            overdue=tuple(self._robot.overdue()), rate_hz=rate_hz, jitter_ms=jitter_ms, reading=self._lanes.reading(),
            moved_by=self._robot.moved_by, viability=self._lanes.viability, motion_id=motion_id, motion_problem=why,
            waits_for_person=tuple(self._lanes.by_people(begun=False)),
            person_moves=tuple(self._lanes.by_people(begun=True)),
        )  # fmt: skip


def _pair(order: Order) -> tuple[str, int]:
    return order.gate_id, order.pair


def run(file: StationFile, address: str) -> int:
    """Run a station until it is asked to leave; returns the exit code of the process.

    Raises:
        EnpireError: the station cannot begin.
    """
    station = Station(file, address, lambda line: print_line(f"{file.name}: {line}"))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _: station.ask_to_leave(signal.Signals(received).name))
    try:
        return station.serve()
    except Exception as problem:  # noqa: BLE001  last line of defence: on any error the robot stops first
        station.fail(f"the station failed: {type(problem).__name__}: {problem}"[:1000])
        print_line(f"{file.name}: {traceback.format_exc()}")
        return 1
    finally:
        station.close()


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of `python -m enpire.station.station FILE [--connect ADDRESS] [--die-with-parent]`."""
    parser = argparse.ArgumentParser(prog="enpire station", description="Run one station.")
    parser.add_argument("file", type=Path, help="station file (YAML)")
    parser.add_argument("--connect", default="", help="address of the orchestrator, tcp://HOST:PORT")
    parser.add_argument("--die-with-parent", action="store_true", help="leave when the starting process ends")
    given = parser.parse_args(arguments)
    if given.die_with_parent:
        die_with_parent()
    try:
        file = read_station(given.file)
        return run(file, given.connect or file.connect)
    except EnpireError as problem:
        print(one_line(str(problem)), file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
