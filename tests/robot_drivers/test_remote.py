"""A rig over ZeroMQ: it conforms, refuses what it must, and admits only enrolled clients."""

from __future__ import annotations

import itertools
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import zmq

from enpire.errors import RobotProblem, TransportProblem, UsageError
from enpire.field_reader import Fields
from enpire.interfaces import Task
from enpire.station.robot_session import RobotSession
from enpire.station.station_file import StationFile
from enpire.types import FloatArray, MaskArray, Start
from enpire.wire.curve_keys import enroll, server_keys
from enpire.wire.private_socket import private_address
from enpire.wire.rpc import RpcClient, decode, encode
from robot_drivers import fake_robot, mujoco_robot
from robot_drivers.conformance import check, starts_of
from robot_drivers.conformance_bench import RobotUnderTest
from robot_drivers.fake_robot import FAKE_SPEC
from robot_drivers.guarded_rig import GuardedRig
from robot_drivers.remote import RemoteRig, open_rig
from robot_drivers.rig_messages import spec_in, spec_out
from robot_drivers.safety import Envelope
from robot_drivers.served_robot import SILENT_S, RigServer
from sim.lost_network import Relay
from sim.tasks.pin_insertion import PinInsertion
from tests.fakes.waiting import until

LOOPBACK = "tcp://127.0.0.1:*"
NUMBERS = itertools.count()
HOME = Start(split="train", index=0, values=(0.0, 0.0), seed=0)
ALL = np.ones(2, np.bool_)
ZERO = np.zeros((2, 2), np.float32)


class CountingRig(GuardedRig):
    """The fake rig; it counts its actions and stops, and may be slow."""

    def __init__(self) -> None:
        super().__init__(fake_robot.FakeRig(FAKE_SPEC, 2, 0), Envelope(FAKE_SPEC))
        self.commands = self.stops = 0
        self.slow_s = 0.0

    def place(self, lane: int, start: Start) -> None:
        time.sleep(self.slow_s)
        super().place(lane, start)

    def act(self, action: FloatArray, moving: MaskArray) -> FloatArray:
        time.sleep(self.slow_s)
        self.commands += 1
        return super().act(action, moving)

    def stop(self) -> None:
        self.stops += 1
        super().stop()


def private() -> str:
    """The address of a private socket that no other test uses."""
    return private_address(Path(tempfile.gettempdir()) / f"remote-{os.getpid()}", f"robot-{next(NUMBERS)}")


@contextmanager
def serving(
    keys: Path | None = None, lanes: int = 2, task: Task | None = None, rig: GuardedRig | None = None
) -> Iterator[RigServer]:
    """The fake rig, a task's simulation, or `rig`."""
    fake = fake_robot.open_rig(None, lanes, 0, {}) if task is None else mujoco_robot.open_rig(task, lanes, 0, {})
    server = RigServer(rig or fake, LOOPBACK if keys else private(), keys)
    ended = threading.Event()
    thread = threading.Thread(target=server.run, args=(ended,))
    thread.start()
    try:
        yield server
    finally:
        ended.set()
        thread.join(300)


def test_a_remote_rig_conforms():
    with serving() as server:
        subject = RobotUnderTest(
            name="the arm",
            open=lambda: open_rig(None, 2, 0, patient(server)),
            start=starts_of(FAKE_SPEC),
            realtime=False,
        )
        report = check(subject)
        assert report.conforms, "\n".join(report.lines())


def test_a_simulation_in_mujoco_conforms_behind_zeromq():
    task = PinInsertion()
    with serving(task=task) as server:
        subject = RobotUnderTest(
            name="the arm",
            open=lambda: open_rig(task, 2, 0, patient(server)),
            start=lambda index: task.start("train", index, b""),
            realtime=False,
        )
        report = check(subject)
        assert report.conforms, "\n".join(report.lines())


def test_a_simulation_behind_zeromq_is_told_who_resets_it():
    task = PinInsertion()
    start = task.start("train", 5, b"")
    with serving(task=task, lanes=1) as server:
        rig = open_rig(task, 1, 0, patient(server))
        for teleport in (False, True):
            rig.set_teleport(teleport)
            rig.place(0, start)
            assert task.start_error(rig.observe().state[0], start)[1] == teleport
        rig.close()


def test_repeated_commands_and_garbage_are_dropped():
    with serving() as server, zmq.Context() as context, context.socket(zmq.DEALER) as peer:
        peer.linger = 0
        peer.connect(server.address)

        def asked(frame: bytes) -> Fields:
            peer.send(frame)
            assert peer.poll(20_000)
            return decode(peer.recv())

        hello = asked(encode({"verb": "hello", "sequence": 1, "client": "a test"}))
        waits = {"lease": hello.text("lease"), "until_ns": hello.whole("clock_ns") + 10**12}
        observe = encode({"verb": "observe", "sequence": 5, **waits})
        late = encode({"verb": "observe", "sequence": 6, **waits, "until_ns": hello.whole("clock_ns")})
        errors = [asked(frame).text("error") for frame in (observe, observe, late, b"\xc1", b"")]
        assert errors == ["", "RobotProblem", "RobotProblem", "TransportProblem", "TransportProblem"]
        assert server.dropped == 4
        asked(encode({"verb": "bye", "sequence": 7, **waits}))
        rig = RemoteRig(server.address, answer_s=10.0)
        rig.place(0, HOME)
        rig.act(ZERO, ALL)
        rig.close()


