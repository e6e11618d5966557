"""Fragile insertion: pin insertion with twice the time and a pin that breaks when it is pressed on the rim.

More than 1.1 N on the way down breaks the pin, which ends the episode: nothing in it can undo that. An early, fast
descent saves time and risks the pin, so care and speed conflict.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from enpire.types import FloatArray, IntArray, MaskArray, Observation, Start
from sim.starts import Sampler
from sim.tasks.fragile_rig import LENGTH, PIN_MM, STATE_WITH_LENGTH, FragilePinRig
from sim.tasks.fragile_verifier import FragileThresholds, FragileVerifier
from sim.tasks.pin_expert import CLEAN, VARIED, PinExpert
from sim.tasks.pin_insertion import LEAST_ASIDE_MM, RANGES, PinInsertion, PinReset
from sim.tasks.pin_rig import TIP

BOLD = replace(VARIED, centred_mm=(0.3, 1.1))
"""Behaviour of the demonstrating expert: in about half of its episodes it descends too early and breaks the pin."""
_WHOLE_MM = FragileThresholds().whole_mm


class FragileInsertion(PinInsertion):
    """The task fragile insertion."""

    spec = replace(
        PinInsertion.spec,
        name="fragile_insertion",
        instruction="Insert the pin into the hole without breaking it.",
        state=STATE_WITH_LENGTH,
        limit_ticks=320,
    )
    starts = Sampler(task=spec.name, ranges=RANGES, least_aside=LEAST_ASIDE_MM)

    def rig(self, lanes: int, seed: int) -> FragilePinRig:
        """A simulated rig; `seed` draws the station's friction, mass, servo gain, latency and sensor bias."""
        return FragilePinRig(self.spec, lanes, seed, self.sensing)

    def reset_skill(self) -> FragileReset:
        """The reset of pin insertion, also with what is left of a broken pin."""
        return FragileReset()

    def start_error(self, state: FloatArray, start: Start) -> tuple[tuple[float, ...], bool]:
        """As for pin insertion; a broken pin is at no start."""
        achieved, near = super().start_error(state, start)
        return achieved, near and bool(state[LENGTH] >= _WHOLE_MM)

    def verifier(self) -> FragileVerifier:
        """A fresh verifier with the shipped thresholds."""
        return FragileVerifier()

    def expert(self, seed: int) -> FragileExpert:
        """The demonstrating expert: varied speed, aim, pauses and care."""
        return FragileExpert(seed, BOLD, self.spec.period_s)

    def clean_expert(self) -> FragileExpert:
        """The clean expert: fast, accurate, without pauses."""
        return FragileExpert(0, CLEAN, self.spec.period_s)


class FragileExpert(PinExpert):
    """The expert of pin insertion. It does not look at the length of the pin."""

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        """Decide for the lanes named: (len(lanes), 8, 3) float32 in mm/s, for states (len(lanes), 13)."""
        return super().act(replace(observation, state=observation.state[:, :LENGTH]), lanes)


class FragileReset(PinReset):
    """The reset of pin insertion, which carries a broken pin as if it were whole until the gripper takes the next."""

    def step(self, state: FloatArray, lanes: IntArray) -> tuple[FloatArray, MaskArray]:
        """One period: (commands (n, 3) in mm/s, which lanes have rested at their start for three periods)."""
        broken = state[:, LENGTH] < _WHOLE_MM
        whole = state.copy()
        whole[:, TIP.stop - 1] -= np.where(broken, PIN_MM - state[:, LENGTH], 0.0)
        commands, done = super().step(whole, lanes)
        return commands, done & ~broken
