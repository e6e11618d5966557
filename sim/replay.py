"""Replays an episode of a simulated station with its start and its commands, to render images afterwards.

Simulated stations do not render while they roll out. The recorded commands are those that were sent, and the simulation
is deterministic. The replay compares the sensed states with the recorded ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from enpire.errors import UsageError
from enpire.interfaces import Rig, Task
from enpire.types import Episode, ImageArray
from sim import cameras


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """The result of a replay."""

    pictures: Mapping[int, Mapping[str, ImageArray]]
    """tick -> camera -> image (224, 224, 3) uint8; empty when no image can be made."""
    largest_difference: float
    """Largest difference between a recorded and a replayed number of the state; 0 when the replay is exact."""
    why: str
    """Why there are no images; empty when there are."""


def replay(task: Task, seed: int, episode: Episode, moments: int = 6) -> Replay:
    """Replay the recorded commands on a rig with the same seed.

    Args:
        task: makes the rig.
        seed: of the station that recorded the episode; it determines friction, mass and offsets.
        episode: with its arrays.
        moments: images per camera, evenly over the episode, with the first and the last frame.

    Raises:
        UsageError: the episode has no recording.
    """
    ticks = _ticks(episode)
    wanted = {round(index * ticks / max(1, moments - 1)) for index in range(moments)}
    pictures: dict[int, Mapping[str, ImageArray]] = {}
    difference = 0.0
    for tick, rig, apart in _replayed(task, seed, episode):
        difference = max(difference, apart)
        if tick in wanted:
            pictures |= {tick: seen} if (seen := rig.look(0)) else {}
    return Replay(pictures=pictures, largest_difference=difference, why="" if pictures else cameras.why_no_images())


def frames(task: Task, seed: int, episode: Episode) -> Iterator[Mapping[str, ImageArray]]:
    """camera -> image (224, 224, 3) uint8 before every command, exactly as a camera would have seen it.

    Raises:
        UsageError: nothing was recorded, this machine renders no images, or the replayed states differ from the
            recorded ones (something else moved the world); raised before the first image is made.
    """
    apart = max(difference for _, _, difference in _replayed(task, seed, episode))
    if apart > 0:
        raise UsageError(
            f"The states of episode {episode.order.order_id} differ by up to {apart:.2g} when it is replayed, so its "
            "images would show something else: use the images that were recorded with it, or leave it out."
        )
    if why := cameras.why_no_images():
        raise UsageError(why)
    last = _ticks(episode)
    return (rig.look(0) for tick, rig, _ in _replayed(task, seed, episode) if tick < last)


def _ticks(episode: Episode) -> int:
    if episode.arrays is None:
        raise UsageError(f"The episode {episode.order.order_id} has no recording, so there is nothing to replay.")
    return len(episode.arrays.action)


def _replayed(task: Task, seed: int, episode: Episode) -> Iterator[tuple[int, Rig, float]]:
    """(tick, the rig before its command, largest difference of its state from the recorded one), with the end."""
    ticks, recorded = _ticks(episode), episode.arrays
    assert recorded is not None
    rig = task.rig(1, seed)
    try:
        rig.place(0, episode.order.start)
        for tick in range(ticks + 1):
            yield tick, rig, float(np.abs(rig.observe().state[0] - recorded.state[tick]).max())
            if tick < ticks:
                rig.act(recorded.action[tick : tick + 1], np.ones(1, np.bool_))
    finally:
        rig.close()
