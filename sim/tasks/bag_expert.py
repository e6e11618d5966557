"""The scripted expert of bag packing: the left arm opens the bag and holds it, the right one puts the things in.

What is dropped is picked up again, and a flap that fell shut is opened again. The demonstrating expert draws its own
speed, aim and hesitation in every episode.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields

import numpy as np

from sim.bimanual.demonstrator import ArmBehaviour, ArmEpisode, Demonstrator
from sim.bimanual.hands import Hand
from sim.bimanual.kinematics import Rows
from sim.tasks.bag_carry import Carry, PlaceGoal
from sim.tasks.bag_flap import Opener
from sim.tasks.bag_rig import HOME, TIPPED_RAD
from sim.tasks.bag_scene import FLOOR_M, SLOTS_M, THINGS
from sim.tasks.bag_world import World, retreat

VARIED = ArmBehaviour(speed=(0.5, 1.0), pause=(0.0, 0.03), aim_m=0.01, tremor_rad_s=0.01)


@dataclass(slots=True, kw_only=True)
class Packing(ArmEpisode):
    """What one lane's episode drew, and how far it is."""

    world: World = field(default_factory=World)
    opener: Opener = field(default_factory=Opener)
    carry: Carry | None = None
    slip_m: Rows = field(default_factory=lambda: np.zeros(2))
    """By how much the thing in hand is going to be let go beside its slot."""


class BagExpert(Demonstrator):
    """A policy with memory: where things were seen last, and what either hand is at."""

    def _prepared(self, episode: ArmEpisode) -> Packing:
        return Packing(**{part.name: getattr(episode, part.name) for part in fields(episode)})

    def _decide(self, episode: ArmEpisode, state: Rows, left: Hand, right: Hand) -> None:
        """What both hands shall do now; a bag that has tipped is left alone."""
        assert isinstance(episode, Packing)
        world = episode.world
        world.sense(state)
        if world.tilt_rad > TIPPED_RAD:
            return
        opened = episode.opener.step(world, left)
        if episode.carry is not None and episode.carry.seeking and world.inside(episode.carry.thing):
            episode.carry = None
        if episode.carry is None:
            # What the hand still hides is looked at last: going to another thing uncovers it.
            out = sorted((world.seen_s[thing] == 0.0, thing) for thing in range(3) if not world.inside(thing))
            if not out:
                retreat(right, HOME["right"])
                return
            episode.carry = Carry(thing=out[0][1])
            episode.slip_m = episode.rng.normal(0.0, 1.0, 2) * self._behaviour.aim_m
        thing = episode.carry.thing
        goal = world.at(episode.slip_m[0], SLOTS_M[thing] + episode.slip_m[1], FLOOR_M + THINGS[thing].half_m)
        errand = PlaceGoal(goal_m=goal, turn_rad=float(world.bag[2]), opened=opened)
        if episode.carry.step(world, right, errand) != "going":
            episode.carry = None
