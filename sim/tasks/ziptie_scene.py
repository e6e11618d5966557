"""The scene of zip-tie cutting: a cutter in its holder, and a feeder whose nozzle presents the tail of a tie.

The cutter has two halves that slide towards each other like parallel pliers; a spring holds them open. The tail is a
rigid strip, welded to the nozzle until it is cut. Lengths are in metres.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim.bimanual.kinematics import turning
from sim.bimanual.station_model import StationPhysics, scene_xml

HOLDER_M = (0.10, 0.27, 0.075)
"""The middle of the holder's rim."""
MOUTH_M = (0.0, 0.36, 0.115)
"""The mouth of the nozzle, nominally; the tail leaves it towards -y."""
TAIL_M = (0.006, 0.045, 0.0016)
"""Width, length and thickness of the tail."""
CUT_AT_M = 0.018
"""Distance of the cut from the mouth; the camera reports this point of the tail."""

COLLAR_M, TIP_M = -0.022, -0.075
"""Heights in the cutter's frame: the collar that rests on the rim of the holder, and the tips of the blades."""
GAP_M = 0.014
"""Gap between the open blades."""
CLOSED_M = 0.0004
"""Gap between the closed blades."""
OPEN_MM, SHUT_MM = 34.0, 34.0 - 1e3 * (GAP_M - CLOSED_M)
"""Outer width of the handles with open and closed blades, as the opening of a gripper that holds them."""
CUTTER_KG = 0.09
GRIP_TURN = (turning(2, np.array([np.pi / 2])) @ turning(1, np.array([np.pi / 2])))[0]
"""(3, 3): the gripper's axes in the frame of an upright cutter: pointing down, fingers along x."""
STRIP_BITS = 8
"""`conaffinity` of a strip that blades can touch; 0 once it is cut."""

_HANDLE_M = (0.004, 0.012, 0.018)
_BLADE_M = (0.003, 0.0025, 0.025)
_PRELOAD_N, _SPRING_N_M = 5.0, 450.0
_HOLE_M = (0.0155, 0.005)
"""Half of the holder's hole; the open blades take 13 by 2.5 mm of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TiePhysics:
    """Physical parameters of cutter and ties in which simulated stations differ."""

    toughness_n: float
    """Force of the blades at which a tail breaks."""
    spring: float
    """Factor on the cutter's spring."""


def draw_tie_physics(seed: int) -> TiePhysics:
    """The cutter and the ties of one station, from its seed."""
    rng = np.random.Generator(np.random.PCG64([seed, 23]))
    return TiePhysics(toughness_n=float(rng.uniform(9.0, 13.0)), spring=float(rng.uniform(0.9, 1.1)))


def ziptie_scene_xml(station: StationPhysics, ties: TiePhysics) -> str:
    """MJCF of the scene for one station."""
    width, length, thick = TAIL_M
    x, y, z = MOUTH_M
    bodies = f"""
    {_holder()}
    <body name="feeder" mocap="true" pos="{x} {y} {z}">
      <geom type="box" size="0.011 0.014 0.008" pos="0 0.015 0" contype="0" conaffinity="12" rgba=".75 .76 .8 1"/>
      <geom class="drawn" type="cylinder" size="0.008 {z / 2}" pos="0 0.04 {-z / 2}" rgba=".6 .62 .66 1"/>
      <geom class="drawn" type="box" size="0.011 0.012 0.008" pos="0 0.04 0" rgba=".6 .62 .66 1"/>
    </body>
    {_cutter(station, ties)}
    <body name="tail" pos="{x} {y} {z}">
      <joint name="tail" type="free" armature="0.000002" damping="0.00001"/>
      <geom name="tail" type="box" size="{width / 2} {length / 2} {thick / 2}" pos="0 {-length / 2} 0" contype="2"
            conaffinity="{STRIP_BITS}" mass="0.006" rgba=".05 .75 .15 1"/>
    </body>"""
    weld = '<weld name="tail" body1="feeder" body2="tail" solref="0.0085 1"/>'
    touch = "".join(f'<touch name="{name}_blade" site="{name}_blade"/>' for name in ("near", "far"))
    return scene_xml("ziptie_cutting", station, bodies, weld, touch)


def _holder() -> str:
    """A block with a hole in which the blades hang; the collars rest on its rim."""
    x, y, z = HOLDER_M
    (wide, deep), half = _HOLE_M, 0.022
    look = 'type="box" contype="0" conaffinity="7" rgba=".35 .4 .5 1"'
    return f"""<body name="holder" pos="{x} {y} {z}">
      <geom {look} size="0.004 0.02 {half}" pos="{wide + 0.004} 0 {-half}"/>
      <geom {look} size="0.004 0.02 {half}" pos="{-wide - 0.004} 0 {-half}"/>
      <geom {look} size="{wide} 0.008 {half}" pos="0 {deep + 0.008} {-half}"/>
      <geom {look} size="{wide} 0.008 {half}" pos="0 {-deep - 0.008} {-half}"/>
    </body>"""


def _cutter(station: StationPhysics, ties: TiePhysics) -> str:
    """Two halves on a slide; the spring is preloaded when they are open."""
    x, y, z = HOLDER_M
    travel = GAP_M - CLOSED_M
    stiff = ties.spring * _SPRING_N_M
    joint = (
        f'<joint name="blades" type="slide" axis="-1 0 0" range="0 {travel!r}" stiffness="{stiff!r}" '
        f'springref="{-_PRELOAD_N / _SPRING_N_M!r}" damping="20" armature="1" solreflimit="0.0085 1" '
        'solimplimit="0.995 0.9995 0.0005"/>'
    )
    return f"""<body name="cutter" pos="{x} {y} {z - COLLAR_M}">
      <joint name="cutter" type="free" armature="0.0001" damping="0.0005"/>
      {_half(-1, "near", station)}
      <body name="slider">{joint}{_half(1, "far", station)}</body>
    </body>"""


def _half(sign: int, name: str, station: StationPhysics) -> str:
    mass = 0.5 * CUTTER_KG * station.load
    handle, blade = (" ".join(str(v) for v in size) for size in (_HANDLE_M, _BLADE_M))
    out = 5e-4 * OPEN_MM - _HANDLE_M[0]
    edge = GAP_M / 2 + _BLADE_M[0]
    middle = TIP_M + _BLADE_M[2]
    return f"""<geom type="box" size="{handle}" pos="{sign * out} 0 0" contype="1" conaffinity="0"
            mass="{0.6 * mass!r}" rgba=".8 .15 .1 1"/>
      <geom type="box" size="0.007 0.009 0.003" pos="{sign * 0.0125} 0 {COLLAR_M + 0.003}" contype="2" conaffinity="0"
            mass="{0.1 * mass!r}" rgba=".2 .2 .22 1"/>
      <geom type="box" size="{blade}" pos="{sign * edge} 0 {middle}" contype="10" conaffinity="0"
            mass="{0.3 * mass!r}" rgba=".55 .57 .6 1"/>
      <site name="{name}_blade" type="box" size="0.006 0.006 {_BLADE_M[2] + 0.002}" pos="{sign * edge} 0 {middle}"
            rgba="0 0 0 0"/>"""
