"""What goes wrong in a laboratory, on purpose: a simulated rig with faults, by the station option `faults`.

`faults: "jammed=0.2 dropped_command=0.1"` gives each fault the probability that it strikes an episode. Faults are the
station's bad luck, not the start's: the same start may be spared the next time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

import numpy as np

from enpire.errors import RobotProblem, UsageError
from enpire.interfaces import Rig
from enpire.types import FloatArray, ImageArray, MaskArray, Observation, Start
from sim.truth import Truth

KINDS: Mapping[str, str] = {
    "dropped_command": "a third of the commands never arrive, and the one before stays in force",
    "delayed_command": "commands take effect three periods late, and until the first one does the robot holds still",
    "frozen_sensor": "the sensors repeat themselves, with the same stamp (rigs of one lane)",
    "frozen_camera": "the cameras repeat their picture while the state goes on (rigs of one lane)",
    "slipping_gripper": "the grasp slips: another offset and tilt",
    "jammed": "something is in the way, and the motion cannot be completed",
    "calibration_drift": "the sensors' error grows from episode to episode",
    "lost_power": "the robot does not answer any more, until its connection is opened anew",
}
"""Fault -> what it does."""

PHYSICAL = frozenset({"slipping_gripper", "jammed", "calibration_drift"})
"""Faults that the simulation of a task must know; the others befall any."""
DROPPED = 0.33
DELAY_TICKS = 3


@runtime_checkable
class Disturbable(Protocol):
    """A rig whose world can be disturbed."""

    faults: frozenset[str]
    """What of `PHYSICAL` it knows."""

    def disturb(self, lane: int, kind: str, rng: np.random.Generator) -> None:
        """Let a fault of the world happen in one lane; UsageError when it knows no such fault."""
        ...


@dataclass(slots=True)
class _LaneFaults:
    """What is going to happen in one lane's episode."""

    strikes_at: Mapping[str, int] = field(default_factory=dict[str, int])
    """Fault -> tick at which it begins."""
    tick: int = 0
    late: deque[FloatArray] = field(default_factory=deque[FloatArray])
    before: FloatArray = field(default_factory=lambda: np.zeros(0, np.float32))
    """What was sent last; every fault begins after the first command."""
    frozen: Observation | None = None
    pictures: Mapping[str, ImageArray] | None = None
    """What the cameras saw when they froze."""

    def now(self, kind: str) -> bool:
        """Whether a fault is in force."""
        return self.tick >= self.strikes_at.get(kind, 2**31)

    def begins(self, kind: str) -> bool:
        """Whether a fault begins with this period."""
        return self.tick == self.strikes_at.get(kind, -1)


def read_faults(text: str) -> Mapping[str, float]:
    """Read `kind=probability kind=probability`, commas allowed; UsageError says what is not allowed."""
    found: dict[str, float] = {}
    for word in text.replace(",", " ").split():
        kind, _, share = word.partition("=")
        if kind not in KINDS:
            raise UsageError(f"There is no fault {kind!r}; there are: {', '.join(KINDS)}.")
        try:
            found[kind] = float(share)
        except ValueError:
            raise UsageError(f"The fault {word!r} needs a probability, such as {kind}=0.1.") from None
        if not 0.0 <= found[kind] <= 1.0:
            raise UsageError(f"The probability of {kind} must lie in [0, 1], not {share}.")
    return found


def known_faults(rig: Rig) -> frozenset[str]:
    """The faults that can befall a simulated rig."""
    return (frozenset(KINDS) - PHYSICAL) | (rig.faults if isinstance(rig, Disturbable) else frozenset())


