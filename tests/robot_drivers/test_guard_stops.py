"""Which processes can stop, end and resume a guarded robot, and which cannot. Real sockets, processes, a fake arm."""

from __future__ import annotations

import hashlib
import os
import re
import resource
import signal
import socket
import struct
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from enpire.errors import RobotProblem
from enpire.files import plain
from enpire.wire.rpc import array_out, encode
from robot_drivers import resume_code
from robot_drivers.guard_client import GuardControl, GuardedClient, open_guarded, start_guard
from robot_drivers.guard_settings import GuardSettings
from robot_drivers.latch import Latch
from robot_drivers.streams import exchange
from tests.robot_drivers.guarded_arm import CODE, HOME, ONE, PATIENT_S, acts, address_of, lines, resume, slow, until

REAL_COST = resume_code.COST
"""As it is before the fixtures of this folder make codes cheap."""
FLOOD = 500
"""Number of actions that are sent at once, as many as the socket takes."""


def test_it_starts_latched_and_only_a_person_resumes(settings):
    rig = open_guarded(settings)
    with pytest.raises(RobotProblem, match="latched"):
        rig.place(0, HOME)
    with pytest.raises(RobotProblem, match="latched"):
        rig.act(np.zeros((1, 2), np.float32), ONE)
    with pytest.raises(RobotProblem, match="Only an operator resumes"):
        rig.resume()
    resume(settings)
    rig.place(0, HOME)
    rig.close()
    assert Latch(settings.latch).read().latched


def test_a_stop_is_durable_when_it_is_answered_and_nothing_passes_after(rig, settings):
    log = Path(str(settings.options["log"]))
    rig.act(np.zeros((1, 2), np.float32), ONE)
    stopper = threading.Thread(target=rig.stop)
    stopper.start()
    stopper.join(PATIENT_S)
    assert Latch(settings.latch).read().latched
    stopped_ns = time.monotonic_ns()
    for _ in range(5):
        with pytest.raises(RobotProblem, match="latched"):
            rig.act(np.ones((1, 2), np.float32), ONE)
    rig.stop()
    assert all(stamp < stopped_ns for stamp in acts(log))
    resume(settings)
    with pytest.raises(RobotProblem, match="Place it to begin a new rollout"):
        rig.act(np.ones((1, 2), np.float32), ONE)
    rig.place(0, HOME)
    rig.act(np.ones((1, 2), np.float32), ONE)


def test_an_answered_stop_has_halted_the_driver(rig, settings):
    log = Path(str(settings.options["log"]))
    rig.act(np.ones((1, 2), np.float32), ONE)
    before = len(lines(log, "still"))
    with GuardControl(settings.card) as control:
        control.ask("stop", cause="look out")
    assert len(lines(log, "still")) == before + 1
    assert lines(log, "still")[-1] >= acts(log)[-1]


def test_only_a_person_with_a_name_resumes_and_never_the_runner(rig, settings):
    rig.stop()
    nonce = Latch(settings.latch).read().nonce
    with GuardControl(settings.card) as control:
        for nobody in ("", "  "):
            with pytest.raises(RobotProblem, match="Give the name of the operator"):
                control.ask("resume", nonce=nonce, person=nobody)
        found = "".join(path.read_text() for path in settings.folder.glob("*.json"))
        for guess in ("", *re.findall(r"\w{8,}", found)):
            with pytest.raises(RobotProblem, match="not this robot's code"):
                control.ask("resume", nonce=nonce, person="Ada", key=guess)
        with pytest.raises(RobotProblem, match="not this robot's code"):
            control.resume("Ada", "no code")
        assert control.status()["latched"]
    assert Latch(settings.latch).read().latched


def test_a_try_of_a_code_costs_what_it_should():
    check = resume_code.ResumeCheck(salt="salt", sha256="")
    costly = hashlib.scrypt(b"adascode", salt=b"salt", n=2**15, r=8, p=1, maxmem=2**26)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resume_code, "COST", REAL_COST)
        assert check.key("AdaS-Code") == costly.hex()


