"""Simulated robots without a physics engine, for tests and rehearsals: a rig in lockstep, an arm in real time."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from enpire.errors import RobotProblem, UsageError
from enpire.interfaces import Task
from enpire.types import Bounds, FloatArray, ImageArray, MaskArray, Observation, Start, TaskSpec
from robot_drivers.guarded_rig import GuardedRig
from robot_drivers.mujoco_robot import envelope_limits
from robot_drivers.safety import Envelope

FAKE_SPEC = TaskSpec(
    name="fake_reach",
    instruction="Move both joints to zero.",
    state=(
        Bounds(name="shoulder_rad", unit="rad", low=-2.0, high=2.0),
        Bounds(name="elbow_rad", unit="rad", low=-2.0, high=2.0),
        Bounds(name="shoulder_rad_s", unit="rad/s", low=-8.0, high=8.0),
        Bounds(name="elbow_rad_s", unit="rad/s", low=-8.0, high=8.0),
    ),
    action=(
        Bounds(name="shoulder_rad", unit="rad", low=-1.5, high=1.5),
        Bounds(name="elbow_rad", unit="rad", low=-1.5, high=1.5),
    ),
    rate_hz=30.0,
    limit_ticks=60,
    cameras=("top",),
    start_names=("shoulder_rad", "elbow_rad"),
)
"""Spec of an arm with two joints that follow position commands."""

NOISE = 1e-3
"""Standard deviation of a measurement, as a share of its range."""
APPROACH = 0.5
"""Share of the way to its target that a state number goes in one period."""


class FakeRig:
    """Lanes of a robot of any spec: state number i follows action i, the others stay in the middle of their range.

    Time is simulated. The noise of a lane depends only on its start.
    """

    def __init__(self, spec: TaskSpec, lanes: int, seed: int) -> None:
        self.spec = spec
        self.lanes = lanes
        self._low, self._high = _finite([(item.low, item.high) for item in spec.state])
        self._stamp_ns = 0
        self._stopped = False
        self._follows = min(spec.state_dim, spec.action_dim)
        self._state = np.tile((self._low + self._high) / 2, (lanes, 1))
        self._random = [np.random.default_rng((seed, lane)) for lane in range(lanes)]

    def place(self, lane: int, start: Start) -> None:
        """Set the state numbers that the start names; draw the others inside their bounds from the start's seed."""
        self._stopped = False
        random = np.random.default_rng(start.seed)
        middle, half = (self._low + self._high) / 2, (self._high - self._low) / 2
        row = middle + 0.5 * half * random.uniform(-1, 1, len(middle))
        named = dict(zip(self.spec.start_names, start.values, strict=False))
        for index, item in enumerate(self.spec.state):
            row[index] = np.clip(named.get(item.name, float(row[index])), self._low[index], self._high[index])
        self._state[lane] = row
        self._random[lane] = random

    def observe(self) -> Observation:
        """The state with noise, inside the bounds: (lanes, state_dim) float32, in the units of the spec."""
        sigma = NOISE * (self._high - self._low)
        noise = np.stack([random.standard_normal(len(sigma)) for random in self._random]) * sigma
        noisy = np.clip(self._state + noise, self._low, self._high)
        return Observation(stamp_ns=self._stamp_ns, state=noisy.astype(np.float32))

    def act(self, action: FloatArray, moving: MaskArray) -> FloatArray:
        """Go part of the way to the targets (lanes, action_dim), in the units of the spec; returns `action`."""
        self._stamp_ns += round(1e9 * self.spec.period_s)
        if self._stopped:
            raise RobotProblem("The fake robot is stopped; place a lane first.")
        count = self._follows
        target = np.clip(action[:, :count], self._low[:count], self._high[:count])
        step = APPROACH * (target - self._state[:, :count])
        self._state[:, :count] += np.where(moving[:, None], step, 0.0)
        return action

    def look(self, lane: int) -> Mapping[str, ImageArray]:
        """camera -> (height, width, 3) uint8: the state as bars."""
        share = (self._state[lane] - self._low) / np.maximum(self._high - self._low, 1e-9)
        return dict.fromkeys(self.spec.cameras, _bars(share, 24, 4 * len(share)))

    def stop(self) -> None:
        """Hold still."""
        self._stopped = True

    def close(self) -> None:
        """Nothing to close."""


