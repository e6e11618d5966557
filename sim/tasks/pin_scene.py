"""The pin scene: a Cartesian gripper holds a 3.4 mm pin over a board with a 4 mm hole, 8 mm deep.

Lengths in this file are metres. The origin is the centre of the hole at the height of its rim; with an upright, centred
grasp the three slide joints are the position of the pin's tip.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

PIN_LENGTH_M = 0.022
"""Length from the grasp (where the pin can tilt) to the tip."""
HOLE_DEPTH_M = 0.008
SUBSTEPS = 8
STEP_S = 1.0 / 240.0

_EDGE_M, _EDGE_RADIUS_M = 0.0016, 0.0001
"""Contact edges of the pin: four thin capsules, 1.6 mm off its axis; their outside is the 1.7 mm radius of the pin."""
_SOFTER = 0.4
"""Lateral over vertical servo gain; so low that a pin pressed on the rim sticks there and does not slide in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StationPhysics:
    """Physical parameters in which simulated stations differ; drawn once from the rig's seed."""

    friction: float
    mass_kg: float
    gravity_compensation: float
    """Share of the weight that the controller compensates; 1.0 is exact."""
    gain_n_s_m: float
    """Gain of the vertical velocity servo; the lateral ones are softer, as in an insertion controller."""
    latency_substeps: int
    """Physics steps (240 Hz, 8 in a period) before a command takes effect."""
    bias_m: tuple[float, float, float]
    """Constant error of the sensed tip position."""


def draw_station_physics(seed: int) -> StationPhysics:
    """The physical parameters of one station, from its seed."""
    rng = np.random.Generator(np.random.PCG64([seed, 7]))
    return StationPhysics(
        friction=float(rng.uniform(0.7, 0.9)),
        mass_kg=float(rng.uniform(0.36, 0.44)),
        gravity_compensation=float(rng.uniform(0.995, 1.005)),
        gain_n_s_m=float(rng.uniform(270.0, 330.0)),
        latency_substeps=int(rng.integers(0, 5)),
        bias_m=tuple(float(v) for v in rng.normal(0.0, 0.02e-3, 3)),  # type: ignore[arg-type]
    )


def scene_xml(station: StationPhysics) -> str:
    """MJCF of the scene for one station."""
    return f"""
<mujoco model="pin_insertion">
  <compiler angle="radian" autolimits="true"/>
  <option timestep="{STEP_S!r}" integrator="implicitfast" solver="Newton" cone="pyramidal" jacobian="dense"
          impratio="10" iterations="20" tolerance="1e-8"/>
  <visual><headlight ambient=".45 .45 .45" diffuse=".5 .5 .5"/><map znear=".005" zfar="20"/></visual>
  <statistic extent="0.1" center="0 0 0.01"/>
  <default>
    <geom solref="0.0085 1" solimp="0.95 0.99 0.0002" friction="{station.friction!r} 0.005 0.0001" condim="3"/>
    <default class="drawn"><geom contype="0" conaffinity="0" mass="0"/></default>
    <default class="edge">
      <geom type="capsule" size="{_EDGE_RADIUS_M!r}" contype="1" conaffinity="2" mass="0.0005" rgba=".8 .8 .85 1"/>
    </default>
    <default class="board"><geom type="box" contype="2" conaffinity="1" rgba=".25 .42 .36 1"/></default>
    <default class="slide"><joint type="slide" armature="1.0" damping="0"/></default>
    <default class="tilt">
      <joint type="hinge" stiffness="1.3" damping="0.02" armature="0.0001" range="-0.4 0.4"/>
    </default>
  </default>
  <asset>
    <texture type="skybox" builtin="gradient" rgb1=".72 .77 .83" rgb2=".3 .34 .4" width="32" height="192"/>
  </asset>
  <worldbody>
    <light pos="0.05 -0.1 0.3" dir="-.15 .3 -1" diffuse=".6 .6 .6"/>
    <camera name="top" pos="0 -0.04 0.075" xyaxes="1 0 0 0 0.88 0.47" fovy="45"/>
    <camera name="side" pos="0.08 0 0.02" xyaxes="0 1 0 -0.08 0 1" fovy="48"/>
    <body name="board">
      {_board()}
    </body>
    <body name="gripper" pos="0 0 {PIN_LENGTH_M!r}" gravcomp="{station.gravity_compensation!r}">
      <inertial pos="0 0 0.02" mass="{station.mass_kg!r}" diaginertia="0.0002 0.0002 0.0002"/>
      <joint name="x" class="slide" axis="1 0 0" range="-0.03 0.03"/>
      <joint name="y" class="slide" axis="0 1 0" range="-0.03 0.03"/>
      <joint name="z" class="slide" axis="0 0 1" range="-0.012 0.05"/>
      <geom class="drawn" type="box" size="0.003 0.004 0.006" pos="0.0055 0 0.004" rgba=".2 .2 .22 1"/>
      <geom class="drawn" type="box" size="0.003 0.004 0.006" pos="-0.0055 0 0.004" rgba=".2 .2 .22 1"/>
      <geom class="drawn" type="box" size="0.012 0.006 0.004" pos="0 0 0.014" rgba=".35 .35 .4 1"/>
      <body name="pin" gravcomp="1">
        <joint name="tilt_x" class="tilt" axis="1 0 0"/>
        <joint name="tilt_y" class="tilt" axis="0 1 0"/>
        <geom class="drawn" type="cylinder" size="0.0016" fromto="0 0 0.004 0 0 {-PIN_LENGTH_M!r}" rgba=".85 .8 .6 1"/>
        {_edges()}
      </body>
    </body>
  </worldbody>
  <actuator>
    {_servos(station.gain_n_s_m)}
  </actuator>
</mujoco>"""


def _board() -> str:
    """Four walls around a square hole 4 mm wide, and its floor; wider than any tip can reach."""
    wide, half, depth = 0.045, 0.002, HOLE_DEPTH_M / 2
    side = (wide - half) / 2
    return f"""<geom class="board" size="{side} {wide} {depth}" pos="{half + side} 0 {-depth}"/>
      <geom class="board" size="{side} {wide} {depth}" pos="{-half - side} 0 {-depth}"/>
      <geom class="board" size="{half} {side} {depth}" pos="0 {half + side} {-depth}"/>
      <geom class="board" size="{half} {side} {depth}" pos="0 {-half - side} {-depth}"/>
      <geom class="board" size="{wide} {wide} 0.002" pos="0 0 {-HOLE_DEPTH_M - 0.002}" rgba=".12 .2 .18 1"/>"""


def _edges() -> str:
    tip = -PIN_LENGTH_M + _EDGE_RADIUS_M
    places = ((_EDGE_M, 0.0), (-_EDGE_M, 0.0), (0.0, _EDGE_M), (0.0, -_EDGE_M))
    return "\n        ".join(f'<geom class="edge" fromto="{x} {y} -0.002 {x} {y} {tip!r}"/>' for x, y in places)


def _servos(gain_n_s_m: float) -> str:
    gains = {"x": _SOFTER * gain_n_s_m, "y": _SOFTER * gain_n_s_m, "z": gain_n_s_m}
    return "\n    ".join(f'<velocity joint="{a}" kv="{kv!r}" forcerange="-10 10"/>' for a, kv in gains.items())
