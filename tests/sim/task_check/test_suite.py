"""The contract suite: sound tasks pass, and every way of being broken is called by its name."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from enpire import plugins
from enpire.errors import RobotProblem, UnknownName
from enpire.interfaces import Evidence, Policy, Task
from enpire.types import FloatArray, ImageArray, MaskArray, Observation, Split, Start, Verdict
from sim.array_task import ArrayReset, ArrayRig, ArrayVerifier
from sim.task_check.suite import CHECKS, check_made, check_task
from sim.truth import Truth
from tests.sim.task_check.reach import Reach

ROOT = Path(__file__).resolve().parents[3]


def test_there_are_enough_checks_and_each_says_its_rule() -> None:
    assert len(CHECKS) >= 50
    assert len({rule.__name__ for rule in CHECKS}) == len(CHECKS)
    assert all((rule.__doc__ or "").endswith(".") for rule in CHECKS)


LONG = {"bag_packing", "fragile_ziptie", "gpu_insertion", "ziptie_cutting"}
"""Others of their family are checked in seconds."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name in LONG)) for name in plugins.BUILT_IN["tasks"]],
)
def test_shipped_tasks_pass_within_half_a_minute(name: str) -> None:
    report = check_task(name)
    assert report.conforms, [failure.line for failure in report.failures]
    assert report.applied >= 50
    assert f"passes {report.passed} of {report.applied} checks" in report.summary
    assert 0.0 < report.took_s < 30.0
    assert f" in {report.took_s:.1f} s." in report.summary


def test_a_third_partys_task_passes_by_its_full_name() -> None:
    said: list[str] = []
    report = check_task("tests.sim.task_check.reach:Reach", lambda result: said.append(result.line))
    assert report.conforms, [failure.line for failure in report.failures]
    assert len(said) == len(CHECKS)
    assert [item.name for item in report.results if item.result == "does not apply"] == [
        "cameras",
        "marks_follow_the_subtasks",
    ]


