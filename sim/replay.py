"""An episode of a simulated station again: the same start, the same commands, and this time with a camera.

Simulated stations never render while they roll out. The commands that were recorded are what was sent, and the
simulation is exact, so pictures can be taken afterwards; that the sensors say the same again is checked on the way.
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
    """What came of it."""

    pictures: Mapping[int, Mapping[str, ImageArray]]
    """tick -> camera -> picture; empty when no picture can be made."""
    largest_difference: float
    """Between what the sensors said then and now, over all frames and numbers; 0 when the replay is exact."""
    why: str
    """Why there are no pictures; empty when there are."""


def replay(task: Task, seed: int, episode: Episode, moments: int = 6) -> Replay:
    """Run the recorded commands again on a station with the same seed.

    Args:
        task: whose rig runs it.
        seed: of the station that recorded the episode; it draws friction, mass and offsets.
        episode: with its arrays; UsageError without.
        moments: pictures per camera, evenly over the episode, first and last frame included.
    """
    ticks = _ticks(episode)
    wanted = {round(index * ticks / max(1, moments - 1)) for index in range(moments)}
    pictures: dict[int, Mapping[str, ImageArray]] = {}
    difference = 0.0
    for tick, rig, apart in _again(task, seed, episode):
        difference = max(difference, apart)
        if tick in wanted:
            pictures |= {tick: seen} if (seen := rig.look(0)) else {}
    return Replay(pictures=pictures, largest_difference=difference, why="" if pictures else cameras.why_no_images())


def frames(task: Task, seed: int, episode: Episode) -> Iterator[Mapping[str, ImageArray]]:
    """camera -> picture (224, 224, 3) before every command: bit for bit what a camera would have seen.

    Raises:
        UsageError: nothing was recorded, this machine makes no pictures, or the sensors say something else this time
            (somebody or something else moved the world), before the first picture is made.
    """
    apart = max(difference for _, _, difference in _again(task, seed, episode))
    if apart > 0:
        raise UsageError(
            f"The sensors of episode {episode.order.order_id} say something else when it runs again (by {apart:.2g}), "
            "so pictures of it would show something else, too."
        )
    if why := cameras.why_no_images():
        raise UsageError(why)
    last = _ticks(episode)
    return (rig.look(0) for tick, rig, _ in _again(task, seed, episode) if tick < last)


def _ticks(episode: Episode) -> int:
    if episode.arrays is None:
        raise UsageError(f"The episode {episode.order.order_id} has no recording, so there is nothing to replay.")
    return len(episode.arrays.action)


def _again(task: Task, seed: int, episode: Episode) -> Iterator[tuple[int, Rig, float]]:
    """(tick, the rig before its command, how far its sensors are from the recorded ones), the end included."""
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
