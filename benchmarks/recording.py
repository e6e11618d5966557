"""The cost of recording a robot's cameras: bytes and time per image, and the effect on the control loop.

    python -m benchmarks.recording [--seconds 20] [--rate 30] [--cameras 2] [--rounds 3] [--seed 0]

Images are synthetic with the statistics of photographs: noise whose power falls with the square of the frequency, a
few edges, and sensor noise. The control loop is the station's own (lanes, safety envelope, check for frozen cameras,
recording, spool on this disk) with a robot that returns new images of 640 x 480 at once. Runs with and without
recording alternate. The jitter of a period is the difference between its length and the nominal one.
"""

from __future__ import annotations

import argparse
import io
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from PIL import Image

from benchmarks.machine import describe
from benchmarks.measured import Measured, report
from enpire.ids import mint
from enpire.interfaces import Evidence
from enpire.policy_calls import LoadedPolicy
from enpire.station.camera_recorder import CameraRecorder, RecordingRule
from enpire.station.lanes import Lanes
from enpire.station.outbox import Outbox
from enpire.station.pace import Pace
from enpire.station.spool import Spool
from enpire.types import (
    SOURCE_POLICY,
    FloatArray,
    ImageArray,
    IntArray,
    MaskArray,
    Observation,
    Order,
    Start,
    TaskSpec,
    Verdict,
)
from enpire.wire.host_services import THIS_HOST
from robot_drivers.fake_robot import FAKE_SPEC, FakeRobot
from robot_drivers.guarded_rig import GuardedRig
from robot_drivers.safety import Envelope
from robot_drivers.single_lane import SingleLane

LIMIT_MS = 5.0
"""Allowed increase of the 99th percentile of the jitter with recording: a sixth of a period at 30 Hz."""
NOISE = 2.5
"""Standard deviation of the sensor noise, in levels of 256."""
KEPT = 24
"""Different images of a camera, which it returns in turn."""


def photograph(random: np.random.Generator, height: int, width: int) -> ImageArray:
    """An image, uint8 (height, width, 3), with the statistics of a photograph."""
    frequency = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)[None])
    frequency[0, 0] = 1.0
    layers = []
    for _ in range(3):
        phase = np.exp(2j * np.pi * random.uniform(size=frequency.shape))
        soft = np.fft.irfft2(phase / frequency, s=(height, width))
        layers.append((soft - soft.mean()) / soft.std())
    picture = 120 + 45 * (0.8 * np.stack([layers[0]] * 3, -1) + 0.2 * np.stack(layers, -1))
    for _ in range(8):
        top, left = random.integers(0, height - 20), random.integers(0, width - 20)
        rows, columns = random.integers(10, height // 3), random.integers(10, width // 3)
        picture[top : top + rows, left : left + columns] += random.uniform(-80, 80, 3)
    return noisy(random, picture)


def noisy(random: np.random.Generator, picture: np.ndarray) -> ImageArray:
    """The image with sensor noise, uint8 (height, width, 3)."""
    return np.clip(picture + random.normal(0, NOISE, picture.shape), 0, 255).astype(np.uint8)


def saved(image: ImageArray, kind: str, **options: int) -> bytes:
    """The encoded image."""
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, kind, **options)
    return buffer.getvalue()


def formats(random: np.random.Generator) -> Iterable[str]:
    """One line for each image format and size."""
    ways: dict[str, Callable[[ImageArray], bytes]] = {
        f"JPEG {quality}": lambda image, quality=quality: saved(image, "JPEG", quality=quality)
        for quality in (75, 80, 85, 90, 95)
    }
    ways["JPEG 95, full colour"] = lambda image: saved(image, "JPEG", quality=95, subsampling=0)
    ways["PNG 1"] = lambda image: saved(image, "PNG", compress_level=1)
    for height, width in ((480, 640), (224, 224)):
        images = [photograph(random, height, width) for _ in range(8)]
        for name, way in ways.items():
            took, sizes, errors = [], [], []
            for image in images:
                way(image)
                began_s = time.perf_counter()
                data = way(image)
                took.append(time.perf_counter() - began_s)
                sizes.append(len(data))
                back = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"), np.float64)
                errors.append(float(np.square(back - image).mean()))
            noise = f"{10 * np.log10(255**2 / np.mean(errors)):5.1f} dB" if np.any(errors) else "lossless"
            yield (
                f"{width} x {height}  {name:<21}{np.mean(sizes) / 1000:>7.1f} kB {1000 * np.median(took):>6.2f} ms"
                f"  (slowest {1000 * max(took):.2f})  {noise}"
            )


class CameraArm(FakeRobot):
    """The fake arm with cameras of 640 x 480 pixels."""

    def __init__(self, spec: TaskSpec, random: np.random.Generator) -> None:
        super().__init__(height=2, width=8)
        self.spec, self._shown = spec, 0
        scenes = {camera: photograph(random, 480, 640).astype(np.float64) for camera in spec.cameras}
        self._images = {camera: [noisy(random, scene)[None] for _ in range(KEPT)] for camera, scene in scenes.items()}

    def observe(self) -> Observation:
        self._shown += 1
        images = {camera: shown[self._shown % KEPT] for camera, shown in self._images.items()}
        return replace(super().observe(), images=images)