def test_a_code_that_is_made_while_the_guard_runs_opens_nothing_yet(rig, settings):
    rig.stop()
    code = resume_code.make(settings.folder)
    with GuardControl(settings.card) as control, pytest.raises(RobotProblem, match="not this robot's code"):
        control.resume("Mallory", code)
    rig.close()
    again = open_guarded(settings)
    with GuardControl(settings.card) as control:
        control.resume("Ada", f" {code.upper()} ".replace("-", " "))
    again.place(0, HOME)
    again.close()


def test_a_robot_that_nobody_could_resume_does_not_start(settings):
    (settings.folder / "resume.json").unlink()
    with pytest.raises(RobotProblem, match=r"Make one with `enpire robot code .*arm`"):
        open_guarded(settings)


def test_who_resumes_a_robot_that_moves_changes_nothing(rig, settings):
    rig.act(np.zeros((1, 2), np.float32), ONE)
    resume(settings)
    rig.act(np.zeros((1, 2), np.float32), ONE)


@pytest.mark.parametrize("cause", [{}, {"cause": ""}, {"cause": "x" * 5000}, {"cause": 3}])
def test_a_stop_holds_whatever_its_cause_looks_like(rig, settings, cause):
    rig.act(np.zeros((1, 2), np.float32), ONE)
    with GuardControl(settings.card) as control:
        assert control.ask("stop", **cause).text("latched")
    assert Latch(settings.latch).read().latched
    with pytest.raises(RobotProblem, match="latched"):
        rig.act(np.zeros((1, 2), np.float32), ONE)


@pytest.mark.parametrize("verb", ["act", "place"])
def test_a_latch_file_that_is_deleted_while_the_robot_moves_latches_it(rig, settings, verb):
    rig.act(np.ones((1, 2), np.float32), ONE)
    settings.latch.unlink()
    with pytest.raises(RobotProblem, match="latched: The latch file .* is missing"):
        rig.act(np.ones((1, 2), np.float32), ONE) if verb == "act" else rig.place(0, HOME)
    log = Path(str(settings.options["log"]))
    assert len(acts(log)) == 1
    assert lines(log, "still")[-1] >= acts(log)[-1]


def test_a_latch_file_that_somebody_else_closes_halts_the_robot_by_itself(rig, settings):
    rig.act(np.ones((1, 2), np.float32), ONE)
    Latch(settings.latch).close("The guard seemed gone.")
    until(lambda: rig.status()["latched"] == "The guard seemed gone.", "the guard to look at its latch")


def test_a_file_that_says_open_does_not_unlatch_the_guard(rig, settings):
    rig.stop()
    latch = Latch(settings.latch)
    latch.open(latch.read().nonce, "somebody who wrote the file by hand")
    with GuardControl(settings.card) as control:
        key = resume_code.read(settings.folder).key(CODE)
        with pytest.raises(RobotProblem, match="was open while the robot was latched"):
            control.ask("resume", nonce="made up", person="Mallory", key=key)
        assert latch.read().latched
        with pytest.raises(RobotProblem, match="latched"):
            rig.place(0, HOME)
        control.resume("Ada", CODE)
    rig.place(0, HOME)


def test_a_second_guard_refuses(rig, settings):
    with pytest.raises(RobotProblem, match="Another guard owns this robot"):
        start_guard(settings)
    rig.act(np.zeros((1, 2), np.float32), ONE)


def test_an_older_runner_is_shut_out(rig, settings):
    newer = GuardedClient(settings, lease=7)
    with pytest.raises(RobotProblem, match="has ended|runner"):
        rig.observe()
    with pytest.raises(RobotProblem, match="older"):
        GuardedClient(settings, lease=3)
    newer.close()


def burst(sequence: int, count: int) -> bytes:
    """Send this number of actions without waiting for answers."""
    frames = bytearray()
    for number in range(sequence, sequence + count):
        frame = encode({
            "verb": "act", "sequence": number, "lease": 0, "stamp_ns": time.monotonic_ns(),
            "action": array_out(np.ones((1, 2), np.float32)), "moving": array_out(ONE),
        })  # fmt: skip
        frames += struct.pack("!I", len(frame)) + frame
    return bytes(frames)


