"""Fault injection: a simulated rig with the faults that the station option `faults` names.

`faults: "jammed=0.2 dropped_command=0.1"` gives each fault its probability per episode. Faults depend on the station,
not on the start: the next episode from the same start may have none.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

import numpy as np

from enpire.errors import RobotProblem, UsageError
from enpire.interfaces import Rig
from enpire.shares import require_share
from enpire.types import FloatArray, ImageArray, MaskArray, Observation, Start
from sim.truth import Truth

KINDS: Mapping[str, str] = {
    "dropped_command": "a third of the commands never arrive, and the previous one stays in force",
    "delayed_command": "commands take effect three periods late; the robot holds still until the first one does",
    "frozen_sensor": "the sensors repeat their numbers and their stamp (rigs of one lane)",
    "frozen_camera": "the cameras repeat their image while the state changes (rigs of one lane)",
    "slipping_gripper": "the grasp slips: another offset and tilt",
    "jammed": "an obstacle keeps the robot from completing the motion",
    "calibration_drift": "the sensors' error grows from episode to episode",
    "lost_power": "the robot does not answer until its connection is opened again",
}
"""Fault -> its effect."""

PHYSICAL = frozenset({"slipping_gripper", "jammed", "calibration_drift"})
"""Faults that the simulation of a task must implement; the others work with every rig."""
DROPPED = 0.33
"""Probability that a command is dropped while the fault is active."""
DELAY_TICKS = 3


@runtime_checkable
class Disturbable(Protocol):
    """A rig that can simulate physical faults."""

    faults: frozenset[str]
    """The faults of `PHYSICAL` that it can simulate."""

    def disturb(self, lane: int, kind: str, rng: np.random.Generator) -> None:
        """Inject a physical fault into one lane.

        Raises:
            UsageError: it cannot simulate this fault.
        """
        ...


@dataclass(slots=True)
class _LaneFaults:
    """The faults of one lane's episode."""

    strikes_at: Mapping[str, int] = field(default_factory=dict[str, int])
    """Fault -> tick at which it begins."""
    tick: int = 0
    late: deque[FloatArray] = field(default_factory=deque[FloatArray])
    before: FloatArray = field(default_factory=lambda: np.zeros(0, np.float32))
    """(action_dim,): the previous command as sent; every fault begins after the first command."""
    frozen: Observation | None = None
    pictures: Mapping[str, ImageArray] | None = None
    """camera -> image, from when the cameras froze."""

    def active(self, kind: str) -> bool:
        """Whether a fault is active."""
        return self.tick >= self.strikes_at.get(kind, 2**31)

    def begins(self, kind: str) -> bool:
        """Whether a fault begins with this period."""
        return self.tick == self.strikes_at.get(kind, -1)


def read_faults(text: str) -> Mapping[str, float]:
    """Read `kind=probability kind=probability`, with spaces or commas between.

    Raises:
        UsageError: an unknown fault, or no probability.
    """
    found: dict[str, float] = {}
    for word in text.replace(",", " ").split():
        kind, _, share = word.partition("=")
        if kind not in KINDS:
            raise UsageError(f"There is no fault {kind!r}; there are: {', '.join(KINDS)}.")
        try:
            found[kind] = float(share)
        except ValueError:
            raise UsageError(f"The fault {word!r} needs a probability, such as {kind}=0.1.") from None
        try:
            require_share(f"The probability of {kind}", found[kind], "[0, 1]")
        except ValueError as problem:
            raise UsageError(str(problem)) from None
    return found


def known_faults(rig: Rig) -> frozenset[str]:
    """The faults that a simulated rig can have."""
    return (frozenset(KINDS) - PHYSICAL) | (rig.faults if isinstance(rig, Disturbable) else frozenset())


