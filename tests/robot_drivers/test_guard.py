"""The guard as a process: limits, stops, latch, lost and eager peers. Real sockets, real processes, a fake arm."""

from __future__ import annotations

import os
import resource
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from enpire.errors import EnvelopeViolation, RobotProblem, UsageError
from enpire.fleet.questions import array_out, encode
from enpire.types import Start
from robot_drivers.guard_client import Control, GuardedClient, open_guarded, start_guard
from robot_drivers.guard_settings import GuardSettings
from robot_drivers.latch import Latch

ONE = np.ones(1, np.bool_)
HOME = Start(split="train", index=0, values=(0.0, 0.0), seed=0)
PATIENT_S = 30.0


def until(true: Callable[[], object], what: str) -> None:
    deadline_s = time.monotonic() + PATIENT_S
    while not true():
        assert time.monotonic() < deadline_s, f"waited in vain: {what}"
        time.sleep(0.01)


def resume(settings: GuardSettings) -> None:
    with Control(settings.card) as hand:
        hand.resume("Ada")


def address_of(settings: GuardSettings) -> str:
    with Control(settings.card) as hand:
        return hand.address


def lines(log: Path, word: str) -> list[int]:
    return [int(line.split()[1]) for line in log.read_text().splitlines() if line.startswith(word)]


def acts(log: Path) -> list[int]:
    return lines(log, "act")


@pytest.fixture
def settings(tmp_path) -> GuardSettings:
    driver = tmp_path / "arm.py"
    driver.write_text("from robot_drivers.fake_robot import robot\n")
    # Ten seconds of patience: these tests are not about the watchdog, and the machine is busy.
    return GuardSettings(
        driver=str(driver), folder=tmp_path / "arm", options={"log": str(tmp_path / "log")}, watchdog_s=10.0
    )


@pytest.fixture
def rig(settings) -> Iterator[GuardedClient]:
    opened = open_guarded(settings)
    resume(settings)
    opened.place(0, HOME)
    yield opened
    opened.close()


def test_limits_and_refusals_hold_behind_the_guard(rig, settings):
    assert rig.act(np.full((1, 2), 9.0, np.float32), ONE).tolist() == [[1.5, 1.5]]
    assert rig.clipped.tolist() == [1]
    moved = len(acts(Path(str(settings.options["log"]))))
    for wish in (np.full((1, 2), np.nan), np.zeros((1, 3)), np.zeros(2)):
        with pytest.raises(EnvelopeViolation):
            rig.act(wish.astype(np.float32), ONE)
    assert len(acts(Path(str(settings.options["log"])))) == moved
    assert rig.observe().state.shape == (1, 4)


def test_it_starts_latched_and_only_a_person_resumes(settings):
    rig = open_guarded(settings)
    with pytest.raises(RobotProblem, match="latched"):
        rig.place(0, HOME)
    with pytest.raises(RobotProblem, match="latched"):
        rig.act(np.zeros((1, 2), np.float32), ONE)
    with pytest.raises(RobotProblem, match="needs a person"):
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
    with pytest.raises(RobotProblem, match="Place it to begin anew"):
        rig.act(np.ones((1, 2), np.float32), ONE)
    rig.place(0, HOME)
    rig.act(np.ones((1, 2), np.float32), ONE)


def test_only_a_person_with_a_name_resumes_and_never_the_runner(rig, settings):
    rig.stop()
    nonce = Latch(settings.latch).read().nonce
    with Control(settings.card) as hand:
        for nobody in ("", "  "):
            with pytest.raises(RobotProblem, match="Say who resumes"):
                hand.ask("resume", nonce=nonce, person=nobody)
        hand.ask("hello", lease=1)  # the connection becomes the runner's
        with pytest.raises(RobotProblem, match="runner cannot resume its own robot"):
            hand.ask("resume", nonce=Latch(settings.latch).read().nonce, person="Ada")
        assert hand.status()["latched"]
    assert Latch(settings.latch).read().latched


def test_who_resumes_a_robot_that_moves_changes_nothing(rig, settings):
    rig.act(np.zeros((1, 2), np.float32), ONE)
    resume(settings)
    rig.act(np.zeros((1, 2), np.float32), ONE)


@pytest.mark.parametrize("cause", [{}, {"cause": ""}, {"cause": "x" * 5000}, {"cause": 3}])
def test_a_stop_holds_whatever_its_cause_looks_like(rig, settings, cause):
    rig.act(np.zeros((1, 2), np.float32), ONE)
    with Control(settings.card) as hand:
        assert hand.ask("stop", **cause).text("latched")
    assert Latch(settings.latch).read().latched
    with pytest.raises(RobotProblem, match="latched"):
        rig.act(np.zeros((1, 2), np.float32), ONE)


def test_a_second_guard_refuses(rig, settings):
    with pytest.raises(RobotProblem, match="Another guard owns this robot"):
        start_guard(settings)
    rig.act(np.zeros((1, 2), np.float32), ONE)


def test_an_older_runner_is_shut_out(rig, settings):
    newer = GuardedClient(settings, lease=7)
    with pytest.raises(RobotProblem, match="gone|runner"):
        rig.observe()
    with pytest.raises(RobotProblem, match="older"):
        GuardedClient(settings, lease=3)
    newer.close()