@pytest.mark.realtime
@pytest.mark.parametrize("who", ["a stranger", "the runner, driving", "the runner, latched"])
def test_a_flood_delays_no_stop(settings, who):
    options = {**settings.options, "stop_s": 0.002}  # as long as a word to motors takes on a serial bus
    rig = open_guarded(replace(settings, driver="tests.robot_drivers.slow_robot:open_rig", options=options))
    flooder = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    flooder.connect(address_of(settings))
    flooder.settimeout(PATIENT_S)
    if who != "a stranger":
        exchange(flooder, encode({"verb": "hello", "lease": 0}), PATIENT_S)
    log = Path(str(settings.options["log"]))
    took_ms: list[float] = []
    with GuardControl(settings.card) as control:
        for trial in range(7):
            if who == "the runner, driving":
                control.resume("Ada", CODE)
                ticket = {"sequence": 0, "lease": 0, "stamp_ns": time.monotonic_ns()}
                exchange(flooder, encode({"verb": "place", "lane": 0, "start": plain(HOME), **ticket}), PATIENT_S)
                exchange(flooder, burst(1 + 1000 * trial, 1)[4:], PATIENT_S)
            flooder.sendall(burst(2 + 1000 * trial, FLOOD))
            asked_ns = time.monotonic_ns()
            control.stop("in a flood")
            answered_ns = time.monotonic_ns()
            took_ms.append((answered_ns - asked_ns) / 1e6)
            for _ in range(FLOOD):
                (length,) = struct.unpack("!I", flooder.recv(4, socket.MSG_WAITALL))
                flooder.recv(length, socket.MSG_WAITALL)
            assert not log.exists() or all(stamp < answered_ns for stamp in acts(log))
    if who == "the runner, driving":
        assert len(acts(log)) >= 7
    # The median: this machine runs other work, too. A part of it is the sync of the latch file.
    assert sorted(took_ms)[3] < 100.0, took_ms
    flooder.close()
    rig.close()


def test_garbage_is_cut_off_and_the_guard_goes_on(rig, settings):
    for garbage in (b"\xff\xff\xff\xff", struct.pack("!I", 4) + b"abcd", struct.pack("!I", 1) + b"\x80"):
        peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        peer.settimeout(PATIENT_S)
        peer.connect(address_of(settings))
        peer.sendall(garbage)
        while peer.recv(4096):
            continue
        peer.close()
    assert rig.status()["dropped"] == {"malformed": 3}
    rig.act(np.zeros((1, 2), np.float32), ONE)


@pytest.mark.realtime
def test_what_would_take_seconds_to_read_is_refused_by_its_length(rig, settings):
    peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    peer.settimeout(PATIENT_S)
    peer.connect(address_of(settings))
    maps = 2**24
    peer.sendall(struct.pack("!I", 5 + maps) + b"\xdd" + struct.pack("!I", maps))
    with suppress(OSError):  # it hangs up in the middle
        peer.sendall(b"\x80" * maps)
    began_s = time.monotonic()
    rig.stop()
    assert time.monotonic() - began_s < 2.0
    assert rig.status()["dropped"] == {"malformed": 1}
    peer.close()


@pytest.mark.parametrize("what", ["half of a length", "half of a message", "a closed half"])
def test_a_peer_that_stops_in_the_middle_delays_nobody(rig, settings, what):
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
        peer.connect(address_of(settings))
        peer.sendall({"half of a length": b"\0\0", "half of a message": struct.pack("!I", 9) + b"abc"}.get(what, b""))
        if what == "a closed half":
            peer.shutdown(socket.SHUT_WR)
        rig.act(np.zeros((1, 2), np.float32), ONE)
        rig.stop()
    assert Latch(settings.latch).read().latched


