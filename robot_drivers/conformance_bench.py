"""What the conformance checks share: the rig under test, and small motions."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from enpire.conformance import CheckFailed, require_refusal
from enpire.errors import RobotProblem
from enpire.interfaces import Rig
from enpire.types import FloatArray, MaskArray, Observation, Start, TaskSpec
from robot_drivers.safety import Envelope

NUDGE = 0.1
"""Share of an action's range by which a check moves the robot away from holding."""
NOISE = 0.02
"""Share of a state's range that counts as no motion, because sensors are noisy."""


def resume_rig(rig: Rig) -> None:
    """Allow motion after a stop, if the rig has `resume`."""
    resume = getattr(rig, "resume", None)
    if callable(resume):
        resume()


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
        self.low = np.array([item.low for item in self.spec.state], np.float64)
        self.high = np.array([item.high for item in self.spec.state], np.float64)
        span = self.high - self.low
        self.span = np.where(np.isfinite(span) & (span > 0), span, 1.0)

    def ready(self, seed: int = 0) -> Rig:
        """The rig, with each lane placed at the start of its number."""
        self.robot.resume(self.rig)
        for lane in range(self.rig.lanes):
            self.rig.place(lane, self.robot.start(seed + lane))
        return self.rig

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
        sent = self.rig.act(action, self.all if moving is None else moving)
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
        return self.rig.observe()

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
