"""LeRobot's own robot classes with motors in memory: SO-101, two SO-101 arms as one robot, and LeKiwi.

Only the constructors differ, because they open serial buses. `open_rig` is a driver for station files and guards; its
cameras obey two files in the folder of the option `folder`: `gone` (unplugged) and `stale` (no new frames). The motors
write what they do into the file `motion` there: a line with the time [ns], the largest joint speed [deg/s] and the
distance that the base has rolled [m].
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from lerobot.cameras import CameraConfig
from lerobot.cameras.opencv import OpenCVCamera, OpenCVCameraConfig
from lerobot.motors import Motor, MotorNormMode
from lerobot.robots import Robot
from lerobot.robots.bi_so_follower import BiSOFollower, BiSOFollowerConfig
from lerobot.robots.lekiwi import LeKiwi, LeKiwiConfig
from lerobot.robots.so_follower import SO101FollowerConfig, SOFollower, SOFollowerRobotConfig
from lerobot.utils.errors import DeviceNotConnectedError

from enpire.interfaces import Task
from enpire.types import Bounds, TaskSpec
from robot_drivers.guarded_rig import GuardedRig
from robot_drivers.lerobot_robot import LeRobotRobot
from robot_drivers.safety import Envelope
from robot_drivers.single_lane import SingleLane

JOINTS = ("shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll", "gripper")
WHEELS = ("base_left_wheel", "base_back_wheel", "base_right_wheel")
WHEEL_M_PER_STEP = 0.05 * 2 * math.pi / 4096
"""Distance that a wheel of LeKiwi (radius 0.05 m) rolls per step of its motor."""


class MemoryBus:
    """Motors in memory: joints move to their goals at 60 deg/s, wheels turn at their commanded speed [steps/s]."""

    speed_deg_s = 60.0

    def __init__(self, names: tuple[str, ...], motion: Path | None = None) -> None:
        self.motors = {name: Motor(i + 1, "sts3215", MotorNormMode.DEGREES) for i, name in enumerate(names)}
        self.present = {name: 0.0 for name in names if name not in WHEELS}
        self.goal = dict(self.present)
        self.speed = {name: 0.0 for name in names if name in WHEELS}
        self.rolled_m = 0.0
        self.torque = True
        self.is_connected = self.is_calibrated = False
        self.dead_reads = self.dead_writes = 0
        """How many of the next calls fail, as on a corrupt packet."""
        self._motion = motion
        self._lock = threading.Lock()
        self._seen_s = time.monotonic()

    def connect(self, handshake: bool = True) -> None:
        if self.is_connected:
            raise ConnectionError("the port is already open")
        self.is_connected = self.is_calibrated = True
        self._seen_s = time.monotonic()
        if self._motion is not None:
            threading.Thread(target=self._log, daemon=True).start()

    def disconnect(self, disable_torque: bool = True) -> None:
        self.is_connected = False
        self.torque = not disable_torque

    def configure_motors(self) -> None:
        """Nothing to set."""

    def enable_torque(self, *_: object, **__: object) -> None:
        self.torque = True

    def disable_torque(self, *_: object, **__: object) -> None:
        self.torque = False

    @contextlib.contextmanager
    def torque_disabled(self) -> Iterator[None]:
        self.torque = False
        yield
        self.torque = True

    def write(self, name: str, motor: str, value: float) -> None:
        """Settings such as gains; they change nothing here."""

    def sync_read(self, name: str, motors: Any = None, *, num_retry: int = 0) -> dict[str, float]:
        self._advance()
        if self.dead_reads:
            self.dead_reads -= 1
            raise ConnectionError("Failed to sync read: [TxRxResult] There is no status packet!")
        values = self.present if name == "Present_Position" else self.speed
        return {motor: values[motor] for motor in motors or values}

    def sync_write(self, name: str, values: dict[str, float], *, num_retry: int = 0) -> None:
        self._advance()
        if self.dead_writes:
            self.dead_writes -= 1
            raise ConnectionError("Failed to sync write: [TxRxResult] Port is in use!")
        (self.goal if name == "Goal_Position" else self.speed).update(values)

    def joint_speed_deg_s(self) -> float:
        """Largest speed of a joint [deg/s]."""
        self._advance()
        moves = any(abs(self.goal[name] - self.present[name]) > 1e-6 for name in self.present)
        return self.speed_deg_s if moves else 0.0

    def _advance(self) -> None:
        if not self.is_connected:
            raise DeviceNotConnectedError("the bus is closed")
        with self._lock:
            now_s = time.monotonic()
            passed_s, self._seen_s = now_s - self._seen_s, now_s
            reach = self.speed_deg_s * passed_s
            for name, goal in self.goal.items():
                self.present[name] += max(-reach, min(reach, goal - self.present[name]))
            fastest = max((abs(speed) for speed in self.speed.values()), default=0.0)
            self.rolled_m += fastest * WHEEL_M_PER_STEP * passed_s

    def _log(self) -> None:
        assert self._motion is not None
        with contextlib.suppress(DeviceNotConnectedError):
            while True:
                speed = self.joint_speed_deg_s()
                with self._motion.open("a") as file:
                    file.write(f"{time.monotonic_ns()} {speed} {self.rolled_m}\n")
                time.sleep(0.005)


class MemoryCamera(OpenCVCamera):
    """A camera whose frames of noise are at most 20 ms old until it is gone or stale.

    A reader takes the frame itself when the camera's thread is late, so a busy machine makes no camera stale.
    """

    FRAME_S = 0.02

    def __init__(self, folder: Path | None = None) -> None:
        super().__init__(OpenCVCameraConfig(index_or_path=0, fps=50, width=32, height=24))
        self.folder = folder
        self.gone = self.stale = self.opened = False
        self._noise = np.random.default_rng(0)

    def _is(self, word: str) -> bool:
        return bool(getattr(self, word)) or (self.folder is not None and (self.folder / word).exists())

    @property
    def is_connected(self) -> bool:
        return self.opened and not self._is("gone")

    def connect(self, warmup: bool = True) -> None:
        if self._is("gone"):
            raise ConnectionError(f"Failed to open {self}.")
        self.opened = True
        self.thread = threading.Thread(target=self._take, daemon=True)
        self.thread.start()
        while self.latest_frame is None:
            time.sleep(0.001)

    def disconnect(self) -> None:
        self.opened = False

    def read_latest(self, max_age_ms: int = 500) -> Any:
        self._renew()
        return super().read_latest(max_age_ms)

    def _take(self) -> None:
        while self.is_connected:
            self._renew()
            time.sleep(self.FRAME_S)

    def _renew(self) -> None:
        """Take a frame if it is time for one."""
        with self.frame_lock:
            now_s = time.perf_counter()
            due = self.latest_timestamp is None or now_s - self.latest_timestamp >= self.FRAME_S
            if due and not self._is("stale"):
                self.latest_frame = self._noise.integers(0, 255, (24, 32, 3), np.uint8)
                self.latest_timestamp = now_s


class MemorySO101(SOFollower):
    def __init__(self, config: SO101FollowerConfig, folder: Path | None = None) -> None:
        Robot.__init__(self, config)
        self.config = config
        self.bus: Any = MemoryBus(JOINTS, folder and folder / "motion")
        self.cameras = {"wrist": MemoryCamera(folder)}


class MemoryBiSO(BiSOFollower):
    def __init__(self, config: BiSOFollowerConfig) -> None:
        Robot.__init__(self, config)
        self.config = config
        self._top_level_cam_keys: set[str] = set()
        self.left_arm: Any = so101(Path(str(config.calibration_dir)))
        self.right_arm: Any = so101(Path(str(config.calibration_dir)))
        self.cameras = {**self.left_arm.cameras, **self.right_arm.cameras}


class MemoryKiwi(LeKiwi):
    def __init__(self, config: LeKiwiConfig, folder: Path | None = None) -> None:
        Robot.__init__(self, config)
        self.config = config
        names = tuple(f"arm_{name}" for name in JOINTS)
        self.bus: Any = MemoryBus((*names, *WHEELS), folder and folder / "motion")
        self.arm_motors, self.base_motors = list(names), list(WHEELS)
        self.cameras = {"wrist": MemoryCamera(folder)}


def so101(calibration: Path, folder: Path | None = None) -> MemorySO101:
    return MemorySO101(SO101FollowerConfig(port="/dev/null", id="one", calibration_dir=calibration), folder)


def two_arms(calibration: Path) -> MemoryBiSO:
    arm = SOFollowerRobotConfig(port="/dev/null")
    return MemoryBiSO(
        BiSOFollowerConfig(id="one", calibration_dir=calibration, left_arm_config=arm, right_arm_config=arm)  # pyright: ignore[reportArgumentType]
    )


def kiwi(calibration: Path, folder: Path | None = None) -> MemoryKiwi:
    cameras: dict[str, CameraConfig] = {"wrist": OpenCVCameraConfig(index_or_path=0, fps=50, width=32, height=24)}
    return MemoryKiwi(LeKiwiConfig(port="/dev/null", id="one", calibration_dir=calibration, cameras=cameras), folder)


def spec_of(robot: Robot) -> TaskSpec:
    """A spec with LeRobot's names; joints in degrees, the base in m/s and deg/s."""
    units = {"x.vel": ("m/s", 0.3), "y.vel": ("m/s", 0.3), "theta.vel": ("deg/s", 90.0)}

    def bounds(name: str) -> Bounds:
        unit, most = units.get(name, ("deg", 90.0))
        return Bounds(name=name, unit=unit, low=-most, high=most)

    numbers = tuple(bounds(name) for name in robot.action_features)
    cameras = tuple(name for name, kind in robot.observation_features.items() if isinstance(kind, tuple))
    return TaskSpec(
        name="memory_robot", instruction="Move.", state=numbers, action=numbers, rate_hz=50.0, limit_ticks=100,
        cameras=cameras,
    )  # fmt: skip


def rig_of(robot: Robot) -> GuardedRig:
    spec = spec_of(robot)
    return GuardedRig(SingleLane(LeRobotRobot(robot, spec)), Envelope(spec))


def open_rig(task: Task | None, lanes: int, seed: int, options: Mapping[str, object]) -> GuardedRig:
    folder = Path(str(options["folder"]))
    robot = {"so101": so101, "kiwi": kiwi}[str(options["robot"])](folder, folder)
    robot.bus.speed_deg_s = 20.0
    return rig_of(robot)