@pytest.mark.parametrize("descriptors", [40, 8])
def test_too_many_peers_are_refused_and_the_guard_goes_on(settings, descriptors):
    quiet = replace(settings, options={})  # the log of the fake arm needs a descriptor, too
    rig = open_guarded(quiet)
    resume(quiet)
    rig.place(0, HOME)
    rig.act(np.zeros((1, 2), np.float32), ONE)
    address = address_of(quiet)
    resource.prlimit(int(str(rig.status()["pid"])), resource.RLIMIT_NOFILE, (descriptors, 4096))
    peers = [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) for _ in range(60)]
    for peer in peers:
        peer.settimeout(0.5)
        with suppress(OSError):  # full: that peer is refused
            peer.connect(address)
    rig.act(np.zeros((1, 2), np.float32), ONE)
    resource.prlimit(int(str(rig.status()["pid"])), resource.RLIMIT_NOFILE, (4096, 4096))
    for peer in peers:
        peer.close()
    with GuardControl(settings.card) as control:
        control.stop("Ada stops it all the same")
    assert Latch(settings.latch).read().cause == "Ada stops it all the same"
    rig.close()


def test_while_peers_crowd_a_stop_is_durable(rig, settings):
    address = address_of(settings)
    resource.prlimit(int(str(rig.status()["pid"])), resource.RLIMIT_NOFILE, (40, 4096))
    peers = [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) for _ in range(60)]
    for peer in peers:
        peer.connect(address)
    rig.stop()
    assert Latch(settings.latch).read().latched
    for peer in peers:
        peer.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_whatever_ends_the_guard_the_robot_is_halted_and_latched(rig, settings, number):
    rig.act(np.ones((1, 2), np.float32), ONE)
    assert not Latch(settings.latch).read().latched
    os.kill(int(str(rig.status()["pid"])), number)
    until(lambda: not settings.card.exists(), "the guard to end")
    assert Latch(settings.latch).read().latched
    log = Path(str(settings.options["log"]))
    assert lines(log, "still")[-1] >= acts(log)[-1]


def test_a_killed_guard_comes_back_latched(rig, settings):
    rig.act(np.zeros((1, 2), np.float32), ONE)
    os.kill(int(str(rig.status()["pid"])), signal.SIGKILL)
    with pytest.raises(RobotProblem, match="has ended"):
        rig.act(np.zeros((1, 2), np.float32), ONE)
    with pytest.raises(RobotProblem, match=r"No guard confirmed the stop.*emergency stop"):
        rig.stop()
    assert Latch(settings.latch).read().latched
    rig.stop()
    again = open_guarded(settings)
    with pytest.raises(RobotProblem, match="latched"):
        again.place(0, HOME)
    again.close()


@pytest.mark.slow
def test_a_guard_that_hangs_is_no_silent_stop(rig, settings):
    """It may hang in motion: only its watchdog, or the robot's own stop, ends that."""
    rig.act(np.zeros((1, 2), np.float32), ONE)
    pid = int(str(rig.status()["pid"]))
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(RobotProblem, match=r"No guard confirmed the stop.*did not answer.*emergency stop"):
            rig.stop()
        assert Latch(settings.latch).read().latched
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_simulated_robot_resumes_by_itself(settings):
    simulated = GuardSettings(driver="fake", folder=settings.folder, person_to_resume=False, lanes=2, pace="fast",
                              watchdog_s=10.0)  # fmt: skip
    rig = open_guarded(simulated)
    both = np.ones(2, np.bool_)
    rig.place(0, HOME)
    rig.place(1, HOME)
    rig.act(np.zeros((2, 2), np.float32), both)
    rig.stop()
    with pytest.raises(RobotProblem, match="latched"):
        rig.act(np.zeros((2, 2), np.float32), both)
    rig.resume()
    rig.place(0, HOME)
    rig.act(np.zeros((2, 2), np.float32), both)
    assert rig.look(0)["top"].dtype == np.uint8
    rig.close()


def test_a_driver_that_cannot_stop_its_robot_is_told_and_stays_latched(settings):
    rig = slow(settings, breaks=1.0)
    with pytest.raises(RobotProblem, match="the bus is gone.*own emergency stop"):
        rig.stop()
    assert Latch(settings.latch).read().latched
    with pytest.raises(RobotProblem, match="latched"):
        rig.act(np.ones((1, 2), np.float32), ONE)
    rig.close()