def test_what_was_given_up_is_never_carried_out_and_a_stop_always_is():
    counting = CountingRig()
    with serving(rig=counting) as server:
        relay = Relay(server.address)
        rig = RemoteRig(relay.address, answer_s=0.5)
        rig.place(0, HOME)
        relay.stall()
        time.sleep(0.2)  # it may be passing something on just now
        for asks in (lambda: rig.act(ZERO, ALL), rig.stop):
            with pytest.raises(RobotProblem, match="did not answer"):
                asks()
        relay.restore()
        until(lambda: counting.stops == 1 and server.dropped == 1)
        assert counting.commands == 0
        with pytest.raises(RobotProblem, match="connect again"):
            rig.act(ZERO, ALL)
        rig.stop()
        rig.close()
        relay.close()


def test_what_is_given_up_while_the_robot_is_slow_does_not_wait_for_it():
    counting = CountingRig()
    with serving(rig=counting) as server:
        rig = RemoteRig(server.address, answer_s=0.5)
        counting.slow_s = 1.2
        rig.place(0, HOME)  # its server says that the robot is at it
        with pytest.raises(RobotProblem, match="did not answer"):
            rig.act(ZERO, ALL)
        rig.close()
        time.sleep(counting.slow_s + SILENT_S)
        counting.slow_s = 0.0
        again = RemoteRig(server.address, answer_s=10.0)
        again.place(0, HOME)
        assert counting.commands == 1
        again.close()


def test_one_client_drives_until_it_leaves_or_is_silent():
    with serving() as server:
        one = RemoteRig(server.address, answer_s=10.0)
        one.place(0, HOME)
        with pytest.raises(RobotProblem, match=rf"owned by .*process {os.getpid()}"):
            RemoteRig(server.address, answer_s=10.0)
        one.close()
        two = RemoteRig(server.address, answer_s=10.0)
        two.place(0, HOME)
        time.sleep(SILENT_S)
        three = RemoteRig(server.address, answer_s=10.0)
        with pytest.raises(RobotProblem, match="This client no longer owns the robot"):
            two.act(ZERO, ALL)
        three.place(0, HOME)
        two.stop()
        assert three.stopped
        with pytest.raises(RobotProblem, match="stopped"):
            three.act(ZERO, ALL)
        two.close()
        three.close()


def test_nobody_resumes_the_stop_of_somebody_else():
    rig = fake_robot.open_rig(None, 2, 0, {})
    with serving(rig=rig) as server:
        one = RemoteRig(server.address, answer_s=10.0)
        one.stop()
        one.resume()
        assert not one.stopped
        one.stop()
        one.close()  # who leaves takes its stop along, where no person is needed
        two = RemoteRig(server.address, answer_s=10.0)
        assert not two.stopped
        for stop in (rig.stop, lambda: say_stop(server.address)):
            stop()
            assert two.stopped
            two.stop()
            with pytest.raises(RobotProblem, match="Another process stopped"):
                two.resume()
            rig.resume()  # at the robot
            assert not two.stopped
        rig.stop()
        two.close()
        three = RemoteRig(server.address, answer_s=10.0)
        assert three.stopped
        three.close()


def test_a_robot_that_needs_a_person_is_latched_when_its_owner_leaves():
    rig = fake_robot.open_rig(None, 2, 0, {})
    server = RigServer(rig, private(), person_to_resume=True)
    ended = threading.Event()
    thread = threading.Thread(target=server.run, args=(ended,))
    thread.start()
    one = RemoteRig(server.address, answer_s=10.0)
    assert not one.stopped
    one.close()
    assert rig.stopped
    ended.set()
    thread.join(300)


