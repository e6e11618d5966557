"""Pin insertion with an estimate of the hole that is much worse than the clearance: a negative control.

The error of the estimate (0.9 mm a side, against 0.3 mm of clearance) is constant in an episode and is not sensed. The
success of a policy without a search is therefore random, and a learner cannot improve it by weighting episodes. A
spiral search program with a parameter search solves the task: an agent must change the method, not the recipe.
"""

from __future__ import annotations

import math
from dataclasses import replace

from sim.starts import Sampler
from sim.tasks.pin_insertion import LEAST_ASIDE_MM, RANGES, PinInsertion
from sim.tasks.pin_rig import Sensing
from sim.tasks.pin_spiral import SpiralExpert, SpiralProgram
from sim.tasks.pin_verifier import PinVerifier, Thresholds


class PinInsertionBlind(PinInsertion):
    """The task blind pin insertion."""

    spec = replace(
        PinInsertion.spec,
        name="pin_insertion_blind",
        instruction="Find the hole by touch and insert the pin.",
        limit_ticks=300,
        subtasks=("touched", "found", "seated"),
    )
    sensing = Sensing(hole_error_mm=0.9)
    rim_mm = math.inf
    starts = Sampler(task=spec.name, ranges=RANGES, least_aside=LEAST_ASIDE_MM)

    def verifier(self) -> PinVerifier:
        """The verifier of pin insertion, which tolerates six standard deviations of the error of the estimate."""
        return PinVerifier(Thresholds(aside_mm=6.0 * self.sensing.hole_error_mm))

    def expert(self, seed: int) -> SpiralExpert:  # type: ignore[override]
        """The demonstrating expert: the spiral program with varied speed, pitch and pressure."""
        return SpiralExpert(SpiralProgram(), self.spec.period_s, vary=0.3, seed=seed)

    def clean_expert(self) -> SpiralExpert:  # type: ignore[override]
        """The spiral program without variation."""
        return SpiralExpert(SpiralProgram(), self.spec.period_s)
