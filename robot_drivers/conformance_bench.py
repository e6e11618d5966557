"""What the conformance checks share: the rig under test, and small motions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from enpire.conformance import CheckFailed, DoesNotApply, require_refusal
from enpire.errors import RobotProblem, UsageError
from enpire.interfaces import Rig
from enpire.types import FloatArray, MaskArray, Observation, Start, TaskSpec
from robot_drivers.guard_client import GuardControl, GuardedClient, open_guarded
from robot_drivers.guarded_rig import Rehearses
from robot_drivers.machine_lateness import LatenessMeter
from robot_drivers.safety import Envelope
from robot_drivers.sensor_faults import SensorFault

NUDGE = 0.1
"""Share of an action's range by which a check moves the robot away from holding."""
NOISE = 0.02
"""Share of a state's range that counts as no motion, because sensors are noisy."""
RESUME_S = 600.0
"""How long the checks wait for an operator who resumes the robot elsewhere [s]."""
SAMPLES = 6
"""Observations of a robot at rest that are averaged, because two single ones of a noisy sensor may differ by NOISE."""
SWING = 0.06
"""Share of a state's range by which these samples may differ: more is a robot that swings, and no noise."""
BRAKES_S = 0.5
"""A robot that did not move for this long is at rest [s]."""
RESTS_WITHIN_S = 3.0
"""A stopped robot must be at rest after this time [s]. It is long because a simulation on a busy computer is late."""
LATE_S = 60.0
"""How long the checks wait for the next observation of a robot whose messages are late on a busy computer [s]."""


def resume_rig(rig: Rig) -> None:
    """Allow motion after a stop, if the rig has `resume`."""
    resume = getattr(rig, "resume", None)
    if callable(resume):
        resume()


class Operator:
    """Resumes the robot during the checks, as the operator who watches it does: its guard asks for a name and the code.

    A robot whose guard is on another computer is resumed there, by hand; the checks wait for that.
    """

    def __init__(self, code: Callable[[], str], say: Callable[[str], None]) -> None:
        """`code` gives the code of the robot, and is called once; `say` prints a line for the operator."""
        self._ask, self._say = code, say

    @cached_property
    def code(self) -> str:
        """The code of the robot."""
        return self._ask()

    def resume(self, rig: Rig) -> None:
        """Resume the robot after a stop of a check; RobotProblem if it is not resumed."""
        if isinstance(rig, GuardedClient) and rig.settings.person_to_resume:
            with GuardControl(rig.settings.card) as guard:
                if guard.status()["latched"]:
                    guard.resume("the operator who runs the conformance checks", self.code)
            return
        try:
            resume_rig(rig)
        except RobotProblem as problem:
            self._wait(rig, problem)

    def _wait(self, rig: Rig, problem: RobotProblem) -> None:
        self._say(f"{problem} The checks continue when the robot is resumed at its own computer.")
        until_s = time.monotonic() + RESUME_S
        while getattr(rig, "stopped", False):
            if time.monotonic() > until_s:
                raise problem
            time.sleep(0.2)


@dataclass(frozen=True, slots=True, kw_only=True)
class RobotUnderTest:
    """A robot to be checked."""

    name: str
    """How the report names it."""
    open: Callable[[], Rig]
    """Opens the rig; it is called again after `close`."""
    start: Callable[[int], Start]
    """Gives the start of an index."""
    realtime: bool
    """True if time passes by itself (hardware), False if a period passes with each action (simulation)."""
    resume: Callable[[Rig], None] = resume_rig
    """Resumes the rig after a stop, as an operator does."""


