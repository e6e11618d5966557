"""The scripted expert of bag packing: the left arm opens the bag and holds it, the right one puts the things in.

What is dropped is picked up again, and a flap that fell shut is opened again. The demonstrating expert draws its own
speed, aim and hesitation in every episode.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields

import numpy as np

from enpire.types import TaskSpec
from sim.bimanual.demonstrator import Demonstrator, Manner, Mood
from sim.bimanual.hands import Hand
from sim.bimanual.kinematics import Rows
from sim.tasks.bag_carry import Carry, Errand
from sim.tasks.bag_flap import Opener
from sim.tasks.bag_rig import HOME, TIPPED_RAD
from sim.tasks.bag_scene import FLOOR_M, SLOTS_M, THINGS
from sim.tasks.bag_world import World, retreat

CLEAN = Manner()
VARIED = Manner(speed=(0.5, 1.0), pause=(0.0, 0.03), aim_m=0.01, tremor_rad_s=0.01)


@dataclass(slots=True)
class Packing(Mood):
    """What one lane's episode drew, and how far it is."""

    world: World = field(default_factory=World)
    opener: Opener = field(default_factory=Opener)
    carry: Carry | None = None
    slip_m: Rows = field(default_factory=lambda: np.zeros(2))
    """By how much the thing in hand is going to be let go beside its slot."""


class BagExpert(Demonstrator):
    """A policy with memory: where things were seen last, and what either hand is at."""

    def __init__(self, spec: TaskSpec, seed: int, manner: Manner) -> None:
        """Demonstrate in a manner; its `aim_m` is drawn anew for each thing that is carried."""
        super().__init__(spec, seed, manner)

    def begin(self, lane: int, seed: int) -> None:
        """Draw this episode's manner, and forget the last one."""
        super().begin(lane, seed)
        drawn = self._moods[lane]
        self._moods[lane] = Packing(**{part.name: getattr(drawn, part.name) for part in fields(drawn)})

    def _decide(self, mood: Mood, state: Rows, left: Hand, right: Hand) -> None:
        """What both hands shall do now; a bag that has tipped is left alone."""
        assert isinstance(mood, Packing)
        world = mood.world
        world.sense(state)
        if world.tilt_rad > TIPPED_RAD:
            return
        opened = mood.opener.step(world, left)
        if mood.carry is not None and mood.carry.seeking and world.inside(mood.carry.thing):
            mood.carry = None
        if mood.carry is None:
            # What the hand still hides is looked at last: going to another thing uncovers it.
            out = sorted((world.seen_s[thing] == 0.0, thing) for thing in range(3) if not world.inside(thing))
            if not out:
                retreat(right, HOME["right"])
                return
            mood.carry = Carry(thing=out[0][1])
            mood.slip_m = mood.rng.normal(0.0, 1.0, 2) * self._manner.aim_m
        thing = mood.carry.thing
        goal = world.at(mood.slip_m[0], SLOTS_M[thing] + mood.slip_m[1], FLOOR_M + THINGS[thing].half_m)
        errand = Errand(goal_m=goal, turn_rad=float(world.bag[2]), opened=opened)
        if mood.carry.step(world, right, errand) != "going":
            mood.carry = None
