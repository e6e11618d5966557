"""Driver of a simulated robot: the task's own rig inside its safety envelope."""

from __future__ import annotations

from collections.abc import Mapping

from enpire.errors import UsageError
from enpire.interfaces import Rig, Task
from robot_drivers.guarded_rig import GuardedRig
from robot_drivers.safety import Envelope, Limits
from sim.faults import FaultyRig, read_faults

OPTIONS = frozenset({"envelope", "faults"})


class SimulatedRig(GuardedRig):
    """A simulation inside its envelope. Its objects start where an operator would have placed them."""

    def __init__(self, task: Task, world: Rig, rig: Rig, envelope: Envelope) -> None:
        """`world` is the task's own rig; `rig` is the one that gets the actions: `world`, or faults around it."""
        super().__init__(rig, envelope)
        self._task, self._world = task, world
        for lane in range(world.lanes):
            self.lay_out(lane)

    def lay_out(self, lane: int) -> None:
        """Place the objects of one lane at a train start of the task, as an operator does by hand.

        This is for a robot that cannot reset its scene: its reset starts from there. No episode begins.
        """
        teleport = getattr(self._world, "teleport", True)
        setattr(self._world, "teleport", True)  # noqa: B010  only some simulations have it
        self._world.place(lane, self._task.start("train", lane, b""))
        setattr(self._world, "teleport", teleport)  # noqa: B010


def open_rig(task: Task, lanes: int, seed: int, options: Mapping[str, object]) -> SimulatedRig:
    """The driver `mujoco`: the rig of a simulated station.

    Args:
        task: the simulated task.
        lanes: number of robots in the simulation, at least 1.
        seed: draws the friction, masses and offsets of this station.
        options: `envelope` (see `safety.Limits`) narrows the limits of the task; `faults` (see `sim.faults`) names the
            faults to simulate.

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
    """The limits under `envelope` in a driver's options; UsageError for an option that is not in `allowed`."""
    if unknown := sorted(set(options) - allowed):
        raise UsageError(f"The driver has no option {', '.join(unknown)}; it has {', '.join(sorted(allowed))}.")
    given = options.get("envelope", {})
    if not isinstance(given, Mapping):
        raise UsageError(f"`envelope` must map limits to values, not {given!r}; see docs/safety.md.")
    return Limits.read({str(key): value for key, value in given.items()})
