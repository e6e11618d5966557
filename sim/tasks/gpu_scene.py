"""The slot of GPU insertion and the card: a blade 80 mm long and 1.6 mm thick for a slot 81 by 2.4 mm, 8 mm deep.

Lengths are in metres. The origin of the card is the middle of its lower edge, that of the slot the middle of its rim.
"""

from __future__ import annotations

from sim.bimanual.station_model import StationPhysics, scene_xml

SLOT_M = (0.0, 0.32, 0.08)
DEPTH_M = 0.008
CARD_KG = 0.3
FINGER_REACH_M = 0.04
"""Stroke of each finger; wide enough to grasp a flat card across blade and body."""
GRASP_M = 0.058
"""Height of the gripper's point over the lower edge of the card."""
BODY_HALF_M = (0.05, 0.008, 0.03)
_BODY_M = 0.045
_RADIUS_M, _HALF_M = 0.0008, 0.04
_GAP_HALF_M, _END_M = 0.0012, 0.0405


def card_scene_xml(station: StationPhysics) -> str:
    """MJCF of the scene for one station."""
    mass = CARD_KG * station.load
    x, y, z = SLOT_M
    ends = _HALF_M - _RADIUS_M
    edges = "".join(
        f'<geom type="capsule" size="{_RADIUS_M}" fromto="{-ends} 0 {high} {ends} 0 {high}" contype="2" conaffinity="0"'
        f' mass="{0.02 * mass!r}" rgba=".8 .65 .2 1"/>'
        for high in (_RADIUS_M, 0.0075)
    )
    half = " ".join(str(v) for v in BODY_HALF_M)
    bodies = f"""
    <body name="board" pos="{x} {y} {z}">
      <geom type="box" size="0.11 0.07 0.035" pos="0 0 -0.0445" contype="0" conaffinity="7" rgba=".1 .3 .2 1"/>
      <geom type="box" size="0.12 0.08 0.03" pos="0 0 -0.05" contype="0" conaffinity="7" rgba=".6 .62 .66 1"/>
      {_walls()}
    </body>
    <body name="card" pos="{x} {y} 0.1">
      <joint name="card" type="free" armature="0.0001" damping="0.0005"/>
      {edges}
      <geom class="drawn" type="box" size="{_HALF_M} {_RADIUS_M} 0.008" pos="0 0 0.008" rgba=".8 .65 .2 1"/>
      <geom type="box" size="{half}" pos="0 0 {_BODY_M}" contype="1" conaffinity="0" mass="{0.96 * mass!r}"
            rgba=".2 .22 .3 1"/>
    </body>"""
    return scene_xml("gpu_insertion", station, bodies)


def _walls() -> str:
    """Two long walls, two short ones, and the floor of the slot."""
    gap, end, half = _GAP_HALF_M, _END_M, DEPTH_M / 2
    look = 'type="box" contype="0" conaffinity="7" rgba=".12 .12 .14 1"'
    return f"""<geom {look} size="{end + 0.004} 0.003 {half}" pos="0 {gap + 0.003} {-half}"/>
      <geom {look} size="{end + 0.004} 0.003 {half}" pos="0 {-gap - 0.003} {-half}"/>
      <geom {look} size="0.002 {gap} {half}" pos="{end + 0.002} 0 {-half}"/>
      <geom {look} size="0.002 {gap} {half}" pos="{-end - 0.002} 0 {-half}"/>
      <geom {look} size="{end + 0.004} 0.006 0.002" pos="0 0 {-DEPTH_M - 0.002}"/>"""
