"""What a candidate's learner.py gets (docs/code.md): `improve(job)` reads episodes and writes a version's files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from enpire.store.arrays import unpack
from enpire.types import Bounds, EpisodeArrays


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFacts:
    """What a learner may know of the task."""

    name: str
    instruction: str
    state: tuple[Bounds, ...]
    """The sensor values, in order: name, unit, low, high."""
    action: tuple[Bounds, ...]
    """The commands, in order; a command outside its bounds is clipped."""
    rate_hz: float
    limit_ticks: int
    """Periods after which a rollout without success ends."""
    cameras: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingEpisode:
    """One recorded episode on a train start."""

    path: Path
    """Its arrays, a .npz file: state (T + 1, state_dim), action (T, action_dim), source (T,), chunk (T,)."""
    outcome: str
    """success, failure or unsafe."""
    purpose: str
    """demonstrate, collect, extra or search."""
    ticks: int
    """Number of commands, T."""
    version: str
    """The policy version that acted; `scripted:expert` for a demonstration."""

    def arrays(self) -> EpisodeArrays:
        """Read the file: float32 state (T + 1, state_dim) and action (T, action_dim), in the units of the task."""
        return unpack(self.path.read_bytes())


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningJob:
    """What `improve(job)` gets."""

    episodes: Sequence[TrainingEpisode]
    """Oldest first."""
    settings: Mapping[str, bool | int | float | str]
    """`settings` of recipe.yaml."""
    task: TaskFacts | None
    """None where the task is not installed on the learner's machine."""
    parent: Path | None
    """Folder of the version to start from; None if there is none."""
    output: Path
    """Write the files of the version here: .npz, .json or .safetensors, no folders."""
    round: int
    """Rises with each training run."""
    seed: int
    report: Callable[..., None]
    """report(stage, done, total, **metrics) shows the progress."""
