"""Checks of how a robot stops, resumes, closes and opens again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from enpire.conformance import require, require_refusal
from enpire.errors import EnpireError, RobotProblem
from robot_drivers.conformance_bench import Bench, require_closed

PROMPT_S = 5.0
"""A stop that takes longer on a busy computer counts as hung [s]. `enpire doctor` measures the latency of a stop."""


def check_stop_from_a_thread(bench: Bench) -> None:
    """`stop` may be called from any thread, and returns."""
    bench.ready()
    bench.tick(bench.holding())
    _in_thread(bench.rig.stop, "stop")


def check_stop_twice(bench: Bench) -> None:
    """`stop` may be called twice, and before the first action."""
    rig = bench.ready()
    rig.stop()
    rig.stop()


def check_stop_refuses_commands(bench: Bench) -> None:
    """After a stop no action passes until the robot is resumed."""
    rig = bench.ready()
    hold = bench.holding()
    rig.stop()
    for _ in range(3):
        require_refusal(lambda: rig.act(hold, bench.all), RobotProblem, "An action after a stop")


def check_stop_holds(bench: Bench) -> None:
    """After a stop the robot stays where it came to rest."""
    rig = bench.ready()
    action = bench.nudged(bench.holding())
    for _ in range(5):
        bench.tick(action)
    rig.stop()
    before = bench.come_to_rest()
    bench.stays(before, "A stopped robot must hold still")


def check_stop_overrules(bench: Bench) -> None:
    """A stop takes effect while another thread sends actions as fast as it can, and no action passes after it."""
    rig = bench.ready()
    action = bench.nudged(bench.holding())
    ended = threading.Event()
    passed: list[float] = []

    def hammer() -> None:
        while not ended.is_set():
            try:
                began_s = time.monotonic()
                rig.act(action, bench.all)
                passed.append(began_s)
            except EnpireError:
                time.sleep(0.001)

    thread = threading.Thread(target=hammer, daemon=True)
    thread.start()
    time.sleep(0.1)
    rig.stop()
    stopped_s = time.monotonic()
    time.sleep(0.2)
    ended.set()
    thread.join(PROMPT_S)
    require(not thread.is_alive(), "act hangs after a stop.")
    require(passed, "No action passed before the stop; the robot does not take actions from another thread.")
    late = sum(1 for began_s in passed if began_s > stopped_s)
    require(not late, f"{late} actions that began after the stop had returned were accepted.")


def check_sense_while_stopped(bench: Bench) -> None:
    """A stopped robot still gives observations."""
    rig = bench.ready()
    rig.stop()
    require(rig.observe().state.shape == (rig.lanes, bench.spec.state_dim), "A stopped robot gave no observation.")


def check_resume(bench: Bench) -> None:
    """After it was resumed and a lane was placed, the robot accepts actions again."""
    bench.ready().stop()
    bench.ready()
    bench.tick(bench.holding())


def check_reconnect(bench: Bench) -> None:
    """A robot that was closed can be opened again, and accepts actions."""
    bench.reopen()
    bench.tick(bench.holding())


def check_close_twice(bench: Bench) -> None:
    """`close` may be called twice."""
    bench.ready()
    bench.rig.close()
    bench.rig.close()
    bench.rig = bench.robot.open()


def check_stop_after_close(bench: Bench) -> None:
    """`stop` is allowed in any state, also after `close`."""
    rig = bench.ready()
    rig.close()
    _in_thread(rig.stop, "stop after close")
    bench.rig = bench.robot.open()


def check_closed_refuses(bench: Bench) -> None:
    """A closed robot refuses actions."""
    rig = bench.ready()
    rig.close()
    require_closed(rig, bench)
    bench.rig = bench.robot.open()


def _in_thread(do: Callable[[], None], what: str) -> None:
    failures: list[EnpireError] = []

    def run() -> None:
        try:
            do()
        except EnpireError as error:
            failures.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PROMPT_S)
    require(not thread.is_alive(), f"{what} did not return within {PROMPT_S:.0f} s.")
    require(not failures, f"{what} from another thread failed: {failures}.")


CHECKS = (
    check_stop_from_a_thread, check_stop_twice, check_stop_refuses_commands, check_stop_holds, check_stop_overrules,
    check_sense_while_stopped, check_resume, check_reconnect, check_close_twice, check_stop_after_close,
    check_closed_refuses,
)  # fmt: skip