def test_a_flood_does_not_delay_a_stop(rig, settings):
    flooder = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    flooder.connect(address_of(settings))
    flooder.settimeout(0.05)
    command = encode({
        "verb": "act", "sequence": 1, "lease": 0, "stamp_ns": 0,
        "action": array_out(np.ones((1, 2), np.float32)), "moving": array_out(ONE),
    })  # fmt: skip
    frame = struct.pack("!I", len(command)) + command
    ended = threading.Event()

    def flood() -> None:
        while not ended.is_set():
            try:
                flooder.sendall(frame * 50)
            except TimeoutError:
                continue
            except OSError:
                return

    thread = threading.Thread(target=flood)
    thread.start()
    before = len(acts(log)) if (log := Path(str(settings.options["log"]))).exists() else 0
    rig.stop()
    ended.set()
    thread.join(PATIENT_S)
    flooder.close()
    assert Latch(settings.latch).read().latched
    assert len(acts(log)) == before


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
    with Control(settings.card) as hand:
        hand.stop("Ada stops it all the same")
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
    assert lines(log, "still")[-1] > acts(log)[-1]


def test_a_killed_guard_comes_back_latched(rig, settings):
    rig.act(np.zeros((1, 2), np.float32), ONE)
    os.kill(int(str(rig.status()["pid"])), signal.SIGKILL)
    with pytest.raises(RobotProblem, match="gone"):
        rig.act(np.zeros((1, 2), np.float32), ONE)
    rig.stop()
    assert Latch(settings.latch).read().latched
    again = open_guarded(settings)
    with pytest.raises(RobotProblem, match="latched"):
        again.place(0, HOME)
    again.close()


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


@pytest.mark.parametrize(
    ("text", "sentence"),
    [("x = 1\n", "needs a function robot"), ("def robot():\n    return 3\n", "has no spec"), ("def", "is not Python")],
)
def test_a_wrong_driver_file_is_explained(settings, text, sentence):
    Path(settings.driver).write_text(text)
    plain = GuardSettings(driver=settings.driver, folder=settings.folder)
    with pytest.raises(RobotProblem, match=sentence):
        open_guarded(plain)


def test_a_driver_without_an_envelope_is_refused(tmp_path):
    with pytest.raises((UsageError, RobotProblem), match="did not start"):
        open_guarded(GuardSettings(driver="builtins:dict", folder=tmp_path))


def test_a_driver_that_hangs_is_stopped_from_outside(settings):
    hanging = replace(settings, options={**settings.options, "act_s": 3.0}, watchdog_s=0.3)
    rig = open_guarded(hanging)
    resume(hanging)
    rig.place(0, HOME)
    with ThreadPoolExecutor(1) as threads:
        command = threads.submit(rig.act, np.ones((1, 2), np.float32), ONE)
        until(lambda: "driver hangs" in str(rig.status()["tripped"]), "the guard to notice")
        command.result(PATIENT_S)
    words = [line.split()[0] for line in Path(str(settings.options["log"])).read_text().splitlines()]
    assert words[-1] == "still"  # the command that came late was overruled
    rig.close()


def slow(settings: GuardSettings, **options: float) -> GuardedClient:
    """The slow arm behind a guard with a patience of one second, moving."""
    told = replace(
        settings, driver="tests.robot_drivers.slow_robot:open_rig", options={**settings.options, **options},
        watchdog_s=1.0,
    )  # fmt: skip
    rig = open_guarded(told)
    resume(told)
    rig.place(0, HOME)
    rig.act(np.ones((1, 2), np.float32), ONE)
    return rig


def test_a_driver_that_cannot_stop_its_robot_is_told_and_stays_latched(settings):
    rig = slow(settings, breaks=1.0)
    with pytest.raises(RobotProblem, match="the bus is gone.*own emergency stop"):
        rig.stop()
    assert Latch(settings.latch).read().latched
    with pytest.raises(RobotProblem, match="latched"):
        rig.act(np.ones((1, 2), np.float32), ONE)
    rig.close()


@pytest.mark.parametrize(("verb", "option"), [("observe", "observe_s"), ("look", "look_s")])
def test_whatever_is_asked_beside_motion_the_watchdog_stays_awake(settings, verb, option):
    rig = slow(settings, **{option: 4.0})
    log = Path(str(settings.options["log"]))
    with ThreadPoolExecutor(1) as threads:
        asked = threads.submit(rig.observe if verb == "observe" else lambda: rig.look(0))
        until(lambda: rig.status()["tripped"], "the watchdog")
        assert f"driver hangs in {verb}" in str(rig.status()["tripped"])
        assert lines(log, "still")[-1] - acts(log)[-1] < 3.5e9
        asked.result(PATIENT_S)
    rig.close()


def test_pictures_beside_motion_neither_trip_nor_hide_a_dead_runner(settings):
    rig = slow(settings, look_s=0.5)
    log = Path(str(settings.options["log"]))
    for _ in range(4):
        assert rig.look(0)["top"].any()
        rig.act(np.ones((1, 2), np.float32), ONE)
    assert rig.look(0)["top"].any()  # the last thing that the runner does
    until(lambda: rig.status()["tripped"], "the watchdog")
    assert "No fresh command" in str(rig.status()["tripped"])
    assert 1.0e9 <= lines(log, "still")[-1] - acts(log)[-1] < 1.45e9
    rig.close()


@pytest.mark.parametrize("senses", [True, False])
def test_leaving_the_envelope_stops_the_robot_and_is_told(settings, senses):
    narrow = replace(settings, options={**settings.options, "envelope": {"workspace": {"shoulder_rad": [-0.3, 0.3]}}})
    rig = open_guarded(narrow)
    resume(narrow)
    rig.place(0, HOME)

    def drive() -> bool:
        try:
            if senses:
                rig.observe()
            rig.act(np.full((1, 2), 1.0, np.float32), ONE)
        except RobotProblem as problem:
            return "envelope was left" in str(problem)
        return False

    until(drive, "the guard to stop the arm")
    assert rig.violated.tolist() == [True]
    assert "shoulder_rad is" in rig.offences[0]
    rig.close()
