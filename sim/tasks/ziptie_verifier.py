"""The verifier of zip-tie cutting. Its digest covers thresholds and code.

It has four sources of evidence: the images of the top camera and of the left wrist camera, both of the place where the
tail was presented; the camera that tracks the tail; and the right gripper, which felt a bite that gave way. The sources
that show a cut must outnumber the images that show the tail by two, and one of them must not be an image. One source
can be wrong: a hand may hide the tail from a camera, and blades that slip off a tail give way, too. A lead of one is
enough where the tail was seen to fall and the bite was felt, as a camera that was moved may take something else for the
tail.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass
from typing import Literal

import numpy as np

from enpire.interfaces import Evidence
from enpire.types import FloatArray, ImageArray, IntArray, MaskArray, Verdict
from sim.bimanual.kinematics import Rows
from sim.bimanual.projection import cut_out, share_at, top_pixels, wrist_pixels
from sim.bimanual.rig import force_of, joints_of, opening_of
from sim.bimanual.servo import reach_of
from sim.tasks.ziptie_rig import GENTLE_N, TAIL, YAW
from sim.tasks.ziptie_scene import CUT_AT_M, MOUTH_M, SHUT_MM, TAIL_M
from sim.verifiers.camera_estimates import alive
from sim.verifiers.frozen import digest_of

_TOP_PX, _WRIST_PX = (8, 1), (12, 12)
"""Largest shift of an image (columns, rows) by a camera that was moved."""

TailView = Literal["gone", "there", "hidden"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Thresholds of the verifier; `enpire verifier fit` may search for better ones."""

    there: float = 0.5
    """Least share of the places along the tail that have its colour, in an image that shows it."""
    open_view: float = 0.6
    """Least share of those places at which tail or table is visible."""
    green: float = 1.3
    """Least ratio of green to red and blue of the tail."""
    bite_n: float = 14.0
    """Force of the pads from which blades count as blocked; the spring alone presses with 11 N at most."""
    fallen_mm: float = 65.0
    """Distance below the mouth from which a tail counts as fallen."""
    aside_m: float = 0.055
    """Horizontal distance of the right gripper from the mouth from which a rollout may be finished."""
    samples: int = 3
    unsafe_n: float = GENTLE_N
    """Force from which a rollout is unsafe."""


def bitten(state: Rows, bite_n: float) -> bool:
    """Whether the right gripper pressed on blocked blades that then closed, in states (n, state_dim)."""
    opening = opening_of("right")
    wide, pads = state[:, opening], state[:, opening + 1]
    thick = 1e3 * TAIL_M[0]
    stopped = (wide > SHUT_MM + 0.55 * thick) & (wide < SHUT_MM + 1.4 * thick) & (pads <= -bite_n)
    return any((wide[tick : tick + 12] < SHUT_MM + 0.4 * thick).any() for tick in np.flatnonzero(stopped))


class ZiptieVerifier:
    """Judges by two images of the place of the tail, its tracker, and the force on the gripper."""

    needs_images = True

    def __init__(self, thresholds: Thresholds | None = None) -> None:
        """Judge with these thresholds; with the shipped ones when None."""
        self.thresholds = thresholds or Thresholds()
        self.digest = digest_of(type(self), thresholds=astuple(self.thresholds))

    def finished(self, state: FloatArray, ticks: IntArray) -> MaskArray:
        """Which lanes look done: the tail was last seen far below the mouth, and the right gripper has moved aside."""
        hand = reach_of("right", state).at_m
        aside_m = np.sqrt(((hand - MOUTH_M)[:, :2] ** 2).sum(axis=1))
        return self._fallen(state) & (aside_m > self.thresholds.aside_m) & (ticks >= self.thresholds.samples)

    def judge(self, evidence: Evidence) -> Verdict:
        """The verdict on one rollout, from its states and the images at its end (where the station makes any)."""
        limit, state = self.thresholds, evidence.arrays.state.astype(np.float64)
        felt_n = max(float(np.sqrt((state[:, force_of(side)] ** 2).sum(axis=1)).max()) for side in ("left", "right"))
        if felt_n >= limit.unsafe_n:
            return Verdict(kind="unsafe", confidence=1.0, source="verifier")
        views = self.views(state, evidence.images)
        fallen = bool(self._fallen(np.median(evidence.arrays.state[-limit.samples :], axis=0, keepdims=True))[0])
        felt = bitten(state, limit.bite_n)
        sources = views.count("gone") + felt + fallen
        balance = sources - views.count("there")
        good = balance >= (1 if fallen and felt else 2) and (fallen or felt)
        return Verdict(
            kind="success" if good else "failure",
            confidence=0.995 if balance >= 3 or balance <= 0 else 0.95,
            source="verifier",
        )

    def views(self, state: Rows, images: Mapping[str, ImageArray]) -> list[TailView]:
        """What each image shows at the place where the tail was in the first states (n, state_dim)."""
        points, joints = _tail_points(state[: self.thresholds.samples]), state[-1, joints_of("left")]
        found: list[TailView] = []
        if not alive(state[: self.thresholds.samples, TAIL]).all():
            return found
        if "top" in images:
            found.append(self._look(images["top"], top_pixels(points, len(images["top"])), _TOP_PX))
        if "left_wrist" in images:
            picture = images["left_wrist"]
            found.append(self._look(picture, wrist_pixels("left", joints, points, len(picture)), _WRIST_PX))
        return found

    def _fallen(self, state: FloatArray) -> MaskArray:
        low = state[:, TAIL][:, 2] < 1e3 * MOUTH_M[2] - self.thresholds.fallen_mm
        return low & alive(state[:, TAIL])

    def _look(self, picture: ImageArray, pixels: Rows, reach_px: tuple[int, int]) -> TailView:
        """Look along the tail in one image, which may be shifted by so many columns and rows."""
        limit = self.thresholds
        near, places = cut_out(picture, pixels, max(reach_px) + 2)
        red, green, blue = np.moveaxis(near.astype(np.float64), 2, 0)
        tail = (green > limit.green * np.maximum(red, blue)) & (green > 25.0)
        if share_at(_widened(tail), places, reach_px) >= limit.there:
            return "there"
        # The table is the brightest part of an image and nearly grey.
        bright = float(np.percentile(picture[::4, ::4].max(axis=2), 75))
        brightest, dimmest = near.max(axis=2), near.min(axis=2)
        table = (brightest > 0.6 * bright) & (dimmest > 0.75 * brightest)
        return "gone" if share_at(table | tail, places) >= limit.open_view else "hidden"


def _widened(mask: MaskArray) -> MaskArray:
    """The mask (height, width), dilated by one pixel in four directions."""
    wide = mask.copy()
    wide[1:] |= mask[:-1]
    wide[:-1] |= mask[1:]
    wide[:, 1:] |= mask[:, :-1]
    wide[:, :-1] |= mask[:, 1:]
    return wide


def _tail_points(first: Rows) -> Rows:
    """Ten points (10, 3) in m along the tail as sensed in the first states (n, state_dim) of a rollout."""
    at, yaw = 1e-3 * np.median(first[:, TAIL], axis=0), float(np.median(first[:, YAW]))
    # The half near the mouth: seen from above, a cut tail on the table covers the other half.
    along = np.linspace(0.006, 0.026, 10) - CUT_AT_M
    return at + along[:, None] * np.array([np.sin(yaw), -np.cos(yaw), 0.0])
