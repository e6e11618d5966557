"""The simulated rig of bag packing: two cameras that track the objects, the bag and its flap, and ground truth.

Each camera reports where it last saw an object. While the bag, the flap, an arm or the edge of the image hides it, its
estimate stays as it is. The noise of the cameras depends on the light of the episode.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from enpire.types import Bounds, Start, TaskSpec
from sim.bimanual.kinematics import JOINTS, SIDES, Rows
from sim.bimanual.rig import ARMS, ARMS_STATE, SENSOR_NOISE, BimanualRig
from sim.bimanual.station_model import FINGER_REACH_M, draw_station_physics
from sim.bimanual.visibility import behind_balls, behind_boxes, in_picture, into
from sim.rig import LaneArray
from sim.scene import Scene
from sim.tasks.bag_scene import FLAP_HALF_M, FLOOR_M, INNER_M, RIM_M, THINGS, bag_scene_xml, walls
from sim.truth import Truth

View = Literal["top", "left_wrist"]
VIEWS: tuple[View, View] = ("top", "left_wrist")

BAG = slice(ARMS_STATE, ARMS_STATE + 3)
"""Columns of the bag in a state row: x, y (mm), yaw (rad)."""
TILT, FLAP = BAG.stop, BAG.stop + 1
"""Columns of the bag's tilt and of the angle of its flap (rad)."""
_EACH = 9
_PLACE_MM, _TURN_RAD = 0.5, 0.015
"""Standard deviations of an object's estimated position (times 0.5 to 2 by the light) and direction."""
_LONGEST_S = 1.0
_STUCK_NM, _DRIFT_MM = 1.0, 2.0
_CLEAR_MM = 40.0
"""Height over the rim from which the right gripper counts as away."""
_BAG_NOISE = (0.3, 0.3, 0.003, 0.004, 0.006)


def place_of(view: View, thing: int) -> slice:
    """Columns of the position at which a camera last saw the middle of an object: x, y, z (mm) in the world."""
    first = FLAP + 1 + _EACH * thing + 3 * VIEWS.index(view)
    return slice(first, first + 3)


def seen_of(view: View, thing: int) -> int:
    """Column of the time (s, up to 1) for which a camera has seen an object without interruption; 0: hidden now."""
    return FLAP + 1 + _EACH * thing + 6 + VIEWS.index(view)


def turn_of(thing: int) -> int:
    """Column of the direction (rad, from x) across which pads best hold an object."""
    return FLAP + 1 + _EACH * thing + 8


def _thing_state(name: str) -> tuple[Bounds, ...]:
    limits = {"x": (-500.0, 500.0), "y": (-300.0, 700.0), "z": (-50.0, 450.0)}
    return (
        *(
            Bounds(name=f"{name}_{view}_{axis}_mm", unit="mm", low=low, high=high, sensor_std=_PLACE_MM)
            for view in VIEWS
            for axis, (low, high) in limits.items()
        ),
        *(Bounds(name=f"{name}_{view}_seen_s", unit="s", low=0.0, high=_LONGEST_S) for view in VIEWS),
        Bounds(name=f"{name}_turn_rad", unit="rad", low=-1.8, high=1.8, sensor_std=_TURN_RAD),
    )