class FaultyRig:
    """A simulated rig that some faults befall. Implements the Rig protocol; what is sent is what arrived.

    Args:
        rig: the simulation.
        faults: fault -> probability that it strikes an episode.
        seed: of the luck.

    Raises:
        UsageError: a fault does not fit the rig.
    """

    def __init__(self, rig: Rig, faults: Mapping[str, float], seed: int) -> None:
        frozen = [kind for kind in ("frozen_sensor", "frozen_camera") if faults.get(kind)]
        if frozen and rig.lanes > 1:
            raise UsageError(
                f"{', '.join(frozen)} needs a station of one lane, not {rig.lanes}: that a sensor stands still is "
                "noticed there only, as on real robots."
            )
        known = known_faults(rig)
        if unknown := sorted(set(faults) - known):
            raise UsageError(
                f"The simulation of {rig.spec.name} knows no fault {', '.join(unknown)}; it knows "
                f"{', '.join(kind for kind in KINDS if kind in known)}."
            )
        self.spec, self.lanes = rig.spec, rig.lanes
        self._rig, self._faults = rig, dict(faults)
        self._held = np.array([not item.unit.endswith("/s") for item in rig.spec.action], np.float32)
        """(action_dim,): what holding still keeps of the last command; a speed becomes 0."""
        self._seed = seed
        self._drawn: np.random.Generator | None = None
        self._luck = [_LaneFaults() for _ in range(rig.lanes)]
        self._dark = False
        self.struck: dict[str, int] = dict.fromkeys(faults, 0)
        """Fault -> episodes that it has befallen so far."""

    @property
    def teleport(self) -> bool:
        """Whether `place` puts a lane into its start at once."""
        return bool(getattr(self._rig, "teleport", True))

    @teleport.setter
    def teleport(self, allowed: bool) -> None:
        self._rig.teleport = allowed  # pyright: ignore[reportAttributeAccessIssue]

    def place(self, lane: int, start: Start) -> None:
        """Begin an episode and draw what will befall it."""
        self._answer()
        if self._drawn is None:
            # Seeded by the first start: a rig that is opened anew after a fault has other luck than before.
            self._drawn = np.random.Generator(np.random.PCG64([self._seed, start.seed, 41]))
        struck = {kind for kind, share in self._faults.items() if self._rng.random() < share}
        latest = max(2, self.spec.limit_ticks // 8)
        self._luck[lane] = _LaneFaults({kind: int(self._rng.integers(1, latest)) for kind in sorted(struck)})
        if "calibration_drift" in struck:
            self._disturb(lane, "calibration_drift")
        self._rig.place(lane, start)

    def observe(self) -> Observation:
        """What the sensors say, or last said."""
        self._answer()
        seen = self._rig.observe()
        luck = self._luck[0]
        if luck.now("frozen_sensor") or luck.now("frozen_camera"):
            if luck.frozen is None:
                luck.frozen = seen
            return luck.frozen if luck.now("frozen_sensor") else replace(seen, images=luck.frozen.images)
        return seen

    def act(self, action: FloatArray, moving: MaskArray) -> FloatArray:
        """Command one period; RobotProblem when the power is lost, before anything moves."""
        self._answer()
        if action.shape != (self.lanes, self.spec.action_dim):
            return self._rig.act(action, moving)
        wish = action.copy()
        for lane in np.flatnonzero(moving).tolist():
            wish[lane] = self._arriving(lane, action[lane])
        sent = self._rig.act(wish, moving)
        for lane in np.flatnonzero(moving).tolist():
            self._luck[lane].before = sent[lane].copy()
            self._luck[lane].tick += 1
        return sent

    def look(self, lane: int) -> Mapping[str, ImageArray]:
        """camera -> picture of one lane now, or of when its cameras froze."""
        return self._frozen(lane) if self._luck[lane].now("frozen_camera") else self._rig.look(lane)

    def capture_live(self, lane: int) -> Callable[[Sequence[str]], Mapping[str, ImageArray]]:
        """A copy of one lane for its live pictures, or what its cameras saw when they froze."""
        if self._luck[lane].now("frozen_camera"):
            frozen = self._frozen(lane)
            return lambda names: {name: frozen[name] for name in names if name in frozen}
        return self._rig.capture_live(lane)  # pyright: ignore[reportAttributeAccessIssue]

    def truth(self, lane: int) -> Truth:
        """What the simulator knows."""
        return self._rig.truth(lane)  # pyright: ignore[reportAttributeAccessIssue]

    def snapshot(self, lane: int) -> object:
        """A copy of one lane of the world, without its bad luck."""
        return self._rig.snapshot(lane)  # pyright: ignore[reportAttributeAccessIssue]

    def stop(self) -> None:
        """Hold still."""
        self._rig.stop()

    def close(self) -> None:
        """Let the rig go."""
        self._rig.close()

    @property
    def _rng(self) -> np.random.Generator:
        if self._drawn is None:
            raise UsageError(f"No lane of {self.spec.name} was placed yet; `place` comes before motion.")
        return self._drawn

    def _answer(self) -> None:
        if self._dark:
            raise RobotProblem(f"The robot of {self.spec.name} has no power; open its connection anew.")

    def _arriving(self, lane: int, wish: FloatArray) -> FloatArray:
        """What reaches the robot of a command; the world's own faults begin here, too."""
        luck = self._luck[lane]
        for kind in luck.strikes_at:
            if luck.begins(kind):
                self.struck[kind] += 1
                if kind in ("slipping_gripper", "jammed"):
                    self._disturb(lane, kind)
                elif kind == "frozen_camera":
                    self._frozen(lane)
        if luck.now("lost_power"):
            self._dark = True
            self._answer()
        if luck.now("delayed_command"):
            luck.late.append(wish.copy())
            wish = luck.late.popleft() if len(luck.late) > DELAY_TICKS else luck.before * self._held
        if luck.now("dropped_command") and self._rng.random() < DROPPED:
            wish = luck.before
        return wish

    def _frozen(self, lane: int) -> Mapping[str, ImageArray]:
        """What the cameras of a lane saw when they froze."""
        luck = self._luck[lane]
        if luck.pictures is None:
            luck.pictures = self._rig.look(lane)
        return luck.pictures

    def _disturb(self, lane: int, kind: str) -> None:
        self._rig.disturb(lane, kind, self._rng)  # pyright: ignore[reportAttributeAccessIssue]
