"""A task for the fake arm of `robot_drivers.fake_robot`: bring both joints to zero, observed by its camera."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np

from enpire.interfaces import Evidence, Rig
from enpire.station.station_file import StationFile
from enpire.types import FloatArray, ImageArray, IntArray, MaskArray, Observation, Split, Start, Verdict
from robot_drivers import fake_robot

MODULE = "tests.fakes.reach_task"
THERE_RAD = 0.08


class ReachTask:
    spec = replace(fake_robot.FAKE_SPEC, name="reach")

    def rig(self, lanes: int, seed: int) -> Rig:
        return fake_robot.FakeRig(self.spec, lanes, seed)

    def start(self, split: Split, index: int, secret: bytes) -> Start:
        drawn = np.random.default_rng((index, len(secret))).choice([-1, 1], 2) * 0.5
        return Start(split=split, index=index, values=(float(drawn[0]), float(drawn[1])), seed=index)

    def reset_skill(self) -> ReachStart:
        return ReachStart()

    def start_error(self, state: FloatArray, start: Start) -> tuple[tuple[float, ...], bool]:
        return (float(state[0]), float(state[1])), bool(np.abs(state[:2] - start.values).max() < THERE_RAD)

    def verifier(self) -> ReachVerifier:
        return ReachVerifier()

    def expert(self, seed: int) -> HalvingPolicy:
        return HalvingPolicy()


class ReachStart:
    """Drives both joints to the start."""

    def __init__(self) -> None:
        self.goals: dict[int, FloatArray] = {}

    def begin(self, lane: int, start: Start) -> None:
        self.goals[lane] = np.asarray(start.values, np.float32)

    def step(self, state: FloatArray, lanes: IntArray) -> tuple[FloatArray, MaskArray]:
        goals = np.stack([self.goals[int(lane)] for lane in lanes])
        return goals, np.abs(state[:, :2] - goals).max(axis=1) < THERE_RAD / 2


class ReachVerifier:
    digest = "reach-1"
    needs_images = False

    def finished(self, state: FloatArray, ticks: IntArray) -> MaskArray:
        return (np.abs(state[:, :2]).max(axis=1) < THERE_RAD) & (ticks > 3)

    def judge(self, evidence: Evidence) -> Verdict:
        there = float(np.abs(evidence.arrays.state[-1, :2]).max()) < THERE_RAD
        return Verdict(kind="success" if there else "failure", confidence=1.0, source="verifier")


def seen_joints(picture: ImageArray) -> FloatArray:
    """Both joint angles (2,) in radians, read from the bars of an image, uint8 (height, width, 3)."""
    height, width, _ = picture.shape
    middles = [width // 8, 3 * width // 8]
    filled = [(picture[:, middle, 1] > 100).sum() / height for middle in middles]
    return (np.asarray(filled) * 4.0 - 2.0).astype(np.float32)


class HalvingPolicy:
    """Halves the distance to zero, from the joint sensors."""

    horizon = execute = 1

    def begin(self, lane: int, seed: int) -> None:
        pass

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        return 0.5 * observation.state[:, None, :2]


class CameraPolicy(HalvingPolicy):
    """Halves the distance to zero, from the camera image."""

    needs_images = True

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        return 0.5 * np.stack([seen_joints(picture) for picture in observation.images["top"]])[:, None]


def load(folder: Path) -> CameraPolicy:
    return CameraPolicy()


def write_camera_policy(folder: Path) -> Path:
    """Write the files of a policy that uses the camera; they are not published yet."""
    folder.mkdir(parents=True)
    (folder / "policy.json").write_text(json.dumps({"kind": f"{MODULE}:load"}))
    (folder / "weights.safetensors").write_bytes(b"\0" * 64)
    return folder


def reach_station(home: Path) -> StationFile:
    """A real-time station of the fake arm behind its guard, as with hardware."""
    guard = {
        "driver": str(Path(fake_robot.__file__)), "folder": str(home / "guard"), "person_to_resume": False,
        "watchdog_s": 5.0,
    }  # fmt: skip
    return StationFile(
        name="arm", task=f"{MODULE}:ReachTask", driver="robot_drivers.guard_client:open_rig", home=home / "arm",
        options={"guard": guard}, policy_kinds=(f"{MODULE}:load",),
    )  # fmt: skip
