"""The verifier of fragile zip-tie cutting: that of zip-tie cutting, for a cut that the gauge measures at the mark."""

from __future__ import annotations

from dataclasses import astuple, dataclass

import numpy as np

from enpire.interfaces import Evidence
from enpire.types import FloatArray, IntArray, MaskArray, Verdict
from sim.tasks.fragile_ziptie_rig import MARK_MM, STUB, WITHIN_MM
from sim.tasks.ziptie_verifier import Thresholds, ZiptieVerifier
from sim.verifiers.frozen import digest_of


@dataclass(frozen=True, slots=True, kw_only=True)
class FragileThresholds(Thresholds):
    """Thresholds of the verifier of fragile zip-tie cutting."""

    whole_mm: float = 40.0
    """Sensed length of a tail above which it is not cut."""
    within_mm: float = WITHIN_MM
    """Largest distance of the cut from the mark, by the mean of the samples after the cut."""
    surely_mm: float = WITHIN_MM + 0.9
    """The same for one sample, from which a rollout is finished."""
    gauged: int = 12
    """Largest number of the last samples that count."""


class FragileZiptieVerifier(ZiptieVerifier):
    """Also ends a rollout, as a failure, when the tail was cut far from the mark."""

    def __init__(self, thresholds: FragileThresholds | None = None) -> None:
        """Judge with these thresholds; with the shipped ones when None."""
        self.thresholds: FragileThresholds = thresholds or FragileThresholds()
        self.digest = digest_of(type(self), ZiptieVerifier, thresholds=astuple(self.thresholds))

    def finished(self, state: FloatArray, ticks: IntArray) -> MaskArray:
        """Which lanes look done, or cut in a wrong place."""
        stub = state[:, STUB]
        wrong = (stub < self.thresholds.whole_mm) & (np.abs(stub - MARK_MM) > self.thresholds.surely_mm)
        return super().finished(state, ticks) | (wrong & (stub != 0.0))

    def judge(self, evidence: Evidence) -> Verdict:
        """The verdict on one rollout, from its states and the images at its end (where the station makes any)."""
        verdict, limit = super().judge(evidence), self.thresholds
        stub = evidence.arrays.state[:, STUB].astype(np.float64)
        stub = stub[(stub < limit.whole_mm) & (stub != 0.0)][-limit.gauged :]
        if verdict.kind == "unsafe" or not len(stub):
            return verdict
        off_mm = abs(float(stub.mean()) - MARK_MM)
        if off_mm <= limit.within_mm:
            return verdict
        return Verdict(
            kind="failure", confidence=0.99, source="verifier", reason=f"The cut is {off_mm:.1f} mm off its mark."
        )
