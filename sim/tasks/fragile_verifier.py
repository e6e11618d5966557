"""The verifier of fragile insertion: that of pin insertion, for a pin that the camera sees whole at the end."""

from __future__ import annotations

from dataclasses import astuple, dataclass

from enpire.interfaces import Evidence
from enpire.types import FloatArray, IntArray, MaskArray, Verdict
from sim.tasks.fragile_rig import LENGTH
from sim.tasks.pin_rig import TILT
from sim.tasks.pin_verifier import PinVerifier, Thresholds
from sim.verifiers.camera_estimates import alive, fresh_rows
from sim.verifiers.frozen import digest_of


@dataclass(frozen=True, slots=True, kw_only=True)
class FragileThresholds(Thresholds):
    """Thresholds of the verifier of fragile insertion."""

    whole_mm: float = 18.0
    """Least sensed length of a whole pin, of 22 mm; a broken one has 14 mm."""


class FragileVerifier(PinVerifier):
    """Also ends a rollout, as a failure, when the pin is broken."""

    def __init__(self, thresholds: FragileThresholds | None = None) -> None:
        """Judge with these thresholds; with the shipped ones when None."""
        self.thresholds: FragileThresholds = thresholds or FragileThresholds()
        self.digest = digest_of(type(self), PinVerifier, thresholds=astuple(self.thresholds))

    def finished(self, state: FloatArray, ticks: IntArray) -> MaskArray:
        """Which lanes look seated or broken."""
        return super().finished(state, ticks) | self._broken(state)

    def judge(self, evidence: Evidence) -> Verdict:
        """The verdict on one rollout, from its recorded states alone."""
        verdict, state = super().judge(evidence), evidence.arrays.state
        rows = fresh_rows(state[:, : TILT.stop])[-1:]
        if verdict.kind != "unsafe" and self._broken(state[rows]).any():
            return Verdict(kind="failure", confidence=1.0, source="verifier", reason="The pin is broken.")
        return verdict

    def _broken(self, state: FloatArray) -> MaskArray:
        """Which states (n, state_dim) show a pin that is too short: (n,) bool. A dead estimate shows nothing."""
        return alive(state[:, : TILT.stop]) & (state[:, LENGTH] < self.thresholds.whole_mm)