class FaultyRig:
    """A simulated rig with faults. Implements the Rig protocol; `act` returns the commands that arrived.

    Args:
        rig: the simulation.
        faults: fault -> probability per episode.
        seed: of the random draws.

    Raises:
        UsageError: the rig cannot have one of the faults.
    """

    def __init__(self, rig: Rig, faults: Mapping[str, float], seed: int) -> None:
        frozen = [kind for kind in ("frozen_sensor", "frozen_camera") if faults.get(kind)]
        if frozen and rig.lanes > 1:
            raise UsageError(
                f"{', '.join(frozen)} needs a station of one lane, not {rig.lanes}: only there does the station detect "
                "a frozen sensor, as on real robots; set `lanes: 1`."
            )
        known = known_faults(rig)
        if unknown := sorted(set(faults) - known):
            raise UsageError(
                f"The simulation of {rig.spec.name} has no fault {', '.join(unknown)}; it has "
                f"{', '.join(kind for kind in KINDS if kind in known)}."
            )
        self.spec, self.lanes = rig.spec, rig.lanes
        self._rig, self._faults = rig, dict(faults)
        self._held = np.array([not item.unit.endswith("/s") for item in rig.spec.action], np.float32)
        """(action_dim,): factor on the previous command that holds still; 0 for a speed, 1 for a position."""
        self._seed = seed
        self._drawn: np.random.Generator | None = None
        self._lane_faults = [_LaneFaults() for _ in range(rig.lanes)]
        self._dark = False
        self.struck: dict[str, int] = dict.fromkeys(faults, 0)
        """Fault -> number of episodes that had it."""

    @property
    def teleport(self) -> bool:
        """Whether `place` puts a lane into its start at once."""
        return bool(getattr(self._rig, "teleport", True))

    @teleport.setter
    def teleport(self, allowed: bool) -> None:
        self._rig.teleport = allowed  # pyright: ignore[reportAttributeAccessIssue]

    def place(self, lane: int, start: Start) -> None:
        """Begin an episode and draw its faults."""
        self._answer()
        if self._drawn is None:
            # Seeded by the first start, so that a rig that is opened again after a fault draws other faults.
            self._drawn = np.random.Generator(np.random.PCG64([self._seed, start.seed, 41]))
        struck = {kind for kind, share in self._faults.items() if self._rng.random() < share}
        latest = max(2, self.spec.limit_ticks // 8)
        self._lane_faults[lane] = _LaneFaults({kind: int(self._rng.integers(1, latest)) for kind in sorted(struck)})
        if "calibration_drift" in struck:
            self._disturb(lane, "calibration_drift")
        self._rig.place(lane, start)

    def observe(self) -> Observation:
        """The state (lanes, state_dim) as sensed, or as last sensed before the sensors froze."""
        self._answer()
        seen = self._rig.observe()
        lane_faults = self._lane_faults[0]
        if lane_faults.active("frozen_sensor") or lane_faults.active("frozen_camera"):
            if lane_faults.frozen is None:
                lane_faults.frozen = seen
            return (
                lane_faults.frozen
                if lane_faults.active("frozen_sensor")
                else replace(seen, images=lane_faults.frozen.images)
            )
        return seen

    def act(self, action: FloatArray, moving: MaskArray) -> FloatArray:
        """Command one period, action (lanes, action_dim); returns what arrived.

        Raises:
            RobotProblem: the power is lost; nothing has moved.
        """
        self._answer()
        if action.shape != (self.lanes, self.spec.action_dim):
            return self._rig.act(action, moving)
        arriving = action.copy()
        for lane in np.flatnonzero(moving).tolist():
            arriving[lane] = self._arriving(lane, action[lane])
        sent = self._rig.act(arriving, moving)
        for lane in np.flatnonzero(moving).tolist():
            self._lane_faults[lane].before = sent[lane].copy()
            self._lane_faults[lane].tick += 1
        return sent

    def look(self, lane: int) -> Mapping[str, ImageArray]:
        """camera -> image of one lane now, or from when its cameras froze."""
        return self._frozen(lane) if self._lane_faults[lane].active("frozen_camera") else self._rig.look(lane)

    def capture_live(self, lane: int) -> Callable[[Sequence[str]], Mapping[str, ImageArray]]:
        """A copy of one lane for its live images, or the images from when its cameras froze."""
        if self._lane_faults[lane].active("frozen_camera"):
            frozen = self._frozen(lane)
            return lambda names: {name: frozen[name] for name in names if name in frozen}
        return self._rig.capture_live(lane)  # pyright: ignore[reportAttributeAccessIssue]

    def truth(self, lane: int) -> Truth:
        """Ground truth of one lane."""
        return self._rig.truth(lane)  # pyright: ignore[reportAttributeAccessIssue]

    def snapshot(self, lane: int) -> object:
        """A copy of one lane of the simulation, without its faults."""
        return self._rig.snapshot(lane)  # pyright: ignore[reportAttributeAccessIssue]

    def stop(self) -> None:
        """Hold still."""
        self._rig.stop()

    def close(self) -> None:
        """Close the rig."""
        self._rig.close()

    @property
    def _rng(self) -> np.random.Generator:
        if self._drawn is None:
            raise UsageError(f"No lane of {self.spec.name} was placed yet; call `place` before `act`.")
        return self._drawn

    def _answer(self) -> None:
        if self._dark:
            raise RobotProblem(f"The robot of {self.spec.name} has no power; open its connection again.")

    def _arriving(self, lane: int, command: FloatArray) -> FloatArray:
        """The command (action_dim,) that reaches the robot; physical faults begin here, too."""
        lane_faults = self._lane_faults[lane]
        for kind in lane_faults.strikes_at:
            if lane_faults.begins(kind):
                self.struck[kind] += 1
                if kind in ("slipping_gripper", "jammed"):
                    self._disturb(lane, kind)
                elif kind == "frozen_camera":
                    self._frozen(lane)
        if lane_faults.active("lost_power"):
            self._dark = True
            self._answer()
        if lane_faults.active("delayed_command"):
            lane_faults.late.append(command.copy())
            command = (
                lane_faults.late.popleft() if len(lane_faults.late) > DELAY_TICKS else lane_faults.before * self._held
            )
        if lane_faults.active("dropped_command") and self._rng.random() < DROPPED:
            command = lane_faults.before
        return command

    def _frozen(self, lane: int) -> Mapping[str, ImageArray]:
        """camera -> image of a lane from when its cameras froze."""
        lane_faults = self._lane_faults[lane]
        if lane_faults.pictures is None:
            lane_faults.pictures = self._rig.look(lane)
        return lane_faults.pictures

    def _disturb(self, lane: int, kind: str) -> None:
        self._rig.disturb(lane, kind, self._rng)  # pyright: ignore[reportAttributeAccessIssue]
