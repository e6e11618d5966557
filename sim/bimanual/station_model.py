"""The MJCF model of a two-arm station: table, arms, grippers, three cameras, servos. A task adds its bodies.

A PD servo moves each joint to a set point at every physics step (240 Hz). The set point is the integral of the
commanded speed, and gravity is compensated, as in the controller of a real arm. Lengths are in metres.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim.bimanual.kinematics import AXES, BASES_M, JOINTS, OFFSETS_M, RANGES_RAD, SIDES, TOOL_M, TURNED, Side

SUBSTEPS = 8
STEP_S = 1.0 / 240.0
FINGER_REACH_M = 0.026
"""Stroke of each finger."""
SQUEEZE_N = 30.0
"""Largest force of a finger pad: the gripper's torque limit."""
TORQUES_NM = (40.0, 40.0, 30.0, 12.0, 12.0, 8.0)
TOP_M, TOP_AXES, TOP_FOVY_DEG = (0.0, 0.12, 0.62), (1.0, 0.0, 0.0, 0.0, 0.95, 0.3), 55.0
"""The camera over the table: position, its axes to the right and up, and its angle of view."""
WRIST_M, WRIST_AXES, WRIST_FOVY_DEG = (0.01, 0.0, 0.06), (0.0, 1.0, 0.0, -0.35, 0.0, -0.94), 70.0
"""The camera on a wrist, in the frame of the last link."""
_STIFF_NM_RAD = (500.0, 500.0, 350.0, 90.0, 90.0, 50.0)
_DAMP_NM_S_RAD = (28.0, 28.0, 17.0, 3.2, 3.2, 1.6)
_ARMATURE = (0.12, 0.12, 0.08, 0.02, 0.02, 0.01)
_MASSES_KG = (1.2, 1.0, 0.5, 0.35, 0.3)
"""Masses of the links; the last one carries the gripper."""
GRIPPER_KG = 0.28
"""Mass of the last link with palm and fingers, which the wrist's force sensor carries."""
_FINGER_KG = 0.03


@dataclass(frozen=True, slots=True, kw_only=True)
class StationPhysics:
    """Physical parameters in which simulated stations differ; drawn once from the rig's seed."""

    grip: float
    """Friction coefficient of the finger pads."""
    friction: float
    """Friction coefficient of everything else."""
    stiffness: float
    """Factor on the stiffness of the servos."""
    load: float
    """Factor on the mass of the objects."""
    gravity_compensation: float
    latency_substeps: int
    """Physics steps (240 Hz, 8 in a period) before a command takes effect."""
    bias_mm: tuple[float, float, float]
    """Constant error of the camera's calibration, per axis."""
    finger_reach_m: float = FINGER_REACH_M
    """Stroke of each finger; a task may set a longer one."""
    torques_nm: tuple[float, ...] = TORQUES_NM
    """Largest torque of each joint of an arm; a task may set lower limits."""


def draw_station_physics(seed: int) -> StationPhysics:
    """The physical parameters of one station, from its seed."""
    rng = np.random.Generator(np.random.PCG64([seed, 17]))
    bias_x, bias_y, bias_z = (float(v) for v in rng.normal(0.0, 0.03, 3))
    return StationPhysics(
        grip=float(rng.uniform(1.0, 1.3)),
        friction=float(rng.uniform(0.25, 0.4)),
        stiffness=float(rng.uniform(0.9, 1.1)),
        load=float(rng.uniform(0.85, 1.15)),
        gravity_compensation=float(rng.uniform(0.99, 1.01)),
        latency_substeps=int(rng.integers(0, 5)),
        bias_mm=(bias_x, bias_y, bias_z),
    )


def scene_xml(name: str, station: StationPhysics, bodies: str, constraints: str = "", sensors: str = "") -> str:
    """MJCF of a task's scene: the station with the task's `bodies`, equality `constraints` and `sensors`.

    Collision bits: 1 objects that pads may grip, 2 edges that meet fixtures, 4 pads. The table collides with all.
    """
    return f"""
<mujoco model="{name}">
  <compiler angle="radian" autolimits="true"/>
  <option timestep="{STEP_S!r}" integrator="implicitfast" solver="Newton" cone="pyramidal" jacobian="dense"
          impratio="10" iterations="100" tolerance="1e-8"/>
  <visual><headlight ambient=".4 .4 .4" diffuse=".4 .4 .4"/><map znear=".01" zfar="20"/></visual>
  <statistic extent="0.6" center="0 0.25 0.1"/>
  <default>
    <geom solref="0.0085 1" solimp="0.95 0.99 0.0002" friction="{station.friction!r} 0.005 0.0001"/>
    <default class="drawn"><geom contype="0" conaffinity="0" mass="0"/></default>
    <default class="pad">
      <geom type="box" contype="4" conaffinity="1" friction="{station.grip!r} 0.01 0.0001" priority="1"
            solimp="0.995 0.9995 0.0005" rgba=".15 .15 .17 1"/>
    </default>
  </default>
  <asset>
    <texture type="skybox" builtin="gradient" rgb1=".72 .77 .83" rgb2=".3 .34 .4" width="32" height="192"/>
  </asset>
  <worldbody>
    <light pos="0.2 -0.2 1.2" dir="-.15 .3 -1" diffuse=".45 .45 .45"/>
    {_camera("top", TOP_M, TOP_AXES, TOP_FOVY_DEG)}
    <geom type="box" size="0.6 0.45 0.02" pos="0 0.2 -0.02" contype="0" conaffinity="7" rgba=".82 .8 .76 1"/>
    {"".join(_arm(side, station) for side in SIDES)}
    {bodies}
  </worldbody>
  <equality>
    {"".join(f'<joint joint1="{s}_near" joint2="{s}_far" solref="0.004 1"/>' for s in SIDES)}
    {constraints}
  </equality>
  <actuator>{"".join(_servos(side, station) for side in SIDES)}</actuator>
  <sensor>{"".join(f'<force name="{side}_force" site="{side}_wrist"/>' for side in SIDES)}{sensors}</sensor>
</mujoco>"""


