"""A rig inside its safety envelope, in the same process: every action passes through it.

A rig is one robot, or the lanes of a simulation, which move in step (`enpire.interfaces.Rig`).
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Protocol, runtime_checkable

import numpy as np

from enpire.errors import RobotProblem, UsageError
from enpire.interfaces import Rig
from enpire.types import FloatArray, ImageArray, MaskArray, Observation, Start
from enpire.wire.live_images import HasLiveImages, RenderImages, no_live_images
from robot_drivers.freshness import Freshness
from robot_drivers.safety import Envelope
from robot_drivers.sensor_faults import SensorFault, broken_sensors, check_possible
from robot_drivers.stall import StallWatch

IN_FLIGHT_S = 1.0
"""How long `stop` waits for an action that was being sent [s]."""


@runtime_checkable
class HoldsStill(Protocol):
    """A rig that must be told to hold: without an action it may still carry out the last one, as real robots do."""

    def hold(self) -> None:
        """Hold still until the next action."""


@runtime_checkable
class Rehearses(Protocol):
    """A rig that can break its sensors in every stop, for conformance checks."""

    def rehearse(self, fault: SensorFault) -> None:
        """Set the fault; UsageError if that is not possible."""


class GuardedRig:
    """A `Rig` whose actions are limited, and whose stop holds until `resume`.

    A lane whose measured state leaves the envelope holds still (`violated`) until it is placed again; the other lanes
    continue. This protects against the policy, not against a hung process: real robots need `robot_drivers.guard`.
    """

    def __init__(self, rig: Rig, envelope: Envelope) -> None:
        self.spec = rig.spec
        self.lanes = rig.lanes
        self.violated: MaskArray = np.zeros(rig.lanes, np.bool_)
        """(lanes,) bool: lanes that left the envelope since `place`; their rollouts are unsafe."""
        self.offences: list[str] = [""] * rig.lanes
        """One sentence per lane on how it left the envelope; empty where it did not."""
        self.clipped = np.zeros(rig.lanes, np.int64)
        """(lanes,) int: actions that the limits changed since `place`."""
        self._freshness = Freshness(rig.spec)
        self._rig = rig
        self._envelope = envelope
        self._stall = StallWatch(rig.spec, envelope.limits, rig.lanes)
        self._state = np.full((rig.lanes, rig.spec.state_dim), np.nan, np.float32)
        self._measured: MaskArray = np.zeros(rig.lanes, np.bool_)
        self._was_high: MaskArray = np.zeros(rig.lanes, np.bool_)
        """Lanes whose tip has been high enough since `place`. Until then the commands may only raise it."""
        self._last = np.full((rig.lanes, rig.spec.action_dim), np.nan, np.float32)
        self._before = self._last.copy()
        self._closed = False
        self._fault: SensorFault = ""
        self._stopped = threading.Event()
        self._sending = threading.Lock()

    def set_teleport(self, allowed: bool) -> None:
        """Whether `place` may teleport a simulated scene to its start; otherwise the robot must bring it there."""
        if hasattr(self._rig, "teleport"):
            setattr(self._rig, "teleport", allowed)  # noqa: B010  only simulations have it

    @property
    def stopped(self) -> bool:
        """Whether a stop holds; `resume` ends it."""
        return self._stopped.is_set()

    @property
    def stale(self) -> str:
        """One sentence on a sensor whose value has not changed since the last `place`; such a rollout is invalid.

        It is monitored on rigs of one lane, as real robots have.
        """
        return self._freshness.stale

    def place(self, lane: int, start: Start) -> None:
        """Put one lane into a start state and clear the state of its last episode, also its violation."""
        with self._sending:
            self._refuse_when_stopped()
            if not 0 <= lane < self.lanes:
                raise UsageError(f"There is no lane {lane}; this rig has lanes 0 to {self.lanes - 1}.")
            self._rig.place(lane, start)
            if self._stopped.is_set():
                self._rig.stop()  # the stop came while the lane was being placed
        if self.lanes == 1:
            self._freshness.begin()
        self.violated[lane] = False
        self.offences[lane] = ""
        self.clipped[lane] = 0
        self._last[lane] = np.nan
        self._before[lane] = np.nan
        self._measured[lane] = self._was_high[lane] = False
        self._stall.begin(lane)

    def observe(self) -> Observation:
        """Sense all lanes; those that left the envelope hold from now on.

        Returns:
            state (lanes, state_dim) float32, in the units of the spec.

        Raises:
            RobotProblem: the rig is closed, or the driver returned a wrong shape.
        """
        if self._closed:
            raise RobotProblem(f"The rig of {self.spec.name} is closed; open a new one.")
        observation = self._rig.observe()
        state = observation.state
        if state.shape != self._state.shape:
            raise RobotProblem(
                f"The driver of {self.spec.name} returned a state of shape {state.shape}; its spec says"
                f" {self._state.shape}. Correct the driver."
            )
        # A copy: the caller keeps the observation.
        self._state = state.copy()
        self._measured[:] = True
        if self.lanes == 1:
            self._freshness.note(observation)
        too_low = self._envelope.too_low(state)
        outside = (self._envelope.violated(state) | too_low & self._was_high) & ~self.violated
        self._was_high |= ~too_low
        for lane in np.flatnonzero(outside):
            self.offences[lane] = self._envelope.offence(state[lane])
            self.violated[lane] = True
        stalled = self._stall.note(observation.stamp_ns, state, self._last) & ~self.violated[:, None]
        for lane in np.flatnonzero(stalled.any(axis=1)):
            self.offences[lane] = self._stall.sentence(stalled[lane], state[lane], self._last[lane])
            self.violated[lane] = outside[lane] = True
        if np.any(outside) and isinstance(self._rig, HoldsStill):
            self._rig.hold()
        return observation

    def act(self, action: FloatArray, moving: MaskArray) -> FloatArray:
        """Send one action for one period.

        Lanes that do not move, or that left the envelope, hold. The state of a lane is checked before each action: the
        rig senses if the caller has not sensed since the last action.

        Args:
            action: (lanes, action_dim), in the units of the spec.
            moving: (lanes,) bool.

        Returns:
            What was sent after limits, (lanes, action_dim) float32; the holding action where a lane holds.

        Raises:
            EnvelopeViolation: a wrong shape, or a value that is not finite; nothing was sent.
            RobotProblem: the rig is stopped or closed, or the driver failed.
        """
        moving = self._checked_mask(moving)
        requested = self._envelope.checked(action, self.lanes, moving)
        if np.any(moving & ~self.violated & ~self._measured):
            self.observe()
        hold = self._envelope.hold(self._state)
        advancing = moving & ~self.violated
        last = np.where(np.isfinite(self._last), self._last, hold)
        requested = np.where(advancing[:, None], requested, last)
        before = np.where(np.isfinite(self._before), self._before, last)
        limited, clipped = self._envelope.apply(requested, last, before)
        with self._sending:
            self._refuse_when_stopped()
            sent = self._rig.act(limited, advancing)
            if self._stopped.is_set():
                # The stop came while this action was being sent: stop again, after it.
                self._rig.stop()
        self._measured &= ~advancing
        self.clipped += clipped & advancing
        if self.lanes == 1 and advancing[0]:
            self._freshness.commanded()
        self._before = np.where(advancing[:, None], last, self._before)
        self._last = np.where(advancing[:, None], sent, self._last)
        return np.where(advancing[:, None], sent, last).astype(np.float32)

    def rest(self) -> None:
        """Note that the robot is at rest after a pause: the next action starts from zero speed."""
        self._before = self._last.copy()

    def look(self, lane: int) -> Mapping[str, ImageArray]:
        """camera -> image (height, width, 3) uint8 of one lane now."""
        images = self._rig.look(lane)
        if self.lanes == 1:
            self._freshness.looked(images, self._state)
        return images

    def capture_live(self, lane: int) -> RenderImages:
        """Copy what the live images of one lane need; `no_live_images` where the robot has none."""
        return self._rig.capture_live(lane) if isinstance(self._rig, HasLiveImages) else no_live_images

    def snapshot(self, lane: int) -> object:
        """A copy of the state of one lane of a simulation; UsageError for a robot, which cannot be copied."""
        copy = getattr(self._rig, "snapshot", None)
        if not callable(copy):
            raise UsageError(f"The robot of {self.spec.name} cannot be copied; only a simulation can.")
        return copy(lane)

    def stop(self) -> None:
        """Hold still until `resume`; returns after an action that was being sent has been overruled (see `act`).

        Raises:
            RobotProblem: the driver cannot stop its robot; still no further action passes.
        """
        self._stopped.set()
        if self._closed:
            return
        try:
            with broken_sensors(self._rig, self._fault):
                self._rig.stop()
        except Exception as error:
            raise RobotProblem(
                f"The driver of {self.spec.name} cannot stop the robot ({type(error).__name__}: {error}). Use the"
                " robot's own emergency stop, then check its bus and power."
            ) from error
        if self._sending.acquire(timeout=IN_FLIGHT_S):
            self._sending.release()

    def rehearse(self, fault: SensorFault) -> None:
        """Break the sensors in every stop from now on, for conformance checks; UsageError if that is not possible."""
        if isinstance(self._rig, Rehearses):
            self._rig.rehearse(fault)
        else:
            check_possible(self._rig, fault)
            self._fault = fault

    def resume(self) -> None:
        """Allow motion again after a stop. Only an operator may do this with a real robot."""
        self._stopped.clear()

    def close(self) -> None:
        """Stop the robot and release its driver."""
        if self._closed:
            return
        try:
            self.stop()
        finally:
            self._closed = True
            self._rig.close()

    def _checked_mask(self, moving: MaskArray) -> MaskArray:
        mask = np.asarray(moving)
        if mask.shape != (self.lanes,) or mask.dtype != np.bool_:
            raise RobotProblem(
                f"`moving` must be bool of shape ({self.lanes},), one per lane, not {mask.dtype} of shape {mask.shape}."
            )
        return mask

    def _refuse_when_stopped(self) -> None:
        if self._closed:
            raise RobotProblem(f"The rig of {self.spec.name} is closed; open a new one.")
        if self._stopped.is_set():
            raise RobotProblem(f"The robot of {self.spec.name} is stopped; resume it before it may move.")
