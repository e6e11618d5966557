"""An operator who takes over from the page, with the keys or a game pad of the browser (`operator: browser`)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from enpire.errors import UsageError
from enpire.files import parse
from enpire.interfaces import Rig, Task
from enpire.policy_calls import LoadedPolicy
from enpire.types import FloatArray, IntArray, MaskArray, Observation, Order, TaskSpec
from enpire.wire.hand_control import HandListener, HandStatus

SILENT_PERIODS = 3
"""Periods without an input after which the robot holds."""
LANE = 0
"""The robot that the operator moves: the one that live images show."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowserOptions:
    """The `operator_options` of `operator: browser`."""

    address: str
    """Where the station takes inputs, ipc:///FOLDER/NAME; a campaign fills it in for the stations that it starts."""
    speed: float = 0.5
    """Share of an action's range that a held key gives."""
    step: float = 0.02
    """Share of the range of a measured state, such as a joint's position, that a held key adds in each period."""
    gives_back_s: float = 1.0
    """Without inputs for this time, the policy moves the robot again [s]."""

    def __post_init__(self) -> None:
        """Refuse values out of range."""
        for name, least, most in (("speed", 0.0, 1.0), ("step", 0.0, 1.0), ("gives_back_s", 0.1, 60.0)):
            if not least < getattr(self, name) <= most:
                raise ValueError(f"{name} must be above {least:g} and at most {most:g}, not {getattr(self, name)}.")


class BrowserOperator:
    """An `enpire.interventions.Intervener`: the operator of the page moves the first robot of the station.

    While the operator moves it, a simulation that is faster than real robots keeps their pace.

    Args:
        spec: of the task.
        options: how inputs become actions.
        listener: gives the inputs.
        clock: gives monotonic seconds.
        wait: waits for some seconds.
    """

    def __init__(
        self, spec: TaskSpec, options: BrowserOptions, listener: HandListener,
        clock: Callable[[], float] = time.monotonic, wait: Callable[[float], None] = time.sleep,
    ) -> None:  # fmt: skip
        self._spec, self._options, self._listener = spec, options, listener
        self._clock, self._wait = clock, wait
        self._low = np.array([item.low for item in spec.action], np.float32)
        self._high = np.array([item.high for item in spec.action], np.float32)
        self._sensed = np.array(spec.measured)
        self._names = tuple(item.name for item in spec.action)
        self._newest, self._holder, self._heard_s = "", "", -np.inf
        """The newest take-over; the same, empty after it gave the robot back; when its last input came."""
        self._axes = np.zeros(len(self._names), np.float32)
        self._requested = np.zeros(len(self._names), np.float32)
        self._was_held, self._period_s = False, -np.inf

    def begin(self, lane: int, order: Order, policy: LoadedPolicy) -> None:
        """Begin an episode; a take-over that lasts holds on."""
        if lane == LANE:
            self._was_held = False

    def watch(self, observation: Observation, lanes: IntArray, ticks: IntArray) -> MaskArray:
        """Whether the operator moves the robot in this period: (n,) bool, see `Intervener.watch`."""
        if LANE not in lanes:
            return np.zeros(len(lanes), np.bool_)
        self._hear()
        held = self._holder != "" and self._clock() - self._heard_s < self._options.gives_back_s
        if not held:
            self._holder = ""
        self._listener.answer(HandStatus(actions=self._names, holder=self._holder))
        if held:
            self._keep_pace()
            self._request(observation.state[LANE])
        self._was_held = held
        return (lanes == LANE) & held

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        """The operator's action: (n, action_dim) float32, in the units of the spec."""
        return np.repeat(self._requested[None], len(lanes), axis=0)

    def close(self) -> None:
        """Close the socket."""
        self._listener.close()

    def _hear(self) -> None:
        given = self._listener.newest()
        if given is None or given.holder < self._newest:
            return
        self._newest, self._heard_s = given.holder, self._clock()
        self._holder = "" if given.gives_back else given.holder
        self._axes[:] = 0
        count = min(len(given.axes), len(self._axes))
        self._axes[:count] = given.axes[:count]

    def _request(self, state: FloatArray) -> None:
        """The action of the keys. Without a fresh input speeds are zero, and positions stay."""
        fresh = self._clock() - self._heard_s <= SILENT_PERIODS * self._spec.period_s
        axes = self._axes if fresh else np.zeros_like(self._axes)
        speed = axes * self._options.speed * np.where(axes < 0, -self._low, self._high)
        here = np.where(self._sensed >= 0, state[self._sensed], 0.0)
        kept = self._requested if self._was_held else here
        position = kept + axes * self._options.step * (self._high - self._low)
        requested = np.where(self._sensed >= 0, position, speed)
        self._requested = np.clip(requested, self._low, self._high).astype(np.float32)

    def _keep_pace(self) -> None:
        left_s = self._period_s + self._spec.period_s - self._clock()
        if self._was_held and 0 < left_s <= self._spec.period_s:
            self._wait(left_s)
        self._period_s = self._clock()


def open_browser(task: Task, rig: Rig, seed: int, options: Mapping[str, object]) -> BrowserOperator:
    """The operator `browser`; options: `BrowserOptions`."""
    if "address" not in options:
        raise UsageError(
            "operator: browser needs operator_options: {address: ipc:///FOLDER/NAME}; the stations that a campaign "
            "starts itself get their own."
        )
    found = parse(BrowserOptions, options, "operator_options")
    return BrowserOperator(task.spec, found, HandListener(found.address))