def _arm(side: Side, station: StationPhysics) -> str:
    """One arm: a chain of links drawn as capsules, then the gripper."""
    x, y, _ = BASES_M[side]
    comp = f'gravcomp="{station.gravity_compensation!r}"'
    opened = [
        f'<body name="{side}_base" pos="{x} {y} 0" euler="0 0 {float(TURNED[side])!r}">'
        '<geom class="drawn" type="cylinder" size="0.05 0.03" pos="0 0 0.03" rgba=".3 .3 .33 1"/>'
    ]
    for joint in range(JOINTS):
        offset, axis = OFFSETS_M[joint], AXES[joint]
        low, high = RANGES_RAD[joint]
        opened.append(
            f'<body name="{side}_{joint}" pos="{offset[0]} {offset[1]} {offset[2]}" {comp}>'
            f'<joint name="{side}_{joint}" axis="{" ".join(str(int(axis == a)) for a in range(3))}" '
            f'range="{low} {high}" armature="{_ARMATURE[joint]}" damping="0.05"/>'
        )
        if joint < JOINTS - 1:
            opened.append(_link(joint))
    opened.append(_gripper(side, comp, station.finger_reach_m))
    return "".join(opened) + "</body>" * (JOINTS + 1)


def _link(joint: int) -> str:
    end = " ".join(str(v) for v in OFFSETS_M[joint + 1])
    shade = ".85 .5 .15 1" if joint in (1, 2, 3) else ".3 .3 .33 1"
    return (
        f'<geom type="capsule" contype="0" conaffinity="0" size="{0.032 - 0.003 * joint:.3f}" fromto="0 0 0 {end}" '
        f'mass="{_MASSES_KG[joint]}" rgba="{shade}"/>'
    )


def _gripper(side: Side, comp: str, reach_m: float) -> str:
    palm = GRIPPER_KG - 2 * _FINGER_KG
    fingers = "".join(
        f'<body name="{side}_{name}" pos="{TOOL_M} 0 0" {comp}>'
        f'<joint name="{side}_{name}" type="slide" axis="0 {sign} 0" range="0 {reach_m!r}" '
        f'armature="1.0" damping="1"/>'
        f'<geom class="pad" size="0.012 0.004 0.011" pos="0 {sign * 0.004} 0" mass="{_FINGER_KG}"/>'
        f'<geom class="drawn" type="box" size="0.03 0.003 0.008" pos="-0.03 {sign * 0.008} 0" '
        f'rgba=".45 .45 .5 1"/></body>'
        for name, sign in (("near", 1), ("far", -1))
    )
    return (
        f'<site name="{side}_wrist" pos="0 0 0"/>'
        f"{_camera(f'{side}_wrist', WRIST_M, WRIST_AXES, WRIST_FOVY_DEG)}"
        f'<geom type="box" contype="0" conaffinity="0" size="0.022 {reach_m + 0.01:.3f} 0.02" pos="0.025 0 0" '
        f'mass="{palm}" rgba=".35 .35 .4 1"/>{fingers}'
    )


def _camera(name: str, at_m: tuple[float, ...], axes: tuple[float, ...], fovy_deg: float) -> str:
    at, turned = (" ".join(str(v) for v in numbers) for numbers in (at_m, axes))
    return f'<camera name="{name}" pos="{at}" xyaxes="{turned}" fovy="{fovy_deg}"/>'


def _servos(side: Side, station: StationPhysics) -> str:
    """Servos of one arm: speed commands integrate to a set point; the two fingers are coupled and have one servo."""
    arms = "".join(
        f'<intvelocity joint="{side}_{joint}" kp="{station.stiffness * _STIFF_NM_RAD[joint]!r}" '
        f'kv="{_DAMP_NM_S_RAD[joint]}" actrange="{RANGES_RAD[joint][0]} {RANGES_RAD[joint][1]}" '
        f'forcerange="{-station.torques_nm[joint]} {station.torques_nm[joint]}"/>'
        for joint in range(JOINTS)
    )
    grip = (
        f'kp="4000" kv="180" actrange="-0.03 {station.finger_reach_m!r}" forcerange="{-2 * SQUEEZE_N} {2 * SQUEEZE_N}"'
    )
    return arms + f'<intvelocity joint="{side}_near" {grip}/>'