STATE = (
    *ARMS,
    Bounds(name="bag_x_mm", unit="mm", low=-500.0, high=500.0, sensor_std=_BAG_NOISE[0]),
    Bounds(name="bag_y_mm", unit="mm", low=-300.0, high=700.0, sensor_std=_BAG_NOISE[1]),
    Bounds(name="bag_yaw_rad", unit="rad", low=-3.3, high=3.3, sensor_std=_BAG_NOISE[2]),
    Bounds(name="bag_tilt_rad", unit="rad", low=-0.1, high=3.3, sensor_std=_BAG_NOISE[3]),
    Bounds(name="flap_rad", unit="rad", low=-0.3, high=2.5, sensor_std=_BAG_NOISE[4]),
    *(bound for thing in THINGS for bound in _thing_state(thing.name)),
    Bounds(name="time_left", unit="1", low=0.0, high=1.0),
)
START_NAMES = (
    "bag_x_mm", "bag_y_mm", "bag_yaw_rad", "block_x_mm", "block_y_mm", "block_turn_rad", "can_x_mm", "can_y_mm",
    "bar_x_mm", "bar_y_mm", "bar_turn_rad",
)  # fmt: skip
HOME = {"left": (0.418, -1.738, 1.964, 0.0, 1.345, 0.418), "right": (-0.111, -1.799, 2.011, 0.0, 1.358, 1.46)}
"""Joints (rad) at the start: each arm over its side of the table, gripper pointing down."""
TIPPED_RAD, GENTLE_N = 0.3, 60.0
"""Ground truth: tilt from which the bag has tipped over, and largest force on a gripper in a success."""
GENTLE_NM = (4.0, 4.5, 4.0, 2.5, 2.5, 1.5)
"""Torque limits of the joints: an arm that stops late yields before `GENTLE_N`."""
NEAR_MM, NEAR_RAD = 8.0, 0.15
"""After a reset by the robot, the clock starts when everything is this near to its start."""

_BAG_QPOS, _FLAP_QPOS = slice(16, 23), 23
_THING_QPOS = tuple(slice(24 + 7 * number, 31 + 7 * number) for number in range(3))
_PLACES = np.array([[where.start, where.start + 1, where.start + 2] for where in _THING_QPOS])
_PALM_M, _FOREARM = 0.06, np.array([0.1, 0.3, 0.5, 0.7, 0.9])
_ARM_RADII_M = np.array([0.034] * 2 + [0.026] * 2 * len(_FOREARM))
"""Occluders: a ball for each palm, and some along each forearm."""
_WIDEST = {"top": np.tan(np.deg2rad(55.0) / 2), "left_wrist": np.tan(np.deg2rad(70.0) / 2)}
_UPPER_SIDE_M = np.array([0.8 * thing.half_m for thing in THINGS])
"""(3,): height over the middle of each object of the point that must be visible."""
_FLAP = np.array([[FLAP_HALF_M[0], 0.0, 0.0], FLAP_HALF_M])
_BOXES = tuple(np.stack([of_walls, np.tile(of_flap, (4, 1))]) for of_walls, of_flap in zip(walls(), _FLAP, strict=True))
"""Middles and half sizes (2, 4, 3) of occluding boxes: the four walls of the bag, and its flap four times."""
_ALIKE_RAD = np.array([0.5, 1.0, 1.0]) * np.pi
"""(3,): rotation after which each object looks the same."""
_NOISE = 5 + 3 + 2 * 3 * 3


def within_bag(bag: Rows, places_mm: Rows) -> Rows:
    """Places (n, k, 3) in mm of the world, in the frame of upright bags (n, 3: x, y in mm, yaw in rad)."""
    off = places_mm[..., :2] - bag[:, None, :2]
    cosine, sine = np.cos(bag[:, None, 2]), np.sin(bag[:, None, 2])
    x, y = cosine * off[..., 0] + sine * off[..., 1], cosine * off[..., 1] - sine * off[..., 0]
    return np.stack([x, y, places_mm[..., 2]], axis=-1)


