"""A rig over ZeroMQ: it conforms, refuses what it must, and lets in only who is enrolled."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import zmq

from enpire.errors import RobotProblem, TransportProblem, UsageError
from enpire.fleet.curve_keys import enroll, server_keys
from enpire.fleet.questions import decode, encode
from enpire.interfaces import Task
from enpire.types import Start
from robot_drivers import fake_robot, mujoco_robot
from robot_drivers.conformance import check, starts_of
from robot_drivers.conformance_bench import Subject
from robot_drivers.fake_robot import FAKE_SPEC
from robot_drivers.remote import RemoteRig, open_rig
from robot_drivers.served_robot import RigServer
from sim.tasks.pin_insertion import PinInsertion

LOOPBACK = "tcp://127.0.0.1:*"


@contextmanager
def serving(keys: Path | None = None, lanes: int = 2, task: Task | None = None) -> Iterator[RigServer]:
    """The fake rig, or a task's simulation."""
    rig = fake_robot.open_rig(None, lanes, 0, {}) if task is None else mujoco_robot.open_rig(task, lanes, 0, {})
    server = RigServer(rig, LOOPBACK, keys)
    ended = threading.Event()
    thread = threading.Thread(target=server.run, args=(ended,))
    thread.start()
    try:
        yield server
    finally:
        ended.set()
        thread.join(30)


def test_a_remote_rig_conforms():
    with serving() as server:
        subject = Subject(
            open=lambda: open_rig(None, 2, 0, {"address": server.address}), start=starts_of(FAKE_SPEC), realtime=False
        )
        report = check(subject)
        assert report.conforms, "\n".join(report.lines())


def test_a_simulation_in_mujoco_conforms_behind_zeromq():
    task = PinInsertion()
    with serving(task=task) as server:
        subject = Subject(
            open=lambda: open_rig(task, 2, 0, {"address": server.address}),
            start=lambda index: task.start("train", index, b""),
            realtime=False,
        )
        report = check(subject)
        assert report.conforms, "\n".join(report.lines())


def test_a_simulation_behind_zeromq_is_told_who_resets_it():
    task = PinInsertion()
    start = task.start("train", 5, b"")
    with serving(task=task, lanes=1) as server:
        rig = open_rig(task, 1, 0, {"address": server.address})
        for teleport in (False, True):
            rig.set_teleport(teleport)
            rig.place(0, start)
            assert task.start_error(rig.observe().state[0], start)[1] == teleport
        rig.close()


def test_repeated_commands_and_garbage_are_dropped():
    with serving() as server, zmq.Context() as context, context.socket(zmq.DEALER) as peer:
        peer.linger = 0
        peer.connect(server.address)
        errors = []
        for frame in (encode({"verb": "spec", "sequence": 5}), encode({"verb": "spec", "sequence": 5}), b"\xc1", b""):
            peer.send(frame)
            assert peer.poll(20_000)
            errors.append(decode(peer.recv()).text("error"))
        assert errors == ["", "RobotProblem", "TransportProblem", "TransportProblem"]
        assert server.dropped == 3
        rig = RemoteRig(server.address)
        rig.place(0, Start(split="train", index=0, values=(0.0, 0.0), seed=0))
        rig.act(np.zeros((2, 2), np.float32), np.ones(2, np.bool_))
        rig.close()


def test_with_keys_only_the_enrolled_come_in(tmp_path):
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
        for keys in ({"key_file": str(other), "server_key": public}, {}):
            with pytest.raises(RobotProblem, match="did not answer"):
                open_rig(None, 2, 0, {"address": server.address, "answer_s": 0.3, **keys})


def test_an_open_port_needs_keys():
    with pytest.raises(UsageError, match="other machines"):
        RigServer(fake_robot.open_rig(None, 1, 0, {}), "tcp://0.0.0.0:*")


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
