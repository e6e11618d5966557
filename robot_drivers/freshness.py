"""Detects frozen sensors: a time stamp that does not rise, a camera that repeats its image while the robot moves."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from enpire.types import FloatArray, ImageArray, Observation, TaskSpec

PATIENCE = 2
"""Number of actions after which a sensor must have a new value."""
MOVED, MOVED_FAR = 0.01, 0.05
"""Shares of a state's range that count as motion: for a camera, and for a rendered image."""
PLACES = ("m", "mm", "rad", "deg")
"""Units of the state numbers whose motion a rendered image shows: no times, speeds or forces."""


class Freshness:
    """Monitors the observations of one rig between actions."""

    def __init__(self, spec: TaskSpec) -> None:
        self.stale = ""
        """One sentence on the first frozen sensor since the last `begin`; empty when there is none."""
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
        """Begin a rollout: clear what was observed."""
        self.stale = ""
        self._stamp_ns = -1
        self._actions = 0
        self._images: dict[str, tuple[bytes, FloatArray, int]] = {}

    def commanded(self) -> None:
        """Note that an action was sent that moves the robot."""
        self._actions += 1
        self._images = {camera: (last, at, count + 1) for camera, (last, at, count) in self._images.items()}

    def note(self, observation: Observation) -> None:
        """Check a new observation."""
        if observation.stamp_ns > self._stamp_ns:
            self._stamp_ns = observation.stamp_ns
            self._actions = 0
        elif self._actions > PATIENCE:
            self._report(f"The stamp of {self._name} has not risen for {self._actions} actions.")
        for camera, images in observation.images.items():
            self._check_image(camera, images.tobytes(), observation.state, self._near)

    def looked(self, images: Mapping[str, ImageArray], state: FloatArray) -> None:
        """Check rendered images, camera -> (height, width, 3) uint8, taken at `state` (state_dim,).

        A rendered image has no noise and repeats while nothing in it moves, so the sensors are frozen only if all
        cameras repeat their images.
        """
        if images:
            seen = b"".join(images[camera].tobytes() for camera in sorted(images))
            self._check_image(", ".join(sorted(images)), seen, state, self._far)

    def _check_image(self, camera: str, image: bytes, state: FloatArray, moved: FloatArray) -> None:
        last, at, count = self._images.get(camera, (b"", state, 0))
        if image != last:
            self._images[camera] = (image, state.copy(), 0)
        elif count > PATIENCE and np.any(np.abs(state - at) > moved):
            self._report(
                f"Camera {camera} of {self._name} has repeated its image for {count} actions that moved the robot."
            )

    def _report(self, sentence: str) -> None:
        self.stale = self.stale or sentence + " The sensor is frozen: this rollout is invalid."