class ToAndFro:
    """Task and policy in one: both joints swing until the time limit."""

    horizon = execute = 1
    needs_images = False
    digest = "to-and-fro"

    def __init__(self, spec: TaskSpec) -> None:
        self.spec, self._ticks = spec, 0

    def begin(self, lane: int, seed: int) -> None:
        self._ticks = 0

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        self._ticks += 1
        return np.full((1, 1, 2), np.sin(self._ticks / 10), np.float32)

    def start_error(self, state: FloatArray, start: Start) -> tuple[tuple[float, ...], bool]:
        return (), True

    def verifier(self) -> ToAndFro:
        return self

    def finished(self, state: FloatArray, ticks: IntArray) -> MaskArray:
        return np.zeros(len(state), np.bool_)

    def judge(self, evidence: Evidence) -> Verdict:
        return Verdict(kind="failure", confidence=1.0, source="verifier")


@dataclass
class Loop:
    """Timing of the control loop."""

    jitter_ms: list[float] = field(default_factory=list)
    late: int = 0
    cpu_s: float = 0.0
    wall_s: float = 0.0
    recorded: int = 0
    """Bytes recorded."""

    def summary(self, name: str) -> str:
        p50, p99, worst = np.percentile(self.jitter_ms, [50, 99, 100])
        return (
            f"{name:<16}jitter median {p50:.2f} ms, p99 {p99:.2f} ms, worst {worst:.1f} ms of {len(self.jitter_ms)} "
            f"periods; {self.late} late; {self.cpu_s / self.wall_s:.0%} of a core; "
            f"{self.recorded / 1e6 / self.wall_s:.1f} MB/s"
        )


def run(robot: CameraArm, rule: RecordingRule, folder: Path, loop: Loop) -> None:
    """One episode at the task's rate."""
    task, spec = ToAndFro(robot.spec), robot.spec
    spool = Spool(folder, 0)
    camera_recorder = CameraRecorder(rule, spool.pictures)
    outbox = Outbox(spool, THIS_HOST, print, camera_recorder)
    lanes = Lanes(task, GuardedRig(SingleLane(robot), Envelope(spec)), camera_recorder=camera_recorder)  # pyright: ignore[reportArgumentType]
    order = Order(
        order_id=mint(), campaign_id="benchmark", station="arm", task=spec.name, policy_id="p", purpose="collect",
        start=Start(split="train", index=0, values=(0.0, 0.0), seed=0), round=0,
    )  # fmt: skip
    lanes.begin(0, order, LoadedPolicy(policy_id="p", policy=task, source=SOURCE_POLICY))
    pace, began_s, before = Pace(spec.period_s), time.monotonic(), time.process_time()
    starts: list[float] = []
    while lanes.busy:
        pace.keep(resting=not starts)
        starts.append(time.monotonic())
        lanes.sense()
        lanes.reset()
        lanes.verify()
        lanes.decide()
        lanes.act()
    outbox.add(lanes.take_ended())
    [episode] = outbox.spool(to_the_last=True)
    if episode.outcome != "failure":
        raise SystemExit(f"The episode ended as {episode.outcome}: {episode.cause}")
    loop.jitter_ms += [1000 * abs(value - spec.period_s) for value in np.diff(starts).tolist()]
    loop.late += pace.late
    loop.cpu_s += time.process_time() - before
    loop.wall_s += time.monotonic() - began_s
    loop.recorded += sum(path.stat().st_size for path in folder.glob("*.pictures"))
    camera_recorder.close()
    outbox.close()
    spool.close()


def main() -> int:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--seconds", type=float, default=20.0, help="length of an episode")
    words.add_argument("--rate", type=float, default=30.0)
    words.add_argument("--cameras", type=int, default=2)
    words.add_argument("--rounds", type=int, default=3)
    words.add_argument("--seed", type=int, default=0)
    args = words.parse_args()
    print(describe([args.seed]))
    random = np.random.default_rng(args.seed)
    for line in formats(random):
        print(line, flush=True)
    names = tuple(f"camera_{number}" for number in range(1, args.cameras + 1))
    spec = replace(FAKE_SPEC, cameras=names, rate_hz=args.rate, limit_ticks=round(args.seconds * args.rate))
    robot = CameraArm(spec, random)
    rules = {"not recorded": RecordingRule(), "recorded": RecordingRule(cameras="all")}
    loops = {name: Loop() for name in rules}
    with tempfile.TemporaryDirectory() as scratch:
        for turn in range(args.rounds):
            for name, rule in rules.items():
                run(robot, rule, Path(scratch) / f"{turn} {name}", loops[name])
    print(f"{args.cameras} cameras of 640 x 480 at {args.rate:g} Hz")
    for name, loop in loops.items():
        print(loop.summary(name))
    print(f"memory of the process at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000:.0f} MB")
    before, after = (float(np.percentile(loops[name].jitter_ms, 99)) for name in rules)
    return report(
        [Measured(name="jitter's 99th percentile, more with recording", value=after - before, unit="ms", most=LIMIT_MS)]
    )


if __name__ == "__main__":
    sys.exit(main())
