"""Fragile zip-tie cutting: the first cut must be within 3 mm of the mark, within 480 periods.

A tail that was cut elsewhere ends the episode: nothing in it can undo that. Blades that close before they are over the
mark save time and risk the tie, so care and speed conflict.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from enpire.types import FloatArray
from sim.bimanual.demonstrator import CLEAN, ArmEpisode
from sim.bimanual.rig import commands_of
from sim.starts import Sampler
from sim.tasks.fragile_ziptie_rig import STATE_WITH_STUB, FragileZiptieRig
from sim.tasks.fragile_ziptie_verifier import FragileZiptieVerifier
from sim.tasks.ziptie_cutting import RANGES, ZiptieCutting
from sim.tasks.ziptie_expert import VARIED, ZiptieExpert

STEADY = replace(VARIED, pause=(0.0, 0.04), tremor_rad_s=0.005)
"""Behaviour of the demonstrating expert. The tremor of zip-tie cutting, 0.02 rad/s, is as large as the commands of
three joints, and a policy that is cloned from such demonstrations carries the cutter askew."""
_REST_RAD_S = 0.1
"""Largest joint speed below which the left arm rests."""
_GRIP_MM_S = 20.0
"""Largest speed of the gripper. A policy that is cloned from demonstrations with 60 mm/s, the limit, errs by 15 mm/s
while it should hold still, and its blades close on the way."""


class FragileZiptie(ZiptieCutting):
    """The task fragile zip-tie cutting."""

    spec = replace(
        ZiptieCutting.spec,
        name="fragile_ziptie",
        instruction="Take the cutter from its holder and cut the tail of the zip tie at its mark.",
        state=STATE_WITH_STUB,
        limit_ticks=480,
    )
    starts = Sampler(task=spec.name, ranges=RANGES)

    def rig(self, lanes: int, seed: int) -> FragileZiptieRig:
        """A simulated rig; `seed` draws the station's grip, friction, stiffness, latency, cutter, ties and cameras."""
        return FragileZiptieRig(self.spec, lanes, seed)

    def verifier(self) -> FragileZiptieVerifier:
        """A fresh verifier with the shipped thresholds."""
        return FragileZiptieVerifier()

    def expert(self, seed: int) -> FragileZiptieExpert:
        """The demonstrating expert: varied speed, aim and pauses."""
        return FragileZiptieExpert(self.spec, seed, STEADY)

    def clean_expert(self) -> FragileZiptieExpert:
        """The clean expert: fast, accurate, without pauses."""
        return FragileZiptieExpert(self.spec, 0, CLEAN)


class FragileZiptieExpert(ZiptieExpert):
    """The expert of zip-tie cutting, whose left arm holds still while it watches, and whose gripper moves slowly."""

    def _strayed(self, episode: ArmEpisode, command: FloatArray) -> FloatArray:
        strayed, left = super()._strayed(episode, command), commands_of("left")
        if np.abs(command[left]).max() < _REST_RAD_S:
            strayed[left] = 0.0
        gripper = commands_of("right").stop
        strayed[gripper] = np.clip(strayed[gripper], -_GRIP_MM_S, _GRIP_MM_S)
        return strayed
