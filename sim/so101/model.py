"""MJCF of an SO-101 arm of primitive shapes, and the physics in which simulated arms differ.

Joint frames, ranges, masses and the torque of the servos are those of the public model; the shapes are only drawn,
except for what the jaws hold. Each frame is parallel to the world's when all joints are at zero.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sim.so101.kinematics import (
    FINGER_M,
    FOREARM_M,
    JAW_RAD,
    JAWS_DOWN_M,
    JAWS_M,
    JOINTS,
    PAN_M,
    RANGES_DEG,
    ROLL_M,
    SHOULDER_M,
    UPPER_M,
)

SUBSTEPS = 8
STEP_S = 1.0 / 240.0
_FINGER_HALF_M = 0.034
_FINGER_AT = f"{JAWS_M + FINGER_M - _FINGER_HALF_M:.4f} 0 {-JAWS_DOWN_M - 0.008:.4f}"
STALL_NM = 1.91
"""Largest torque of a servo (STS3215 at 7.4 V)."""
_PAN_UP_M = 0.0624


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmPhysics:
    """Physical parameters in which simulated arms differ; drawn once from the rig's seed."""

    gain_nm_rad: float
    """Stiffness of a servo. As in a real arm, it is so low that the arm sags by about a degree."""
    friction: float
    latency_substeps: int
    """Physics steps (240 Hz, 8 in a period) before a command takes effect."""
    bias_deg: tuple[float, ...]
    """Constant error of each joint's angle: the arm was calibrated by hand."""


def draw_arm_physics(seed: int) -> ArmPhysics:
    """The physical parameters of one arm, from its seed."""
    rng = np.random.Generator(np.random.PCG64([seed, 101]))
    return ArmPhysics(
        gain_nm_rad=float(rng.uniform(50.0, 70.0)),
        friction=float(rng.uniform(0.2, 0.5)),
        latency_substeps=int(rng.integers(0, 5)),
        bias_deg=tuple(float(v) for v in rng.normal(0.0, 0.3, len(JOINTS))),
    )


def defaults(arm: ArmPhysics) -> str:
    """The `default` elements of the arm."""
    return f"""
    <geom friction="{arm.friction!r} 0.005 0.0001" solref="0.0085 1"/>
    <default class="drawn"><geom contype="0" conaffinity="0" mass="0" rgba=".95 .78 .2 1"/></default>
    <default class="servo">
      <joint type="hinge" damping="0.6" frictionloss="0.05" armature="0.028"/>
      <position kp="{arm.gain_nm_rad!r}" kv="2" forcerange="{-STALL_NM} {STALL_NM}"/>
    </default>"""


def arm_body(held: str, jaw_low_rad: float) -> str:
    """The bodies of the arm.

    Args:
        held: geoms between the jaws, in a frame whose origin is there, parallel to the hand.
        jaw_low_rad: how far the jaw closes; more than at 0 % when something is between the jaws.
    """
    dark = 'rgba=".12 .12 .13 1"'
    return f"""
    <geom class="drawn" type="box" size="0.045 0.04 0.03" pos="0.01 0 0.03"/>
    <body name="shoulder" pos="{PAN_M} 0 {_PAN_UP_M}">
      {_joint(0, "0 0 -1")}
      {_mass(0.1, "0.03 0 0.025")}
      <geom class="drawn" type="box" size="0.022 0.025 0.028" pos="0.022 0 0.03" {dark}/>
      <body name="upper_arm" pos="{SHOULDER_M[0]} 0 {SHOULDER_M[1] - _PAN_UP_M:.4f}">
        {_joint(1, "0 1 0")}
        {_mass(0.103, "0.008 0 0.09")}
        <geom class="drawn" type="capsule" size="0.016" fromto="0 0 0 {UPPER_M[0]} 0 {UPPER_M[1]}"/>
        <body name="lower_arm" pos="{UPPER_M[0]} 0 {UPPER_M[1]}">
          {_joint(2, "0 1 0")}
          {_mass(0.104, "0.098 0 0.003")}
          <geom class="drawn" type="box" size="0.013 0.02 0.018" {dark}/>
          <geom class="drawn" type="capsule" size="0.014" fromto="0 0 0 {FOREARM_M[0]} 0 {FOREARM_M[1]}"/>
          <body name="wrist" pos="{FOREARM_M[0]} 0 {FOREARM_M[1]}">
            {_joint(3, "0 1 0")}
            {_mass(0.079, "0.039 0 0")}
            <geom class="drawn" type="box" size="0.03 0.018 0.016" pos="0.03 0 0" {dark}/>
            <body name="hand" pos="{ROLL_M} 0 0">
              {_joint(4, "-1 0 0")}
              {_mass(0.087, "0.025 0 0")}
              <geom class="drawn" type="box" size="0.022 0.02 0.016" pos="0.022 0 0"/>
              <geom class="drawn" type="box" size="{_FINGER_HALF_M} 0.01 0.004" pos="{_FINGER_AT}"/>
              <body name="held" pos="{JAWS_M} 0 {-JAWS_DOWN_M}">{held}</body>
              <body name="jaw" pos="0.0234 0.0188 0.0202">
                <joint name="gripper" class="servo" axis="0 -1 0" range="{jaw_low_rad!r} {JAW_RAD[1]}"/>
                {_mass(0.012, "0.03 -0.0188 0")}
                <geom class="drawn" type="box" size="0.042 0.01 0.004" pos="0.04 -0.0188 -0.012"/>
              </body>
            </body>
          </body>
        </body>
      </body>
    </body>"""


def servos() -> str:
    """The actuators: a position in rad for each joint and for the jaw."""
    names = (*JOINTS, "gripper")
    return "\n    ".join(f'<position class="servo" name="{name}" joint="{name}"/>' for name in names)


def _joint(number: int, axis: str) -> str:
    low, high = (math.radians(limit) for limit in RANGES_DEG[number])
    return f'<joint name="{JOINTS[number]}" class="servo" axis="{axis}" range="{low!r} {high!r}"/>'


def _mass(mass_kg: float, at_m: str) -> str:
    inertia = 0.0005 * mass_kg
    return f'<inertial pos="{at_m}" mass="{mass_kg}" diaginertia="{inertia!r} {inertia!r} {inertia!r}"/>'
