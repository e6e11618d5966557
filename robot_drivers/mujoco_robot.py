"""A simulated robot as a station's driver: the task's own rig inside its safety envelope."""

from __future__ import annotations

from collections.abc import Mapping

from enpire.errors import UsageError
from enpire.interfaces import Rig, Task
from robot_drivers.guarded_rig import GuardedRig
from robot_drivers.safety import Envelope, Limits
from sim.faults import FaultyRig, read_faults

OPTIONS = frozenset({"envelope", "faults"})


class SimulatedRig(GuardedRig):
    """A simulation inside its envelope. Its things lie where a person put them when it is opened."""

    def __init__(self, task: Task, world: Rig, rig: Rig, envelope: Envelope) -> None:
        """`world` is the task's own rig; `rig` is what commands pass on their way to it (`world`, or its faults)."""
        super().__init__(rig, envelope)
        self._task, self._world = task, world
        for lane in range(world.lanes):
            self.lay_out(lane)

    def lay_out(self, lane: int) -> None:
        """Put the things of one lane by hand, at a train start of the task; the robot's reset starts from there.

        For the person who comes to a robot that cannot reset its scene. No episode begins.
        """
        teleport = getattr(self._world, "teleport", True)
        setattr(self._world, "teleport", True)  # noqa: B010  only some simulations have it
        self._world.place(lane, self._task.start("train", lane, b""))
        setattr(self._world, "teleport", teleport)  # noqa: B010


def open_rig(task: Task, lanes: int, seed: int, options: Mapping[str, object]) -> SimulatedRig:
    """The rig of a simulated station.

    Args:
        task: what it simulates.
        lanes: rows of the simulation, at least 1.
        seed: draws the station's own friction, mass and offsets.
        options: of the station file; `envelope` (see `safety.Limits`) narrows what the task allows, `faults` (see
            `sim.faults`) says what goes wrong.

    Raises:
        UsageError: an option does not exist or does not fit.
    """
    if lanes < 1:
        raise UsageError(f"A simulated station needs at least 1 lane, not {lanes}.")
    limits = envelope_limits(options, OPTIONS)
    world = task.rig(lanes, seed)
    faults = read_faults(str(options.get("faults", "")))
    rig = FaultyRig(world, faults, seed) if faults else world
    return SimulatedRig(task, world, rig, Envelope(task.spec, limits))


def envelope_limits(options: Mapping[str, object], allowed: frozenset[str]) -> Limits:
    """The limits under `envelope` of a driver's options; UsageError when there are options that it does not have."""
    if unknown := sorted(set(options) - allowed):
        raise UsageError(f"The driver has no option {', '.join(unknown)}; it has {', '.join(sorted(allowed))}.")
    given = options.get("envelope", {})
    if not isinstance(given, Mapping):
        raise UsageError(f"`envelope` must map limits to values, not {given!r}; see docs/safety.md.")
    return Limits.read({str(key): value for key, value in given.items()})
