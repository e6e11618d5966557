"""Notices sensors that stand still: a stamp that does not rise, a camera that repeats its picture during motion."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from enpire.types import FloatArray, ImageArray, Observation, TaskSpec

PATIENCE = 2
"""Commands after which a sensor must have shown something new."""
MOVED, MOVED_FAR = 0.01, 0.05
"""Shares of a state's range that count as motion: which a camera must see, and which even a drawn picture must show."""
PLACES = ("m", "mm", "rad", "deg")
"""Units of the numbers whose motion a drawn picture shows: no clock, no speed, no force."""


class Freshness:
    """Watches one rig's observations between commands."""

    def __init__(self, spec: TaskSpec) -> None:
        self.stale = ""
        """One sentence since the last `begin`: which sensor stood still; empty when none did."""
        low = np.array([item.low for item in spec.state])
        high = np.array([item.high for item in spec.state])
        span = high - low
        self._span = np.where(np.isfinite(span) & (span > 0), span, 1.0)
        place = np.array([item.unit in PLACES for item in spec.state])
        self._near, self._far = ((share * self._span).astype(np.float32) for share in (MOVED, MOVED_FAR))
        self._far[~place] = np.inf
        self._name = spec.name
        self.begin()

    def begin(self) -> None:
        """A rollout begins: forget what was seen."""
        self.stale = ""
        self._stamp_ns = -1
        self._commands = 0
        self._pictures: dict[str, tuple[bytes, FloatArray, int]] = {}

    def commanded(self) -> None:
        """A command was sent that moves the robot."""
        self._commands += 1
        self._pictures = {camera: (last, at, count + 1) for camera, (last, at, count) in self._pictures.items()}

    def note(self, observation: Observation) -> None:
        """Look at a new observation."""
        if observation.stamp_ns > self._stamp_ns:
            self._stamp_ns = observation.stamp_ns
            self._commands = 0
        elif self._commands > PATIENCE:
            self._tell(f"The stamp of {self._name} has stood still for {self._commands} commands.")
        for camera, pictures in observation.images.items():
            self._note_picture(camera, pictures.tobytes(), observation.state, self._near)

    def looked(self, pictures: Mapping[str, ImageArray], state: FloatArray) -> None:
        """Look at pictures, camera -> (height, width, 3), that were asked for when the robot was at `state`.

        A drawn picture has no noise, so one that nothing crosses repeats itself: all must stand still to be frozen.
        """
        if pictures:
            seen = b"".join(pictures[camera].tobytes() for camera in sorted(pictures))
            self._note_picture(", ".join(sorted(pictures)), seen, state, self._far)

    def _note_picture(self, camera: str, picture: bytes, state: FloatArray, moved: FloatArray) -> None:
        last, at, count = self._pictures.get(camera, (b"", state, 0))
        if picture != last:
            self._pictures[camera] = (picture, state.copy(), 0)
        elif count > PATIENCE and np.any(np.abs(state - at) > moved):
            self._tell(f"Camera {camera} of {self._name} has repeated its picture for {count} commands of motion.")

    def _tell(self, sentence: str) -> None:
        self.stale = self.stale or sentence + " The sensor is frozen: this rollout is invalid."