def test_the_suite_needs_no_simulator() -> None:
    code = (
        "import sys; sys.modules['mujoco'] = None\n"
        "from sim.task_check.suite import check_task\n"
        "assert check_task('tests.sim.task_check.reach:Reach').conforms"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr


def test_an_unknown_task_is_a_sentence() -> None:
    with pytest.raises(UnknownName, match="nothing_like_it"):
        check_task("nothing_like_it")


class PublicHoldout(Reach):
    """Its holdout starts do not hang on the secret."""

    def start(self, split: Split, index: int, secret: bytes) -> Start:
        return super().start(split, index, b"always the same secret")


class OneSplit(Reach):
    """Its splits are one."""

    def start(self, split: Split, index: int, secret: bytes) -> Start:
        drawn = super().start("train", index, b"")
        return Start(split=split, index=index, values=drawn.values, seed=drawn.seed)


class DrawnAnew(Reach):
    """Its starts differ each time."""

    calls = 0

    def start(self, split: Split, index: int, secret: bytes) -> Start:
        DrawnAnew.calls += 1
        return super().start(split, index + DrawnAnew.calls, secret)


class Neighbourly(ArrayRig):
    """Lane 1 pulls at every other lane."""

    def act(self, action: FloatArray, moving: MaskArray) -> FloatArray:
        sent = super().act(action, moving)
        if self.lanes > 1:
            self._world[moving] += 1e-9 * self._world[1]
        return sent


class Forgiving(ArrayRig):
    """Takes what is not a number for zero."""

    def act(self, action: FloatArray, moving: MaskArray) -> FloatArray:
        return super().act(np.nan_to_num(action), moving)


class Unlimited(ArrayRig):
    """Sends what it is told to."""

    def act(self, action: FloatArray, moving: MaskArray) -> FloatArray:
        super().act(action, moving)
        return action


class Restless(ArrayRig):
    """Noise that no seed decides."""

    def observe(self) -> Observation:
        seen = super().observe()
        noise = np.random.default_rng().normal(0, 1e-4, seen.state.shape)
        return Observation(stamp_ns=seen.stamp_ns, state=(seen.state + noise).astype(np.float32))


class Telling(ArrayRig):
    """Its sensors tell a policy when it is examined."""

    def place(self, lane: int, start: Start) -> None:
        super().place(lane, start)
        self._noise[lane] += start.split != "train"


class Meddling(ArrayRig):
    """Looking at the truth moves the world."""

    def truth(self, lane: int) -> Truth:
        self._world[lane] += 0.001
        return super().truth(lane)


class Colourless(ArrayRig):
    """Names no camera and yet shows a picture."""

    def look(self, lane: int) -> Mapping[str, ImageArray]:
        return {"secret": np.zeros((2, 2, 3), np.uint8)}


class Teleporter(ArrayRig):
    """Takes every lane to its start at once, whether it may or not."""

    def place(self, lane: int, start: Start) -> None:
        super().place(lane, start)
        self._world[lane] = start.values


class Jumpy(ArrayRig):
    """Its stop lets the arm sink."""

    def stop(self) -> None:
        self._world -= 0.01


class Clinging(ArrayRig):
    """Cannot be let go."""

    def close(self) -> None:
        raise RobotProblem("The port is busy; try again.")


def with_rig(rig: type[ArrayRig]) -> Callable[[], Task]:
    class Broken(Reach):
        def rig(self, lanes: int, seed: int) -> ArrayRig:
            return rig(self, lanes, seed)

    return Broken


class Generous(ArrayVerifier):
    """Calls everything a success."""

    def judge(self, evidence: Evidence) -> Verdict:
        return Verdict(kind="success", confidence=1.0, source="verifier")


class Blind(ArrayVerifier):
    """Never notices that a rollout is done."""

    def finished(self, state: FloatArray, ticks: np.ndarray) -> MaskArray:
        return np.zeros(len(state), np.bool_)


class Pensive(ArrayVerifier):
    """Thinks for too long."""

    def judge(self, evidence: Evidence) -> Verdict:
        time.sleep(0.2)
        return super().judge(evidence)


class Fickle(ArrayVerifier):
    """Has another digest each time."""

    def __init__(self, task: Reach) -> None:
        super().__init__(task)
        self.digest = f"{id(self)}{np.random.default_rng().random()}"


def with_verifier(verifier: type[ArrayVerifier]) -> Callable[[], Task]:
    class Broken(Reach):
        def verifier(self) -> ArrayVerifier:
            return verifier(self)

    return Broken


class Lost(Reach):
    """Its expert steers elsewhere."""

    goal = (0.9, 0.9)


class Lazy(ArrayReset):
    """Says at once that it is done."""

    def step(self, state: FloatArray, lanes: np.ndarray) -> tuple[FloatArray, MaskArray]:
        return np.zeros((len(lanes), 2), np.float32), np.ones(len(lanes), np.bool_)


class LazyReset(Reach):
    def reset_skill(self) -> ArrayReset:
        return Lazy(self)


class Unmarked(Reach):
    """Names subtasks that nothing marks."""

    spec = replace(Reach.spec, subtasks=("near", "there"))  # type: ignore[misc]


class MarksIdleness(Unmarked):
    """Marks its last subtask by the clock."""

    def subtask_marks(self, state: FloatArray) -> MaskArray:
        late = np.arange(len(state)) > 2
        return np.stack([late, late], axis=1)


class TeleportedLazyReset(LazyReset):
    """The rig hides that its reset does nothing."""

    def rig(self, lanes: int, seed: int) -> ArrayRig:
        return Teleporter(self, lanes, seed)


class RaisingExpert(Reach):
    def expert(self, seed: int) -> Policy:  # type: ignore[override]
        raise KeyError("no expert today")


class Specless:
    """A class that is no task at all."""


class Argumentative(Reach):
    """Cannot be made as a station makes it."""

    def __init__(self, table: str) -> None:
        self.table = table


@pytest.mark.parametrize(
    ("make", "failing"),
    [
        (PublicHoldout, {"holdout_depends_on_the_secret", "confirm_depends_on_the_secret"}),
        (OneSplit, {"holdout_depends_on_the_secret", "confirm_depends_on_the_secret", "splits_are_disjoint"}),
        (DrawnAnew, {"starts_are_deterministic", "starts_carry_split_and_index", "replay_is_exact"}),
        (with_rig(Neighbourly), {"lanes_ignore_their_neighbours"}),
        (with_rig(Forgiving), {"nan_is_refused", "infinity_is_refused"}),
        (with_rig(Unlimited), {"commands_are_limited"}),
        (with_rig(Restless), {"observing_changes_nothing", "replay_is_exact"}),
        (with_rig(Telling), {"sensors_do_not_tell_the_split"}),
        (with_rig(Meddling), {"truth_changes_nothing"}),
        (with_rig(Colourless), {"cameras"}),
        (with_verifier(Generous), {"a_start_is_no_success", "idleness_fails_at_the_limit"}),
        (with_verifier(Blind), {"success_ends_before_the_limit"}),
        (with_verifier(Fickle), {"verifier_is_frozen"}),
        (Lost, {"expert_succeeds"}),
        (LazyReset, {"reset_reaches_the_start"}),
        (with_rig(Teleporter), {"place_without_teleport_moves_nothing"}),
        (TeleportedLazyReset, {"place_without_teleport_moves_nothing"}),
        (with_rig(Jumpy), {"stop_holds_still"}),
        (with_rig(Clinging), {"stop_and_close", "rigs_close"}),
        (with_verifier(Pensive), {"verdicts_are_fast"}),
        (Specless, {"it_is_a_task"}),
        (Argumentative, {"it_is_a_task"}),
        (Unmarked, {"marks_follow_the_subtasks"}),
        (MarksIdleness, {"marks_follow_the_subtasks"}),
        (RaisingExpert, {"expert_succeeds", "expert_chunks"}),
    ],
)  # fmt: skip
def test_what_is_broken_is_named(make: Callable[[], Task], failing: set[str]) -> None:
    report = check_made("broken", make)
    failed = {failure.name: failure for failure in report.failures}
    assert failing <= set(failed)
    assert not report.conforms
    assert all(failure.detail.startswith("->") for failure in failed.values())
