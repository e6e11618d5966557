"""Fragile zip-tie cutting: the first cut must be within 3 mm of the mark, with twice the time of zip-tie cutting.

A tail that was cut elsewhere ends the episode: nothing in it can undo that. Blades that close before they are over the
mark save time and risk the tie, so care and speed conflict.
"""

from __future__ import annotations

from dataclasses import replace

from sim.bimanual.demonstrator import CLEAN
from sim.starts import Sampler
from sim.tasks.fragile_ziptie_rig import STATE_WITH_STUB, FragileZiptieRig
from sim.tasks.fragile_ziptie_verifier import FragileZiptieVerifier
from sim.tasks.ziptie_cutting import RANGES, ZiptieCutting
from sim.tasks.ziptie_expert import VARIED, ZiptieExpert


class FragileZiptie(ZiptieCutting):
    """The task fragile zip-tie cutting."""

    spec = replace(
        ZiptieCutting.spec,
        name="fragile_ziptie",
        instruction="Take the cutter from its holder and cut the tail of the zip tie at its mark.",
        state=STATE_WITH_STUB,
        limit_ticks=640,
    )
    starts = Sampler(task=spec.name, ranges=RANGES)

    def rig(self, lanes: int, seed: int) -> FragileZiptieRig:
        """A simulated rig; `seed` draws the station's grip, friction, stiffness, latency, cutter, ties and cameras."""
        return FragileZiptieRig(self.spec, lanes, seed)

    def verifier(self) -> FragileZiptieVerifier:
        """A fresh verifier with the shipped thresholds."""
        return FragileZiptieVerifier()

    def expert(self, seed: int) -> ZiptieExpert:
        """The demonstrating expert: varied speed, aim and pauses."""
        return ZiptieExpert(self.spec, seed, VARIED)

    def clean_expert(self) -> ZiptieExpert:
        """The clean expert: fast, accurate, without pauses."""
        return ZiptieExpert(self.spec, 0, CLEAN)
