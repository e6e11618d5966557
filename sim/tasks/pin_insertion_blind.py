"""Pin insertion with a hole estimate much worse than the clearance: the honest negative control of policy improvement.

The error of the estimate (0.9 mm a side, against 0.3 mm of clearance) stays for the episode and is never sensed, so
luck decides the success of any policy without a search: weighting its lucky episodes teaches nothing. A spiral program
with a parameter search solves it; here an agent must change the regime, not the recipe.
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
    """The immutable contract of blind pin insertion."""

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
        """The shipped one, which allows for six standard deviations of the error of the hole's estimate."""
        return PinVerifier(Thresholds(aside_mm=6.0 * self.sensing.hole_error_mm))

    def expert(self, seed: int) -> SpiralExpert:  # type: ignore[override]
        """The demonstrating expert: the spiral program with varied speed, pitch and pressure."""
        return SpiralExpert(SpiralProgram(), self.spec.period_s, vary=0.3, seed=seed)

    def clean_expert(self) -> SpiralExpert:  # type: ignore[override]
        """The spiral program as it stands."""
        return SpiralExpert(SpiralProgram(), self.spec.period_s)