class BagRig(BimanualRig):
    """Lanes of the bag scene."""

    faults = frozenset({"slipping_gripper", "jammed", "calibration_drift"})

    def __init__(self, spec: TaskSpec, lanes: int, seed: int) -> None:
        """Build the scene of one station; `seed` draws its physics and the errors of its cameras."""
        station = replace(draw_station_physics(seed), torques_nm=GENTLE_NM)
        super().__init__(spec, Scene(bag_scene_xml(station), lanes), station, noise_width=_NOISE)
        rng = np.random.Generator(np.random.PCG64([seed, 29]))
        self._camera_bias = rng.normal(0.0, 0.6, (2, 1, 3))
        self._bag_bias = np.array([*rng.normal(0.0, 0.5, 2), *rng.normal(0.0, 0.003, 3)])
        self._goal = np.zeros((lanes, len(START_NAMES)))
        self._light = np.ones(lanes)
        self._places = np.zeros((lanes, 2, 3, 3))
        self._seen_s = np.zeros((lanes, 2, 3))
        self.remember(goal=self._goal, light=self._light, places=self._places, seen_s=self._seen_s)
        scene, model = self.scene, self.scene.model
        self._eyes = scene.output("cam_xpos")
        self._eye_frames = scene.output("cam_xmat")
        self._eye = [model.camera(view).id for view in VIEWS]
        self._widest = np.tile([_WIDEST[view] for view in VIEWS], lanes)[:, None]
        self._boxes = tuple(np.tile(boxes, (len(VIEWS) * lanes, 1, 1)) for boxes in _BOXES)
        self._wrists, self._wrist_frames = scene.output("site_xpos"), scene.output("site_xmat")
        self._bodies, self._body_frames = scene.output("xpos"), scene.output("xmat")
        self._push, self._flap_dof = scene.applied(), int(model.joint("flap").dofadr[0])
        self._bag, self._flap = model.body("bag").id, model.body("flap").id
        self._forearms = [[model.body(f"{side}_{joint}").id for side in SIDES] for joint in (2, 4)]
        self._things = [model.body(thing.name).id for thing in THINGS]

    def bag(self) -> Rows:
        """(lanes, 5): x, y (mm), yaw, tilt, flap (rad). Ground truth."""
        pose = self.scene.qpos[:, _BAG_QPOS]
        w, x, y, z = pose[:, 3], pose[:, 4], pose[:, 5], pose[:, 6]
        yaw = np.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))
        tilt = np.arccos(np.maximum(1 - 2 * (x * x + y * y), -1.0))
        bag = np.empty((self.lanes, 5))
        bag[:, :2] = 1e3 * pose[:, :2]
        bag[:, 2], bag[:, 3], bag[:, 4] = yaw, tilt, self.scene.qpos[:, _FLAP_QPOS]
        return bag

    def things(self) -> Rows:
        """(lanes, 3, 3): the middle of every object in mm. Ground truth."""
        return 1e3 * self.scene.qpos[:, _PLACES]

    def turns(self) -> Rows:
        """(lanes, 3): direction in rad across which pads best hold each object. Ground truth."""
        frames = self._body_frames[:, self._things].reshape(-1, 3, 3, 3)
        block, can, bar = frames[:, 0], frames[:, 1], frames[:, 2]
        angles = np.zeros((self.lanes, 3))
        # The block: a side that is vertical.
        side = np.where(np.abs(block[:, 2, :1]) < 0.7, block[:, :, 0], block[:, :, 1])
        angles[:, 0] = np.arctan2(side[:, 1], side[:, 0])
        # Can and bar: across their long axes. An upright can has no direction, an upright bar that of its x axis.
        for thing, long in ((1, can[:, :, 2]), (2, bar[:, :, 1])):
            angles[:, thing] = np.arctan2(long[:, 1], long[:, 0]) + 0.5 * np.pi
        angles[:, 1] *= np.abs(can[:, 2, 2]) < 0.7
        upright = np.abs(bar[:, 2, 1]) >= 0.7
        angles[upright, 2] = np.arctan2(bar[upright, 1, 0], bar[upright, 0, 0])
        return wrapped(angles, _ALIKE_RAD)

    def disturb(self, lane: int, kind: str, rng: np.random.Generator) -> None:
        """The pads open a little, the flap sticks, or the camera over the table drifts (for the whole station)."""
        if kind == "slipping_gripper":
            self.arm_setpoints[lane, [JOINTS, 2 * JOINTS + 1]] += rng.uniform(0.5, 1.0) * FINGER_REACH_M
        elif kind == "jammed":
            self._push[lane, self._flap_dof] = -_STUCK_NM
        elif kind == "calibration_drift":
            self._camera_bias[0, 0, :2] += np.sign(self._camera_bias[0, 0, :2]) * _DRIFT_MM
        else:
            super().disturb(lane, kind, rng)

    def _prepare(self, lane: int, start: Start, rng: np.random.Generator) -> None:
        self._goal[lane] = start.values
        self.begin_episode(lane)
        self._light[lane] = rng.uniform(0.5, 2.0)
        self._push[lane] = 0.0
        if not self.teleport:
            return
        goal, qpos = self._goal[lane], self.scene.qpos
        for side in ("left", "right"):
            self.pose_arm(lane, side, np.array(HOME[side]), FINGER_REACH_M)
        qpos[lane, _BAG_QPOS] = [1e-3 * goal[0], 1e-3 * goal[1], 0.0, *_yawed(goal[2])]
        turns = (goal[5], rng.uniform(-np.pi, np.pi), goal[10])
        for thing, (where, at, turn) in enumerate(
            zip(_THING_QPOS, (goal[3:5], goal[6:8], goal[8:10]), turns, strict=True)
        ):
            qpos[lane, where] = [*(1e-3 * at), THINGS[thing].half_m, *_yawed(turn)]
        row = np.array([lane], dtype=np.intp)
        self.scene.forward(row)
        # An object that a camera does not see at first was seen when it was placed.
        self._places[lane], self._seen_s[lane] = self._blurred(row)[0], _LONGEST_S
        self._look(row)

    def _sense(self, noise: LaneArray) -> LaneArray:
        row, drawn = self.sense_arms(noise), noise[:, SENSOR_NOISE:]
        row[:, BAG.start : FLAP + 1] = self.bag() + self._bag_bias + np.array(_BAG_NOISE) * drawn[:, :5]
        things = row[:, FLAP + 1 : -1].reshape(self.lanes, 3, _EACH)
        things[..., :6] = self._places.swapaxes(1, 2).reshape(self.lanes, 3, 6)
        things[..., 6:8] = self._seen_s.swapaxes(1, 2)
        things[..., 8] = self.turns() + _TURN_RAD * drawn[:, 5:8]
        return row

    def _after(self, rows: npt.NDArray[np.intp]) -> None:
        self._look(rows)
        super()._after(rows)

    def _look(self, rows: npt.NDArray[np.intp]) -> None:
        """Update the estimates of the objects that each camera sees now."""
        sees = self._sees(rows)
        longer = np.minimum(self._seen_s[rows] + self.spec.period_s, _LONGEST_S)
        self._seen_s[rows] = np.where(sees, longer, 0.0)
        self._places[rows] = np.where(sees[..., None], self._blurred(rows), self._places[rows])

    def _blurred(self, rows: npt.NDArray[np.intp]) -> Rows:
        """(len(rows), 2, 3, 3) in mm: the estimates that both cameras would give of all objects."""
        drawn = self._noise[rows, self._sensed_at[rows], SENSOR_NOISE + 8 :].reshape(-1, 2, 3, 3)
        blur = _PLACE_MM * self._light[rows, None, None, None] * drawn
        return self.things()[rows][:, None] + self._camera_bias + blur

    def _sees(self, rows: npt.NDArray[np.intp]) -> npt.NDArray[np.bool_]:
        """(len(rows), 2, 3): whether a camera sees the upper side of an object."""
        count = len(VIEWS) * len(rows)
        points = 1e-3 * self.things()[rows]
        points[..., 2] += _UPPER_SIDE_M
        # One row per lane and camera.
        points, arms = np.repeat(points, len(VIEWS), axis=0), np.repeat(self._arm_balls(rows), len(VIEWS), axis=0)
        eye = self._eyes[rows[:, None], self._eye].reshape(-1, 3)
        frames = self._eye_frames[rows[:, None], self._eye].reshape(-1, 3, 3)
        seen = in_picture(eye, frames, points, self._widest[:count]) & ~behind_balls(eye, points, arms, _ARM_RADII_M)
        # Each of those has one row for the walls of the bag and one for its flap.
        lanes, bodies = np.repeat(rows, len(VIEWS))[:, None], [self._bag, self._flap]
        axes = self._body_frames[lanes, bodies].reshape(-1, 3, 3)
        lines = np.concatenate([eye[:, None], points], axis=1)[:, None] - self._bodies[lanes, bodies][:, :, None]
        local = into(axes, lines.reshape(len(axes), -1, 3))
        middles, halves = (boxes[: 2 * count] for boxes in self._boxes)
        hidden = behind_boxes(local[:, 0], local[:, 1:], middles, halves).reshape(count, 2, -1)
        seen &= ~(hidden[:, 0] | hidden[:, 1])
        return seen.reshape(len(rows), len(VIEWS), -1)

    def _arm_balls(self, rows: npt.NDArray[np.intp]) -> Rows:
        """(len(rows), balls, 3) in m: middles of the balls that stand for palms and forearms."""
        frames = self._wrist_frames[rows].reshape(-1, 2, 3, 3)
        palms = self._wrists[rows] + _PALM_M * frames[..., 0]
        elbows, wrists = (self._bodies[rows[:, None], ends] for ends in self._forearms)
        along = elbows[:, :, None] + _FOREARM[:, None] * (wrists - elbows)[:, :, None]
        return np.concatenate([palms, along.reshape(len(rows), -1, 3)], axis=1)

    def _arm_clocks(self, rows: npt.NDArray[np.intp]) -> None:
        rows = rows[~self.running[rows]]
        if not len(rows):
            return
        bag, things, turns, goal = self.bag()[rows], self.things()[rows], self.turns()[rows], self._goal[rows]
        off = np.concatenate(
            [bag[:, :2] - goal[:, :2], things[:, 0, :2] - goal[:, 3:5], things[:, 1, :2] - goal[:, 6:8],
             things[:, 2, :2] - goal[:, 8:10]], axis=1,
        )  # fmt: skip
        turned = np.stack([bag[:, 2] - goal[:, 2], turns[:, 0] - goal[:, 5], turns[:, 2] - goal[:, 10]], axis=1)
        home = [
            np.abs(self.scene.qpos[rows, first : first + JOINTS] - HOME[side]).max(axis=1) < 0.2
            for side, first in (("left", 0), ("right", 8))
        ]
        near = (np.abs(off) < NEAR_MM).all(axis=1) & (np.abs(turned) < NEAR_RAD).all(axis=1)
        self.running[rows] = near & home[0] & home[1]

    def _truth(self, lane: int) -> Truth:
        bag, things = self.bag()[lane], self.things()[lane]
        local = within_bag(bag[None], things[None])[0]
        inside = (np.abs(local[:, :2]) < 1e3 * np.array(INNER_M)).all(axis=1)
        inside &= (local[:, 2] > 1e3 * FLOOR_M) & (local[:, 2] < 1e3 * RIM_M)
        tool = 1e3 * self._tool(lane)
        held = self._pull[lane, 2 * JOINTS + 1] < -10.0 and bool(
            (np.sqrt(((things - tool) ** 2).sum(axis=1)) < 30.0).any()
        )
        hand = within_bag(bag[None], tool[None, None])[0, 0]
        away = bool((np.abs(hand[:2]) > 1e3 * np.array(INNER_M)).any() or hand[2] > 1e3 * RIM_M + _CLEAR_MM)
        tilt, peak_n = float(bag[3]), float(self.peak_n[lane])
        packed = int(inside.sum())
        metrics = {
            "packed": float(packed),
            "tilt_rad": tilt,
            "peak_n": peak_n,
            "held": float(held),
            "away": float(away),
        }
        success = packed == 3 and away and not held and tilt < TIPPED_RAD and peak_n <= GENTLE_N
        return Truth(success=success, metrics=metrics)

    def _tool(self, lane: int) -> Rows:
        """(3,) in m: the point between the pads of the right gripper."""
        return self._wrists[lane, 1] + 0.11 * self._wrist_frames[lane].reshape(2, 3, 3)[1, :, 0]


def _yawed(angle_rad: float) -> tuple[float, float, float, float]:
    return float(np.cos(0.5 * angle_rad)), 0.0, 0.0, float(np.sin(0.5 * angle_rad))


def wrapped(angles_rad: Rows, period_rad: Rows | float) -> Rows:
    """Angles in rad wrapped into half a period around zero."""
    return angles_rad - period_rad * np.round(angles_rad / period_rad)