class Bench:
    """The rig under test. Every check calls `ready` first: the rig runs and all lanes are placed."""

    def __init__(self, robot: RobotUnderTest) -> None:
        self.robot = robot
        self.rig = robot.open()
        self.spec: TaskSpec = self.rig.spec
        self.envelope = Envelope(self.spec)
        self.all: MaskArray = np.ones(self.rig.lanes, np.bool_)
        self.last: FloatArray = np.zeros((self.rig.lanes, self.spec.action_dim), np.float32)
        """What `tick` sent last."""
        self.meter = LatenessMeter()
        self.low = np.array([item.low for item in self.spec.state], np.float64)
        self.high = np.array([item.high for item in self.spec.state], np.float64)
        span = self.high - self.low
        self.span = np.where(np.isfinite(span) & (span > 0), span, 1.0)

    def close(self) -> None:
        """Release the rig, and end the measurement of this computer."""
        self.meter.close()
        self.rig.close()

    def ready(self, seed: int = 0) -> Rig:
        """The rig, with each lane placed at the start of its number."""
        self.robot.resume(self.rig)
        for lane in range(self.rig.lanes):
            self.rig.place(lane, self.robot.start(seed + lane))
        return self.rig

    @contextmanager
    def rehearsing(self, fault: SensorFault) -> Iterator[None]:
        """The rig with a sensor fault in every stop, for the length of the block. The rig of a guard is opened again.

        Raises:
            DoesNotApply: the rig, or its driver, cannot be given this fault.
        """
        rig = self.rig
        if isinstance(rig, GuardedClient):
            rig.close()
            try:
                self.rig = _guard_that_rehearses(rig, fault)
            except DoesNotApply:
                self.rig = self.robot.open()
                raise
        elif isinstance(rig, Rehearses):
            try:
                rig.rehearse(fault)
            except UsageError as problem:
                raise DoesNotApply(str(problem)) from problem
        else:
            raise DoesNotApply("the sensors of this robot cannot be broken from here")
        try:
            yield
        finally:
            if isinstance(self.rig, Rehearses):
                self.rig.rehearse("")
            else:
                self.rig.close()
                self.rig = self.robot.open()

    def reopen(self) -> Rig:
        """Close the rig and open it again."""
        self.rig.close()
        self.rig = self.robot.open()
        return self.ready()

    def holding(self, observation: Observation | None = None) -> FloatArray:
        """The action that holds every lane where it is: (lanes, action_dim) float32, in the units of the spec."""
        seen = self.rig.observe() if observation is None else observation
        return self.envelope.hold(seen.state)

    def nudged(self, hold: FloatArray, sign: float = 1.0) -> FloatArray:
        """`hold` (lanes, action_dim) with each number moved by `NUDGE` of its range, away from its bound."""
        low, high = self.envelope.low, self.envelope.high
        side = np.where(hold < (low + high) / 2, 1.0, -1.0) * sign
        return np.clip(hold + side * NUDGE * (high - low), low, high).astype(np.float32)

    def tick(self, action: FloatArray, moving: MaskArray | None = None) -> FloatArray:
        """Send one action (lanes, action_dim) and let a period pass; returns what was sent, of the same shape."""
        sent = self.last = self.rig.act(action, self.all if moving is None else moving)
        self.pass_period()
        return sent

    def pass_period(self) -> None:
        """Wait for one period, if time passes by itself."""
        if self.robot.realtime:
            time.sleep(self.spec.period_s)

    def rest(self) -> Observation:
        """Hold for ten periods, then observe."""
        hold = self.holding()
        for _ in range(10):
            self.tick(hold)
        return self.seen(lambda: self.tick(hold))

    def seen(self, between: Callable[[], object]) -> Observation:
        """What is observed of a robot at rest; of a realtime robot the mean of SAMPLES, because its sensors are noisy.

        Args:
            between: called between two observations; it lets a period pass.
        """
        return self._looked(between)[0]

    def _looked(self, between: Callable[[], object]) -> tuple[Observation, float]:
        """As `seen`, with the largest swing between the samples, as a share of the range of a state."""
        seen = [self.rig.observe()]
        while self.robot.realtime and len(seen) < SAMPLES:
            between()
            seen.append(self.rig.observe())
        states = np.array([item.state for item in seen], np.float64)
        swing = float((np.ptp(states, axis=0) / self.span).max())
        return replace(seen[-1], state=states.mean(axis=0).astype(np.float32)), swing

    def come_to_rest(self) -> Observation:
        """Wait until a stopped robot did not move for BRAKES_S; CheckFailed if it still moves after RESTS_WITHIN_S."""
        before = after = self.seen(self.pass_period)
        swing = 0.0
        for _ in range(round(RESTS_WITHIN_S / BRAKES_S)):
            before, (after, swing) = after, self._looked_later(after)
            if float(self.shift(before, after).max()) <= NOISE and swing <= SWING:
                return after
        self._require_still(before, after, swing, f"A stopped robot must come to rest within {RESTS_WITHIN_S:.0f} s")
        return after

    def stays(self, before: Observation, what: str) -> Observation:
        """What is observed BRAKES_S later; CheckFailed, beginning with `what`, if the robot moved or swings."""
        after, swing = self._looked_later(before)
        self._require_still(before, after, swing, what)
        return after

    def _require_still(self, before: Observation, after: Observation, swing: float, what: str) -> None:
        self.same(before, after, what)
        if swing > SWING:
            raise CheckFailed(f"{what}, but it swings to and fro by {swing:.0%} of the range of a state.")

    def _looked_later(self, before: Observation) -> tuple[Observation, float]:
        """What is observed BRAKES_S later by the clock of the robot; the same message again would look like rest."""
        until_s = time.monotonic() + LATE_S
        while True:
            time.sleep(BRAKES_S)
            first = self.rig.observe()  # each sample is at least as new
            if not self.robot.realtime or first.stamp_ns - before.stamp_ns >= BRAKES_S * 1e9:
                return self._looked(self.pass_period)
            if time.monotonic() > until_s:
                raise CheckFailed(f"A stopped robot must be observed anew; no observation came for {LATE_S:.0f} s.")

    def shift(self, before: Observation, after: Observation) -> npt.NDArray[np.float64]:
        """Change of the state as a share of its range, (lanes, state_dim) float64."""
        return np.abs(after.state.astype(np.float64) - before.state) / self.span

    def same(self, before: Observation, after: Observation, what: str) -> None:
        """CheckFailed, beginning with `what`, unless the robot did not move between two observations."""
        shift = self.shift(before, after)
        if float(shift.max()) > NOISE:
            lane, index = np.unravel_index(int(shift.argmax()), shift.shape)
            raise CheckFailed(
                f"{what}, but {self.spec.state[index].name} of lane {lane} went from"
                f" {before.state[lane, index]:.5g} to {after.state[lane, index]:.5g}."
            )


def require_closed(rig: Rig, bench: Bench) -> None:
    """CheckFailed unless a closed rig refuses actions."""
    hold = np.zeros((rig.lanes, bench.spec.action_dim), np.float32)
    require_refusal(lambda: rig.act(hold, bench.all), RobotProblem, "An action after close")


def _guard_that_rehearses(rig: GuardedClient, fault: SensorFault) -> Rig:
    """The rig behind a new guard with a sensor fault; DoesNotApply where that guard cannot be started."""
    try:
        made = open_guarded(replace(rig.settings, rehearse=fault))
    except RobotProblem as problem:
        raise DoesNotApply(str(problem).rpartition("did not start: ")[2]) from problem
    if made.status()["rehearses"] != fault:
        made.close()
        raise DoesNotApply("the guard of this robot is started by the system, and rehearses no fault")
    return made