class FakeRobot:
    """One arm in real time: two joints move to commanded positions, or brake after `stop`.

    Its camera shows the state as bars, with noise. `log` gets one line per action and per stop, so that another process
    can check when the arm moved.
    """

    spec = FAKE_SPEC
    speed_rad_s = 3.0
    brake_rad_s2 = 100.0

    def __init__(self, *, log: Path | None = None, act_s: float = 0.0, height: int = 48, width: int = 64) -> None:
        """`height` and `width` are the size of its images [px]."""
        self.log = log
        self._size = height, width
        self._noise = np.random.default_rng(0)
        self.act_s = act_s
        """How long it takes to send an action, as over a serial bus [s]."""
        self._lock = threading.Lock()
        self._connected = False
        self._position = np.zeros(2)
        self._velocity = np.zeros(2)
        self._target: FloatArray | None = None
        self._seen_s = time.monotonic()

    def connect(self) -> None:
        """Start measuring."""
        with self._lock:
            self._connected = True
            self._seen_s = time.monotonic()
        self._note("connect", time.monotonic_ns())

    def observe(self) -> Observation:
        """Positions [rad] and velocities [rad/s] now, (1, 4) float32, and the camera image."""
        with self._lock:
            self._advance()
            state = np.concatenate([self._position, self._velocity]).astype(np.float32)
            stamp_ns = round(self._seen_s * 1e9)
        images = {camera: self._picture(state)[None] for camera in self.spec.cameras}
        return Observation(stamp_ns=stamp_ns, state=state[None], images=images)

    def act(self, action: FloatArray) -> FloatArray:
        """Set the target positions (2,) [rad]; returns them."""
        if self.act_s:
            time.sleep(self.act_s)
        with self._lock:
            self._advance()
            self._target = np.asarray(action, np.float32).copy()
            self._note("act", time.monotonic_ns())
        return action

    def stop(self) -> None:
        """Brake to standstill; the log gets the time at which the speed is zero."""
        with self._lock:
            self._advance()
            self._target = None
            braking_s = float(np.max(np.abs(self._velocity))) / self.brake_rad_s2
            self._note("still", time.monotonic_ns() + round(1e9 * braking_s))

    def close(self) -> None:
        """Stop measuring."""
        with self._lock:
            self._connected = False

    def _picture(self, state: FloatArray) -> ImageArray:
        low, high = _finite([(item.low, item.high) for item in self.spec.state])
        image = _bars((state - low) / (high - low), *self._size)
        return image + self._noise.integers(0, 8, image.shape, np.uint8)

    def _advance(self) -> None:
        """Integrate from the last call to now, in steps of at most 1 ms."""
        if not self._connected:
            raise RobotProblem("The fake robot is not connected; call connect first.")
        now_s = time.monotonic()
        left_s = min(now_s - self._seen_s, 2.0)
        while left_s > 0:
            step_s = min(left_s, 1e-3)
            left_s -= step_s
            if self._target is None:
                slower = np.maximum(np.abs(self._velocity) - self.brake_rad_s2 * step_s, 0.0)
                self._velocity = np.sign(self._velocity) * slower
            else:
                away = self._target - self._position
                self._velocity = np.clip(away / 0.02, -self.speed_rad_s, self.speed_rad_s)
            self._position = self._position + self._velocity * step_s
        self._seen_s = now_s

    def _note(self, word: str, stamp_ns: int) -> None:
        if self.log is None:
            return
        # One write to a file opened for appending is atomic, so lines of two processes do not mix.
        handle = os.open(self.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(handle, f"{word} {stamp_ns}\n".encode())
        os.close(handle)


def robot(*, log: str = "", act_s: float = 0.0, height: int = 48, width: int = 64) -> FakeRobot:
    """Make the fake arm; a driver file may import this function."""
    return FakeRobot(log=Path(log) if log else None, act_s=act_s, height=height, width=width)


def open_rig(task: Task | None, lanes: int, seed: int, options: Mapping[str, object]) -> GuardedRig:
    """The driver `fake`: a fake rig with the spec of the task, or `FAKE_SPEC` without one, inside its envelope."""
    if lanes < 1:
        raise UsageError(f"A fake robot needs at least 1 lane, not {lanes}.")
    spec = FAKE_SPEC if task is None else task.spec
    limits = envelope_limits(options, frozenset({"envelope"}))
    return GuardedRig(FakeRig(spec, lanes, seed), Envelope(spec, limits))


def _bars(share: npt.NDArray[np.floating], height: int, width: int) -> ImageArray:
    """An image (height, width, 3) uint8 with one bar per number; `share` (n,) is in [0, 1]."""
    image = np.zeros((height, width, 3), np.uint8)
    each = width // len(share)
    for index, value in enumerate(np.clip(share, 0, 1).tolist()):
        top = height - max(1, round(height * value))
        image[top:, each * index : each * (index + 1) - 1] = (40 + 30 * (index % 7), 200, 90)
    return image


def _finite(bounds: list[tuple[float, float]]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    pairs = np.clip(np.array(bounds, np.float64), -1e3, 1e3)
    return pairs[:, 0], pairs[:, 1]
