"""The scripted expert of bag packing: the left arm opens the bag and holds it, the right arm puts the objects in.

It picks dropped objects up again and opens a flap that fell shut. The demonstrating expert draws speed, aim and pauses
in every episode.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields

import numpy as np

from sim.bimanual.arm_goals import Hand
from sim.bimanual.demonstrator import ArmBehaviour, ArmEpisode, Demonstrator
from sim.bimanual.kinematics import Rows
from sim.tasks.bag_carry import Carry, PlaceGoal
from sim.tasks.bag_flap import Opener
from sim.tasks.bag_rig import HOME, TIPPED_RAD
from sim.tasks.bag_scene import FLOOR_M, SLOTS_M, THINGS
from sim.tasks.bag_world import World, retreat

VARIED = ArmBehaviour(speed=(0.5, 1.0), pause=(0.0, 0.03), aim_m=0.01, tremor_rad_s=0.01)


@dataclass(slots=True, kw_only=True)
class Packing(ArmEpisode):
    """Behaviour and state of one lane's episode."""

    world: World = field(default_factory=World)
    opener: Opener = field(default_factory=Opener)
    carry: Carry | None = None
    slip_m: Rows = field(default_factory=lambda: np.zeros(2))
    """(2,) in m: error of the place at which the held object will be released."""


class BagExpert(Demonstrator):
    """A policy with memory: where objects were last seen, and the phase of each hand.

    `aim_m` is drawn for each object.
    """

    def _prepared(self, episode: ArmEpisode) -> Packing:
        return Packing(**{part.name: getattr(episode, part.name) for part in fields(episode)})

    def _decide(self, episode: ArmEpisode, state: Rows, left: Hand, right: Hand) -> None:
        """Give both hands their goals; hold still when the bag has tipped over."""
        assert isinstance(episode, Packing)
        world = episode.world
        world.sense(state)
        if world.tilt_rad > TIPPED_RAD:
            return
        opened = episode.opener.step(world, left)
        if episode.carry is not None and episode.carry.seeking and world.inside(episode.carry.thing):
            episode.carry = None
        if episode.carry is None:
            # Hidden objects come last: moving to another object uncovers them.
            out = sorted((world.seen_s[thing] == 0.0, thing) for thing in range(3) if not world.inside(thing))
            if not out:
                retreat(right, HOME["right"])
                return
            episode.carry = Carry(thing=out[0][1])
            episode.slip_m = episode.rng.normal(0.0, 1.0, 2) * self._behaviour.aim_m
        thing = episode.carry.thing
        goal = world.at(episode.slip_m[0], SLOTS_M[thing] + episode.slip_m[1], FLOOR_M + THINGS[thing].half_m)
        placed = PlaceGoal(goal_m=goal, turn_rad=float(world.bag[2]), opened=opened)
        if episode.carry.step(world, right, placed) != "going":
            episode.carry = None
