"""A sample of the observations of recorded episodes, in the order in which a station would show them to a policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from enpire.interfaces import DeclaresImages, Policy, Task
from enpire.policy_calls import rows_of
from enpire.store import arrays, pictures
from enpire.store.episodes import FolderStore
from enpire.types import ImageArray, IntArray, Observation, Start

DECISIONS = 4
"""Observations of each episode: at its beginning, and whenever the policy would decide again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedStates:
    """Observations of several episodes, one episode in each lane."""

    seeds: tuple[int, ...]
    """(lanes,): seed of each episode's start."""
    observations: tuple[Observation, ...]
    """One for each decision: state (lanes, state_dim) float32; images of every camera where the policy needs them."""
    action_dim: int
    images: str
    """Where the images come from; "none needed", or why there are none."""

    @property
    def lacks_images(self) -> bool:
        """Whether the policy needs images and there are none."""
        return self.images.startswith("missing")

    def one_lane(self) -> RecordedStates:
        """The observations of the first episode alone."""
        first: IntArray = np.zeros(1, np.int64)
        return replace(self, seeds=self.seeds[:1], observations=tuple(rows_of(one, first) for one in self.observations))

    @property
    def lanes(self) -> IntArray:
        """The lanes, int64 (lanes,)."""
        return np.arange(len(self.seeds), dtype=np.int64)


def recorded_states(policy: Policy, task: Task | None, episodes: Sequence[Path], lanes: int) -> RecordedStates | None:
    """Observations of at most `lanes` episodes, evenly chosen; None if none is recorded.

    Images are those that the station recorded. Without them, a simulated task renders the start of each episode, and
    this image stands for all its observations.

    Raises:
        FileProblem: an episode cannot be read.
    """
    chosen = [episodes[int(index)] for index in np.linspace(0, len(episodes) - 1, min(lanes, len(episodes)))]
    if not chosen:
        return None
    read = [arrays.unpack((folder / "arrays.npz").read_bytes()) for folder in chosen]
    starts = [FolderStore(folder.parent.parent).facts(folder).order.start for folder in chosen]
    ticks = [np.minimum(np.arange(DECISIONS) * policy.execute, len(one.action) - 1) for one in read]
    seen, source = _images(policy, task, chosen, starts, ticks)
    return RecordedStates(
        seeds=tuple(start.seed for start in starts),
        observations=tuple(
            Observation(
                stamp_ns=0,
                state=np.stack([one.state[at[step]] for one, at in zip(read, ticks, strict=True)]),
                images={camera: np.stack([lane[step] for lane in frames]) for camera, frames in seen.items()},
            )
            for step in range(DECISIONS)
        ),
        action_dim=read[0].action.shape[1],
        images=source,
    )


def _images(
    policy: Policy, task: Task | None, chosen: Sequence[Path], starts: Sequence[Start], ticks: Sequence[IntArray]
) -> tuple[dict[str, list[list[ImageArray]]], str]:
    """(camera -> images by lane and decision, where they come from)."""
    if not isinstance(policy, DeclaresImages) or not policy.needs_images:
        return {}, "none needed"
    if recorded := _recorded(chosen, ticks):
        return recorded, "recorded"
    if task is None or not task.spec.cameras:
        return {}, "missing: none are recorded, and the task renders none"
    rig = task.rig(1, 0)
    try:
        found: dict[str, list[list[ImageArray]]] = {}
        for start in starts:
            rig.place(0, start)
            for camera, image in rig.look(0).items():
                found.setdefault(camera, []).append([image] * DECISIONS)
        return found, "rendered at each start" if found else "missing: none are recorded, and nothing renders here"
    finally:
        rig.close()


def _recorded(chosen: Sequence[Path], ticks: Sequence[IntArray]) -> dict[str, list[list[ImageArray]]]:
    """The recorded images; empty unless every episode has them at every decision."""
    files = [pictures.shown(folder) for folder in chosen]
    cameras = files[0].cameras if files[0] is not None else ()
    found: dict[str, list[list[ImageArray]]] = {camera: [] for camera in cameras}
    for file, at in zip(files, ticks, strict=True):
        if file is None or not all(file.has(camera, int(tick)) for camera in cameras for tick in at):
            return {}
        for camera in cameras:
            found[camera].append([file.picture(camera, int(tick)) for tick in at])
    return found
