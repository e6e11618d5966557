"""The guard as a process: limits, stops, latch, lost and fast peers. Real sockets, real processes, a fake arm."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from enpire.errors import EnvelopeViolation, FileProblem, RobotProblem, UsageError
from enpire.files import plain
from robot_drivers.guard import main
from robot_drivers.guard_client import GuardControl, open_guarded, open_rig
from robot_drivers.guard_settings import GuardSettings
from tests.fakes.reach_task import ReachTask
from tests.fakes.waiting import has_ended
from tests.robot_drivers.guarded_arm import HOME, ONE, PATIENT_S, acts, end_guards, lines, resume, slow, until


def test_limits_and_refusals_hold_behind_the_guard(rig, settings):
    assert rig.act(np.full((1, 2), 9.0, np.float32), ONE).tolist() == [[1.5, 1.5]]
    assert rig.clipped.tolist() == [1]
    moved = len(acts(Path(str(settings.options["log"]))))
    for wish in (np.full((1, 2), np.nan), np.zeros((1, 3)), np.zeros(2)):
        with pytest.raises(EnvelopeViolation):
            rig.act(wish.astype(np.float32), ONE)
    assert len(acts(Path(str(settings.options["log"])))) == moved
    assert rig.observe().state.shape == (1, 4)


def test_a_robot_that_moves_is_halted_before_a_new_rollout_begins(rig, settings):
    log = Path(str(settings.options["log"]))
    rig.act(np.ones((1, 2), np.float32), ONE)
    rig.place(0, HOME)
    assert lines(log, "still")[-1] > acts(log)[-1]
    assert not rig.status()["tripped"]
    assert rig.act(np.ones((1, 2), np.float32), ONE).tolist() == [[1.0, 1.0]]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [("x = 1\n", "needs a function robot"), ("def robot():\n    return 3\n", "has no spec"), ("def", "is not Python")],
)
def test_a_wrong_driver_file_is_explained(settings, text, sentence):
    Path(settings.driver).write_text(text)
    plain = GuardSettings(driver=settings.driver, folder=settings.folder)
    with pytest.raises(RobotProblem, match=sentence):
        open_guarded(plain)


@pytest.mark.parametrize(
    "content", ["[]", '{"socket": 5}', "{", "[" * 200_000, '{"pid": 1, "schema": 1, "socket": "a"}']
)
def test_a_card_that_is_none_is_one_sentence_and_the_next_guard_writes_a_new_one(settings, content):
    settings.folder.mkdir(exist_ok=True)
    settings.card.write_text(content)
    with pytest.raises(RobotProblem, match="No guard answers at .*guard.json.* Start the station of that robot"):
        GuardControl(settings.card)
    open_guarded(settings).close()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("watchdog_periods", 0),
        ("watchdog_periods", -3.0),
        ("watchdog_s", -1),
        ("linger_s", -5),
        ("lanes", 0),
        ("seed", -1),
    ],
)
def test_a_setting_that_no_guard_can_keep_is_refused(tmp_path, key, value):
    told = {"driver": "fake", "folder": str(tmp_path), key: value}
    with pytest.raises(FileProblem, match=f"The guard of a station file: {key} must be at least .*, not {value}"):
        open_rig(ReachTask(), 1, 0, {"guard": told})


@pytest.mark.parametrize(("content", "sentence"), [("{", "is not JSON"), ("[]", "must be a mapping of keys to values")])
def test_a_settings_file_that_is_none_is_one_sentence(tmp_path, capsys, content, sentence):
    told = tmp_path / "left.json"
    told.write_text(content)
    assert main([str(told)]) == 1
    assert sentence in capsys.readouterr().err


def test_a_guard_that_a_failing_test_leaves_is_ended(settings):
    rig = open_guarded(settings)
    pid = int(str(rig.status()["pid"]))
    end_guards(but=[pid])
    assert not has_ended(pid)
    end_guards()
    until(lambda: has_ended(pid), "the end of the guard")
    with suppress(RobotProblem):
        rig.close()


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


@pytest.mark.realtime
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


@pytest.mark.realtime
def test_pictures_beside_motion_neither_trip_nor_hide_a_dead_runner(settings):
    rig = slow(settings, look_s=0.5)
    log = Path(str(settings.options["log"]))
    for _ in range(4):
        assert rig.look(0)["top"].any()
        rig.act(np.ones((1, 2), np.float32), ONE)
    assert rig.look(0)["top"].any()  # the last thing that the runner does
    until(lambda: rig.status()["tripped"], "the watchdog")
    assert "No new action" in str(rig.status()["tripped"])
    assert 1.0e9 <= lines(log, "still")[-1] - acts(log)[-1] < 1.45e9
    rig.close()


def test_what_the_driver_still_does_for_a_lost_runner_moves_nothing_for_the_next(settings):
    rig = slow(settings, observe_s=3.0)
    with ThreadPoolExecutor(1) as threads, GuardControl(settings.card) as runner:
        late = threads.submit(rig.act, np.ones((1, 2), np.float32), ONE)
        until(lambda: rig.status()["tripped"], "the watchdog")
        runner.ask("hello", lease=1)
        resume(settings)
        ticket = {"sequence": 0, "lease": 1, "stamp_ns": time.monotonic_ns()}
        with pytest.raises(RobotProblem, match="still serves the former runner"):
            runner.ask("place", lane=0, start=plain(HOME), **ticket)
        with pytest.raises(RobotProblem):
            late.result(PATIENT_S)
        runner.ask("spec")  # waits for the driver
        runner.ask("place", lane=0, start=plain(HOME), **ticket)
    assert len(acts(Path(str(settings.options["log"])))) == 1
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
