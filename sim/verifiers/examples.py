"""Labelled rollouts: simulated, with ground truth, or read from folders that a person sorted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import numpy as np
import numpy.typing as npt

from enpire import plugins
from enpire.errors import FileProblem
from enpire.interfaces import Evidence, Policy, Rig, Task
from enpire.store import arrays as arrays_file
from enpire.store import pictures
from enpire.types import EpisodeArrays, FloatArray, ImageArray, IntArray, Observation, TaskSpec
from sim import cameras
from sim.rig import SimRig
from sim.rollouts import GradedRollout, roll_out

Say = Callable[[int, int], None]
STATIONS = 10
"""Number of simulated stations; each has its own physics, latency and sensor bias."""
LANES = 25
_TURNED_RAD = 0.005
"""Standard deviation, per axis, of the rotation of a camera that was moved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """A set of hidden starts, and the stations for it."""

    secret: bytes
    first_station: int = 0


FITTING = Draw(secret=b"starts that only fit verifiers")
"""Its starts are never used for grading."""


def grading(number: int = 0) -> Draw:
    """The number-th set for grading: changes made after one set are measured on the next."""
    return Draw(
        secret=b"starts that only grade verifiers" + b" %d" % number * (number > 0), first_station=STATIONS * number
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One rollout with its label."""

    evidence: Evidence
    success: bool
    name: str = ""
    """Its file, where it has one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbance:
    """Disturbances of a station's camera estimates, drawn for every episode; proprioception stays as it is.

    For a task whose spec marks no number as a camera estimate, every number is disturbed by light and camera pose, with
    0.05 % of its range as standard deviation, and nothing is covered.
    """

    light: float = 2.0
    """Largest factor on the noise of the estimates; drawn uniformly from 1."""
    moved: float = 1.0
    """Constant error in an episode by a camera that was moved, in standard deviations of the estimate."""
    covered: float = 0.4
    """Probability that something hides the scene near the end; the estimates repeat meanwhile."""
    covered_ticks: tuple[int, int] = (3, 15)

    def line(self, spec: TaskSpec) -> str:
        """The disturbances of a task's cameras, for a terminal."""
        hidden = (
            f"; {100 * self.covered:.0f} % covered for {self.covered_ticks[0]} to {self.covered_ticks[1]} periods"
            if any(item.sensor_std > 0.0 for item in spec.state)
            else ""
        )
        return (
            f"numbers disturbed (light: noise up to {self.light:g} times; camera moved by {self.moved:g} sigma{hidden})"
        )

    def on(self, example: Example, spec: TaskSpec, rng: np.random.Generator) -> Example:
        """The same rollout with disturbed estimates."""
        state = example.evidence.arrays.state.astype(np.float64)
        sensor_std = np.array([item.sensor_std for item in spec.state])
        seen = sensor_std > 0.0
        if not seen.any():
            sensor_std = np.array([0.0005 * (item.high - item.low) for item in spec.state])
        dim = float(rng.uniform(1.0, self.light))
        state += sensor_std * np.sqrt(dim * dim - 1.0) * rng.normal(0.0, 1.0, state.shape)
        state += sensor_std * self.moved * rng.normal(0.0, 1.0, len(sensor_std))
        hidden, first = rng.random() < self.covered, len(state) - int(rng.integers(1, 2 * self.covered_ticks[1]))
        last = first + int(rng.integers(*self.covered_ticks, endpoint=True))
        if hidden and first > 0:
            state[first:last, seen] = state[first - 1, seen]
        arrays = replace(example.evidence.arrays, state=state.astype(np.float32))
        return replace(example, evidence=replace(example.evidence, arrays=arrays))


class NoisyExpert:
    """An expert with action noise, as of a half-trained policy."""

    def __init__(self, expert: Policy, spec: TaskSpec) -> None:
        self.horizon, self.execute = expert.horizon, expert.execute
        self._expert, self._spec = expert, spec
        self._off: dict[int, npt.NDArray[np.float64]] = {}
        self._left: dict[int, int] = {}
        self._span = np.array([item.high - item.low for item in spec.action])
        self._noise: dict[int, tuple[np.random.Generator, float]] = {}

    def begin(self, lane: int, seed: int) -> None:
        """Draw the noise level of this episode."""
        rng = np.random.Generator(np.random.PCG64([seed, 21]))
        self._expert.begin(lane, seed)
        self._noise[lane] = rng, float(rng.uniform(0.0, 0.6))

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        """The expert's chunks (n, horizon, action_dim), shifted by a constant that is drawn for each decision."""
        chunk = self._expert.act(observation, lanes).copy()
        for row, lane in enumerate(lanes):
            rng, level = self._noise[int(lane)]
            chunk[row] += (level * self._span * rng.normal(0.0, 0.5, len(self._span))).astype(np.float32)
        return chunk


class BiasedExpert(NoisyExpert):
    """A noisy expert with biased camera estimates that stops at some time: near misses and unfinished work."""

    _OFF, _UNTIL = 15.0, (0.1, 1.2)
    """Largest bias in standard deviations of the estimates; range of the stopping time as shares of the limit."""

    def begin(self, lane: int, seed: int) -> None:
        """Draw the bias and the time of stopping."""
        super().begin(lane, seed)
        rng = np.random.Generator(np.random.PCG64([seed, 22]))
        sensor_std = np.array([item.sensor_std for item in self._spec.state])
        self._off[lane] = self._OFF * float(rng.uniform(0.0, 1.0)) * sensor_std * rng.normal(0.0, 1.0, len(sensor_std))
        self._left[lane] = round(float(rng.uniform(*self._UNTIL)) * self._spec.limit_ticks / self.execute)

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        """The expert's chunks for the biased state; zeros once it has stopped."""
        off = np.array([self._off[int(lane)] for lane in lanes]).reshape(observation.state.shape)
        believed = (observation.state + off).astype(np.float32)
        chunk = self._expert.act(replace(observation, state=believed), lanes).copy()
        for row, lane in enumerate(lanes):
            self._left[int(lane)] -= 1
            if self._left[int(lane)] < 0:
                chunk[row] = 0.0
        return chunk


def simulated(
    task: Task,
    count: int,
    draw: Draw | None = None,
    say: Say = lambda done, total: None,
    *,
    pictures: bool = False,
) -> list[Example]:
    """Rollouts of clean, varied, noisy and biased experts, labelled by the ground truth.

    Args:
        task: whose rig knows the ground truth.
        count: number of rollouts.
        draw: starts and stations; the first set for grading when None.
        say: called with the number of rollouts that are done, and `count`.
        pictures: render the last images, with light, camera pose and obstacle drawn for each episode.

    Raises:
        UsageError: the task's rig has no ground truth.
        FileProblem: images are wanted, and this machine renders none.
    """
    made: list[Example] = []
    for rolled, images in _rollouts(task, count, draw or grading(), pictures):
        if pictures and not images:
            raise FileProblem(
                f"Pictures of {task.spec.name} are needed. {cameras.why_no_images() or 'Its rig makes none.'}"
            )
        made.append(Example(evidence=Evidence(arrays=rolled.arrays, images=images), success=rolled.truth.success))
        say(len(made), count)
    return made


def labelled_episodes(task_name: str, count: int) -> tuple[TaskSpec, list[tuple[Evidence, bool]]]:
    """The spec of a task, and `count` of its rollouts: (evidence, whether it is a success by the ground truth).

    Raises:
        EnpireError: no such task, no truth, or no images for a verifier that needs them.
    """
    task = cast("type[Task]", plugins.load("tasks", task_name))()
    made = simulated(task, count, pictures=task.verifier().needs_images)
    return task.spec, [(one.evidence, one.success) for one in made]


def draw_image_disturbance(rng: np.random.Generator, extent_m: float) -> cameras.ImageDisturbance:
    """Light, camera pose and obstacle of one episode; the camera's position varies by 1 % of the scene's extent."""
    x, y, z = (float(v) for v in rng.normal(0.0, 0.01 * extent_m, 3))
    right, up, half = float(rng.uniform(-0.8, 0.8)), float(rng.uniform(-0.8, 0.8)), float(rng.uniform(0.1, 0.3))
    covered = rng.random() < 0.2
    brightness = float(rng.uniform(0.5, 1.3))
    red, green, blue = (float(v) for v in rng.uniform(0.9, 1.1, 3))
    aside, ahead, above = (float(v) for v in extent_m * rng.uniform(-0.5, 0.5, 3))
    one, two, three = (float(v) for v in rng.normal(0.0, _TURNED_RAD, 3))
    return cameras.ImageDisturbance(
        light=brightness,
        tint=(red, green, blue),
        lamp_m=(aside, ahead, above),
        offset_m=(x, y, z),
        turned_rad=(one, two, three),
        cover=(right, up, half) if covered else None,
    )


def sorted_by_hand(folder: Path, spec: TaskSpec) -> list[Example]:
    """Episodes whose arrays files a person sorted into `folder`/success and `folder`/failure.

    The last images of NAME.npz are NAME_CAMERA.png or .jpg next to it, or in the images file of a folder of the episode
    store.

    Raises:
        FileProblem: one of the two holds no arrays file, or one that cannot be read or is of another task.
    """
    found: list[Example] = []
    for name in ("success", "failure"):
        files: Sequence[Path] = sorted((folder / name).glob("**/*.npz"))
        if not files:
            raise FileProblem(f"{folder / name} holds no .npz file; put arrays files of episodes there.")
        for path in files:
            evidence = Evidence(arrays=_arrays_of(path, spec), images=_pictures_of(path))
            found.append(Example(evidence=evidence, success=name == "success", name=str(path)))
    return found


def _arrays_of(path: Path, spec: TaskSpec) -> EpisodeArrays:
    try:
        arrays = arrays_file.unpack(path.read_bytes())
    except FileProblem as problem:
        raise FileProblem(f"{path} cannot be used: {problem}") from problem
    width = arrays.state.shape[1]
    if width != spec.state_dim:
        raise FileProblem(
            f"{path} has {width} numbers a state and {spec.name} {spec.state_dim}: it is of another task."
        )
    return arrays


def _opened(path: Path) -> ImageArray:
    try:
        return pictures.opened(path.read_bytes())
    except OSError as problem:
        raise FileProblem(f"The picture {path} cannot be read as JPEG or PNG; replace it.") from problem


def _pictures_of(path: Path) -> dict[str, ImageArray]:
    named_after = {one.stem.removeprefix(f"{path.stem}_"): one for one in sorted(path.parent.glob(f"{path.stem}_*"))}
    found = pictures.shown(path.parent)
    files = {camera: one for camera, one in named_after.items() if one.suffix in (".png", ".jpg")}
    named = {camera: _opened(one) for camera, one in files.items()}
    return {**(found.last() if found is not None else {}), **named}


def _rollouts(
    task: Task, count: int, draw: Draw, pictures: bool
) -> Iterator[tuple[GradedRollout, Mapping[str, ImageArray]]]:
    clean = getattr(task, "clean_expert", None)
    best: Policy = clean() if callable(clean) else task.expert(1)  # pyright: ignore[reportAssignmentType]
    experts: tuple[Policy, ...] = (
        task.expert(0), NoisyExpert(best, task.spec), BiasedExpert(best, task.spec),
        NoisyExpert(task.expert(2), task.spec), best, BiasedExpert(task.expert(3), task.spec),
    )  # fmt: skip
    done = 0
    while done < count:
        batch = done // LANES
        lanes = min(LANES, count - done)
        rig = task.rig(lanes, draw.first_station + batch % STATIONS)
        starts = [task.start("holdout", done + lane, draw.secret) for lane in range(lanes)]
        for lane, rolled in enumerate(roll_out(task, rig, experts[batch % len(experts)], starts)):
            yield rolled, _final_images(rig, lane, rolled) if pictures else {}
        rig.close()
        done += lanes


def _final_images(rig: Rig, lane: int, rolled: GradedRollout) -> Mapping[str, ImageArray]:
    if not isinstance(rig, SimRig):
        return rig.look(lane)
    rng = np.random.Generator(np.random.PCG64([rolled.start.seed, 23]))
    return rig.look(lane, draw_image_disturbance(rng, float(rig.scene.model.stat.extent)))
