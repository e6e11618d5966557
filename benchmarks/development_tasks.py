"""A task on which settings of recipes are chosen, so that the tasks that are reported stay held out.

`BrittlePin` is pin insertion with twice the time. More than 1.1 N of contact above 7 mm of depth breaks the pin, which
ends the episode. A broken pin is out of the camera's view: its sensed tip is at 40 mm.

    python -m benchmarks.improvement --task benchmarks.development_tasks:BrittlePin --first-seed 900
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from enpire.interfaces import Evidence
from enpire.types import FloatArray, IntArray, MaskArray, Start, TaskSpec, Verdict
from sim.rig import LaneArray
from sim.starts import Sampler
from sim.tasks.pin_insertion import LEAST_ASIDE_MM, RANGES, PinInsertion
from sim.tasks.pin_rig import PinRig, Sensing
from sim.tasks.pin_verifier import PinVerifier
from sim.truth import Truth

HEIGHT = 2
"""Column of a state row: height of the tip over the rim."""
BREAKS_N, INSERTED_MM, GONE_MM = 1.1, 7.0, 40.0


class BrittleRig(PinRig):
    """Lanes of the pin scene with pins that break."""

    def __init__(self, spec: TaskSpec, lanes: int, seed: int, sensing: Sensing) -> None:
        """Build the scene of one station; `seed` draws its physical parameters."""
        super().__init__(spec, lanes, seed, sensing)
        self._broken = np.zeros(lanes, dtype=np.bool_)
        self.remember(broken=self._broken)

    def _prepare(self, lane: int, start: Start, rng: np.random.Generator) -> None:
        super()._prepare(lane, start, rng)
        self._broken[lane] = False

    def _after(self, rows: npt.NDArray[np.intp]) -> None:
        super()._after(rows)
        hard = np.linalg.norm(self._force[rows], axis=1) > BREAKS_N
        self._broken[rows] |= hard & (self.tip_mm()[rows, HEIGHT] > -INSERTED_MM) & self._running[rows]

    def _sense(self, noise: LaneArray) -> LaneArray:
        row = super()._sense(noise)
        row[self._broken, HEIGHT] = GONE_MM
        return row

    def _truth(self, lane: int) -> Truth:
        truth = super()._truth(lane)
        return replace(truth, success=truth.success and not self._broken[lane])


class BrittleVerifier(PinVerifier):
    """The verifier of pin insertion; a broken pin ends the episode as a failure."""

    def finished(self, state: FloatArray, ticks: IntArray) -> MaskArray:
        """Which lanes look seated or broken: (n,) bool for states (n, state_dim) after `ticks` (n,) commands."""
        return super().finished(state, ticks) | ((state[:, HEIGHT] >= GONE_MM) & (ticks >= 1))

    def judge(self, evidence: Evidence) -> Verdict:
        """The verdict on one rollout."""
        if (evidence.arrays.state[:, HEIGHT] >= GONE_MM).any():
            return Verdict(kind="failure", confidence=1.0, source="verifier")
        return super().judge(evidence)


class BrittlePin(PinInsertion):
    """The task."""

    spec = replace(PinInsertion.spec, name="fragile_dev_a", limit_ticks=320)
    starts = Sampler(task=spec.name, ranges=RANGES, least_aside=LEAST_ASIDE_MM)

    def rig(self, lanes: int, seed: int) -> BrittleRig:
        """A simulated rig; `seed` draws the station's physical parameters."""
        return BrittleRig(self.spec, lanes, seed, self.sensing)

    def verifier(self) -> BrittleVerifier:
        """A fresh verifier with the thresholds of pin insertion."""
        return BrittleVerifier()
