"""The scene of bag packing: a bag of panels with a flap that a spring shuts, and a block, a can and a bar.

Lengths are in metres. The origin of the bag is the middle of its underside. It stands free on four feet.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim.bimanual.kinematics import Rows
from sim.bimanual.station_model import StationPhysics, scene_xml

INNER_M = (0.052, 0.085)
"""Half the inner width of the bag, in x and y."""
FLOOR_M, RIM_M = 0.010, 0.062
WALL_HALF_M = 0.003
BAG_KG, FLAP_KG = 0.8, 0.04
HINGE_M = (-0.055, 0.0, 0.064)
"""Hinge of the flap, which turns about y; at 0 rad it covers the opening."""
FLAP_HALF_M = (0.055, 0.085, 0.002)
FLAP_RANGE_RAD = (0.0, 2.2)
KNOB_M = (0.095, 0.025)
"""Position of the knob on the shut flap: distance from the hinge, and height above it."""
KNOB_MM = 18.0
SLOTS_M = (-0.05, 0.0, 0.05)
"""Place of each object in the bag, along y."""
HANDLE_M = (-0.077, 0.0, 0.036)
HANDLE_MM = 6.0
"""Width of the handle between the pads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Thing:
    """One object to pack."""

    name: str
    shape: str
    """Type and size of its geom."""
    width_mm: float
    """Width between the pads that hold it."""
    length_mm: float
    """Width across its other two sides."""
    half_m: float
    """Half its height when it stands."""
    mass_kg: float
    colour: str


THINGS = (
    Thing(name="block", shape='type="box" size="0.014 0.014 0.014"', width_mm=28.0, length_mm=28.0, half_m=0.014,
          mass_kg=0.06, colour=".85 .25 .2 1"),
    Thing(name="can", shape='type="cylinder" size="0.014 0.013"', width_mm=28.0, length_mm=28.0, half_m=0.013,
          mass_kg=0.08, colour=".2 .5 .85 1"),
    Thing(name="bar", shape='type="box" size="0.01 0.02 0.01"', width_mm=20.0, length_mm=40.0, half_m=0.010,
          mass_kg=0.05, colour=".25 .7 .3 1"),
)  # fmt: skip


def walls() -> tuple[Rows, Rows]:
    """(middles, half sizes) in m of the four walls in the frame of the bag, (4, 3) each."""
    (x, y), thick, high = INNER_M, WALL_HALF_M, 0.5 * (RIM_M - FLOOR_M)
    middle = FLOOR_M + high
    across, along = x + thick, y + thick
    middles = [[across, 0.0, middle], [-across, 0.0, middle], [0.0, along, middle], [0.0, -along, middle]]
    halves = [[thick, along + thick, high]] * 2 + [[across + thick, thick, high]] * 2
    return np.array(middles), np.array(halves)


def bag_scene_xml(station: StationPhysics) -> str:
    """MJCF of the scene for one station."""
    things = "".join(
        f'<body name="{thing.name}" pos="0.1 {0.2 + 0.1 * number} {thing.half_m}">'
        # Without damping, a can that lies would roll off the table.
        '<joint type="free" damping="0.001"/>'
        f'<geom {thing.shape} contype="1" conaffinity="1" mass="{thing.mass_kg * station.load!r}" '
        f'rgba="{thing.colour}"/></body>'
        for number, thing in enumerate(THINGS)
    )
    return scene_xml("bag_packing", station, _bag(station) + things)


def _bag(station: StationPhysics) -> str:
    mass = BAG_KG * station.load
    x, y = INNER_M[0] + 2 * WALL_HALF_M, INNER_M[1] + 2 * WALL_HALF_M
    cloth = 'type="box" contype="0" conaffinity="5" rgba=".75 .6 .4 1"'
    sides = "".join(
        f'<geom {cloth} size="{_numbers(half)}" pos="{_numbers(middle)}" mass="{0.1 * mass!r}"/>'
        for middle, half in zip(*walls(), strict=True)
    )
    feet = "".join(
        f'<geom type="sphere" size="0.004" pos="{sx * (x - 0.004)} {sy * (y - 0.004)} 0.004" contype="2" '
        f'conaffinity="0" mass="0.001" rgba=".2 .2 .2 1"/>'
        for sx in (-1, 1)
        for sy in (-1, 1)
    )
    half, (along, up) = FLAP_HALF_M, KNOB_M
    return f"""
    <body name="bag" pos="-0.07 0.3 0">
      <freejoint/>
      {feet}{sides}
      <geom {cloth} size="{x} {y} 0.003" pos="0 0 {FLOOR_M - 0.003}" mass="{0.55 * mass!r}"/>
      <geom type="box" size="0.013 {0.5e-3 * HANDLE_MM!r} 0.016" pos="{_numbers(HANDLE_M)}" contype="1" conaffinity="0"
            mass="0.01" rgba=".3 .3 .3 1"/>
      <body name="flap" pos="{_numbers(HINGE_M)}">
        <joint name="flap" axis="0 -1 0" range="{FLAP_RANGE_RAD[0]} {FLAP_RANGE_RAD[1]}" stiffness="0.025"
               springref="-0.6" damping="0.012" armature="0.0001"/>
        <geom {cloth} size="{_numbers(half)}" pos="{half[0]} 0 0" mass="{FLAP_KG}"/>
        <geom class="drawn" type="capsule" size="0.003" fromto="{along} 0 0 {along} 0 {up}" rgba=".3 .3 .3 1"/>
        <geom type="sphere" size="{0.5e-3 * KNOB_MM}" pos="{along} 0 {up}" contype="1" conaffinity="0" mass="0.005"
              rgba=".9 .8 .2 1"/>
      </body>
    </body>"""


def _numbers(values: object) -> str:
    return " ".join(repr(float(value)) for value in np.asarray(values, dtype=np.float64))