@pytest.mark.realtime
def test_a_dead_robot_holds_its_station_up_for_a_second_at_a_time(tmp_path):
    task = PinInsertion()
    robot = fake_robot.open_rig(task, 1, 0, {})
    with serving(rig=robot) as server:
        relay = Relay(server.address)
        file = StationFile(
            name="arm", task="pin_insertion", home=tmp_path, driver="remote", options={"address": relay.address}
        )
        clock = itertools.count(0.0, 5.0)
        keeper = RobotSession(file, task, print, lambda: next(clock))
        assert keeper.ready
        relay.stall()
        time.sleep(0.2)
        for turn in (
            lambda: keeper.move(keeper.lanes.sense),
            keeper.look,
            keeper.look,
            lambda: keeper.stop("a person"),
        ):
            began_s = time.monotonic()
            turn()
            assert time.monotonic() - began_s < 1.8
            assert "did not answer" in keeper.alarm
        assert not keeper.stopped_by
        assert not robot.stopped
        relay.restore()

        def looked(true: Callable[[], object]) -> bool:
            keeper.look()
            return bool(true())

        until(lambda: looked(lambda: keeper.stopped_by))
        assert robot.stopped
        keeper.resume()
        until(lambda: looked(lambda: keeper.ready))
        keeper.move(keeper.lanes.sense)
        assert keeper.ready
        keeper.close()
        relay.close()


def patient(server: RigServer) -> dict[str, object]:
    """Options for a busy computer."""
    return {"address": server.address, "answer_s": 10.0}


def say_stop(address: str) -> None:
    """Send a stop without a lease."""
    line = RpcClient(address, None, 10.0, "the robot", RobotProblem)
    line.call("stop")
    line.close()


def test_with_keys_only_the_enrolled_come_in(tmp_path, capsys):
    folder = tmp_path / "keys"
    public = server_keys(folder).public.decode()
    key_file = enroll(folder, "arm")
    stranger = tmp_path / "stranger"
    server_keys(stranger)
    other = enroll(stranger, "arm")
    with serving(folder) as server:
        rig = open_rig(
            None, 2, 0, {"address": server.address, "key_file": str(key_file), "server_key": public, "answer_s": 20.0}
        )
        assert rig.observe().state.shape == (2, 4)
        rig.close()
        strange = {"address": server.address, "answer_s": 0.3, "key_file": str(other), "server_key": public}
        with pytest.raises(RobotProblem, match="did not answer"):
            open_rig(None, 2, 0, strange)
        with pytest.raises(TransportProblem, match="needs keys"):
            open_rig(None, 2, 0, {"address": server.address})
        line = RpcClient(server.address, None, 0.3, "the robot", RobotProblem)
        time.sleep(1.0)  # it is refused before it asks
        with pytest.raises(RobotProblem, match="did not answer"):
            line.call("stop")
        line.close()
    assert "has a key that is not enrolled" in capsys.readouterr().out


def test_a_robot_server_whose_gateway_is_aborted_takes_stops_and_clients_again(tmp_path):
    folder = tmp_path / "keys"
    options = {"key_file": str(enroll(folder, "left")), "server_key": server_keys(folder).public.decode()}
    counted = CountingRig()
    with serving(folder, rig=counted) as server:
        rig = open_rig(None, 2, 0, {"address": server.address, "answer_s": 60.0, **options})
        rig.place(0, HOME)
        gateway = server._server.gateway
        assert gateway is not None
        before = gateway.pid
        os.kill(before, signal.SIGABRT)
        rig.stop()  # lost with the gateway, so it is sent again
        assert counted.stops
        assert rig.stopped
        assert gateway.pid not in (0, before)
        with suppress(RobotProblem):
            rig.close()
        time.sleep(SILENT_S)
        fresh = open_rig(None, 2, 0, {"address": server.address, "answer_s": 10.0, **options})
        assert fresh.observe().state.shape == (2, 4)
        fresh.close()


@pytest.mark.parametrize("host", ["0.0.0.0", "127.0.0.1", "localhost"])
def test_a_port_needs_keys(host: str):
    with pytest.raises(TransportProblem, match="needs keys"):
        RigServer(fake_robot.open_rig(None, 1, 0, {}), f"tcp://{host}:*")
    with pytest.raises(TransportProblem, match="needs keys"):
        RemoteRig(f"tcp://{host}:5555")


def test_an_address_in_use_is_named():
    with serving() as server, pytest.raises(TransportProblem, match="Cannot listen"):
        RigServer(fake_robot.open_rig(None, 1, 0, {}), server.address)


@pytest.mark.parametrize(
    "options", [{}, {"address": 3}, {"address": "x", "speed": 1}, {"address": "x", "key_file": "y"}]
)
def test_wrong_options_are_refused(options):
    with pytest.raises(UsageError):
        open_rig(None, 1, 0, options)


def test_a_robot_that_does_not_fit_is_refused():
    with serving(lanes=2) as server, pytest.raises(UsageError, match="2 lanes"):
        open_rig(None, 3, 0, {"address": server.address})


def test_a_spec_keeps_the_key_of_earlier_versions_on_the_wire() -> None:
    estimated = replace(FAKE_SPEC.state[0], sensor_std=0.25)
    spec = replace(FAKE_SPEC, state=(estimated, *FAKE_SPEC.state[1:]))
    message = spec_out(spec)
    assert message["state"][0]["sight"] == 0.25  # type: ignore[index]
    assert spec_in(message) == spec
