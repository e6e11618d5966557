"""Labelled rollouts: made in simulation, where the truth is known, or read from folders that a person sorted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from enpire.errors import FileProblem
from enpire.interfaces import Evidence, Policy, Task
from enpire.store import arrays as arrays_file
from enpire.types import FloatArray, IntArray, Observation, TaskSpec
from sim.rollouts import Rolled, roll_out

SECRET = b"starts that only grade verifiers"
STATIONS = 10
"""Stations over which the episodes are spread; each has its own physics, latency and sensor bias."""
LANES = 25


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One rollout with its label."""

    evidence: Evidence
    success: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbance:
    """What else goes wrong with sensors, as share of each number's range in the spec."""

    noise: float = 0.0005
    """Standard deviation of noise on every number of every period, beside the sensor's own."""
    offset: float = 0.0003
    """Standard deviation of an error that stays for an episode."""

    def on(self, example: Example, spec: TaskSpec, rng: np.random.Generator) -> Example:
        """The same rollout, seen worse."""
        state = example.evidence.arrays.state
        span = np.array([item.high - item.low for item in spec.state])
        worse = state + span * (rng.normal(0.0, self.noise, state.shape) + rng.normal(0.0, self.offset, len(span)))
        arrays = replace(example.evidence.arrays, state=worse.astype(np.float32))
        return replace(example, evidence=replace(example.evidence, arrays=arrays))


class Clumsy:
    """An expert whose hand is knocked about: what a half-trained policy does, and what verifiers must see through."""

    def __init__(self, expert: Policy, spec: TaskSpec) -> None:
        self.horizon, self.execute = expert.horizon, expert.execute
        self._expert = expert
        self._span = np.array([item.high - item.low for item in spec.action])
        self._hands: dict[int, tuple[np.random.Generator, float]] = {}

    def begin(self, lane: int, seed: int) -> None:
        """Draw how clumsy this episode is."""
        rng = np.random.Generator(np.random.PCG64([seed, 21]))
        self._expert.begin(lane, seed)
        self._hands[lane] = rng, float(rng.uniform(0.0, 0.6))

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        """The expert's chunks, pushed aside by a constant that is drawn for each decision."""
        chunk = self._expert.act(observation, lanes).copy()
        for row, lane in enumerate(lanes):
            rng, clumsy = self._hands[int(lane)]
            chunk[row] += (clumsy * self._span * rng.normal(0.0, 0.5, len(self._span))).astype(np.float32)
        return chunk


def simulated(task: Task, count: int) -> list[Example]:
    """`count` rollouts of good, varied and clumsy hands, labelled by the simulator's truth.

    Raises:
        UsageError: the task's rig knows no truth.
    """
    rolled = list(_rolled(task, count))
    needs = task.verifier().needs_images
    if needs:
        raise FileProblem(
            f"The verifier of {task.spec.name} looks at pictures; sort recorded examples by hand instead."
        )
    return [Example(evidence=Evidence(arrays=item.arrays, images={}), success=item.truth.success) for item in rolled]


def sorted_by_hand(folder: Path) -> list[Example]:
    """Arrays files of episodes in `folder`/success and `folder`/failure, as a person sorted them.

    Raises:
        FileProblem: one of the two holds no arrays file, or one that cannot be read.
    """
    found: list[Example] = []
    for name in ("success", "failure"):
        files: Sequence[Path] = sorted((folder / name).glob("**/*.npz"))
        if not files:
            raise FileProblem(f"{folder / name} holds no .npz file; put arrays files of episodes there.")
        for path in files:
            arrays = arrays_file.unpack(path.read_bytes())
            found.append(Example(evidence=Evidence(arrays=arrays, images={}), success=name == "success"))
    return found


def _rolled(task: Task, count: int) -> Iterator[Rolled]:
    clean = getattr(task, "clean_expert", None)
    best: Policy = clean() if callable(clean) else task.expert(1)  # pyright: ignore[reportAssignmentType]
    hands: tuple[Policy, ...] = (task.expert(0), Clumsy(best, task.spec), Clumsy(task.expert(2), task.spec), best)
    done = 0
    while done < count:
        batch = done // LANES
        lanes = min(LANES, count - done)
        rig = task.rig(lanes, batch % STATIONS)
        starts = [task.start("holdout", done + lane, SECRET) for lane in range(lanes)]
        yield from roll_out(task, rig, hands[batch % len(hands)], starts)
        rig.close()
        done += lanes
