"""Make the moving pictures of docs/gallery.md: `python -m benchmarks.gallery [--home HOME] [--only NAME]`.

Each task's clean expert runs from one train start. With `--home`, the base policy and the champion of the latest
campaign of that home also run from one start, side by side. The pictures are animated WebP files, at most 300 kB each.
"""

from __future__ import annotations

import argparse
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
from PIL import Image

from benchmarks.tasks import ExpertTask
from enpire.interfaces import Policy, Rig
from enpire.parts import POLICIES, TASKS
from enpire.queries import campaigns
from enpire.store import versions
from enpire.types import ImageArray, Start
from sim.truth import KnowsTruth

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images" / "gallery"
LARGEST, ALL = 300_000, 1_500_000
"""Bytes of one picture, and of all."""
FRAMES, REST = 60, 8
"""Most frames of a rollout, and how often the last one is repeated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clip:
    """One rollout to show."""

    task: str
    camera: str
    start: int = 0
    """Number of the train start."""


CLIPS = (
    Clip(task="marker_in_cup", camera="front"),
    Clip(task="pin_insertion", camera="side"),
    Clip(task="push_t", camera="top"),
    Clip(task="gpu_insertion", camera="top"),
    Clip(task="ziptie_cutting", camera="top"),
    Clip(task="bag_packing", camera="top"),
)


def main() -> None:
    """Write the pictures, and print what each shows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", type=Path)
    parser.add_argument("--only", default="")
    asked = parser.parse_args()
    IMAGES.mkdir(parents=True, exist_ok=True)
    for clip in CLIPS:
        if asked.only in ("", clip.task):
            task = cast(ExpertTask, TASKS.make(clip.task))
            frames, success, ticks = filmed(task, task.clean_expert(), clip.camera, clip.start)
            size = save(frames, IMAGES / f"{clip.task}.webp")
            print(f"{clip.task}: {ticks} periods, success {success}, {size} bytes")
    if asked.home is not None and asked.only in ("", "improvement"):
        improvement(asked.home)
    whole = sum(path.stat().st_size for path in IMAGES.iterdir())
    print(f"all pictures: {whole} bytes")
    assert whole <= ALL, f"all pictures have {whole} bytes; at most {ALL} are allowed"


def improvement(home: Path) -> None:
    """The base policy and the champion of the latest campaign, from the first train start that only one manages."""
    with campaigns.open_records(home) as records:
        view = campaigns.campaign_view(records, campaigns.find_campaign(records, ""))
    if view.base is None or view.champion is None:
        raise SystemExit(f"The latest campaign of {home} has no champion yet.")
    task = cast(ExpertTask, TASKS.make(view.task))
    base, champion = (_policy(home, policy_id) for policy_id in (view.base.id, view.champion.id))
    camera = next(clip.camera for clip in CLIPS if clip.task == task.spec.name)
    for index in range(1000, 1100):
        before, failed, ticks = filmed(task, base, camera, index)
        if failed:
            continue
        after, success, sooner = filmed(task, champion, camera, index)
        if success:
            size = save(beside(before, after), IMAGES / "improvement.webp")
            print(f"improvement: train start {index}, {ticks} periods and {sooner} periods, {size} bytes")
            return
    raise SystemExit("No train start of 100 shows a difference between the base policy and the champion.")


def _policy(home: Path, policy_id: str) -> Policy:
    folder = home / "versions" / policy_id
    return POLICIES.load(str(versions.manifest(folder)["kind"]))(folder)


def filmed(task: ExpertTask, policy: Policy, camera: str, index: int) -> tuple[list[ImageArray], bool, int]:
    """(images of one camera at the real rate or faster, ground truth of success, periods) of one rollout."""
    rig = task.rig(1, 0)
    start = task.start("train", index, b"")
    found = list(_images(task, policy, rig, camera, start))
    assert isinstance(rig, KnowsTruth)
    success, ticks = rig.truth(0).success, len(found)
    rig.close()
    every = max(2, -(-ticks // FRAMES))
    return [*found[::every], found[-1]], success, ticks


def _images(task: ExpertTask, policy: Policy, rig: Rig, camera: str, start: Start) -> Iterator[ImageArray]:
    verifier, lane = task.verifier(), np.array([0])
    rig.place(0, start)
    policy.begin(0, start.seed)
    chunk, sent = np.zeros((1, 0, task.spec.action_dim), np.float32), policy.execute
    for tick in range(task.spec.limit_ticks):
        observation = rig.observe()
        yield rig.look(0)[camera]
        if verifier.finished(observation.state, np.array([tick]))[0]:
            return
        if sent >= policy.execute:
            chunk, sent = policy.act(observation, lane), 0
        rig.act(chunk[:, sent], np.ones(1, np.bool_))
        sent += 1


def beside(left: Sequence[ImageArray], right: Sequence[ImageArray]) -> list[ImageArray]:
    """Two rollouts beside each other; the shorter one rests at its end."""
    count = max(len(left), len(right))
    pairs = [(left[min(k, len(left) - 1)], right[min(k, len(right) - 1)]) for k in range(count)]
    return [np.concatenate([one, other], axis=1) for one, other in pairs]


def save(frames: Sequence[ImageArray], path: Path) -> int:
    """Write an animated WebP of at most `LARGEST` bytes, at the best quality that fits; its size in bytes."""
    pictures = [Image.fromarray(frame) for frame in frames]
    for quality in (70, 55, 40, 25, 10):
        made = io.BytesIO()
        durations = [66] * (len(pictures) - 1) + [66 * REST]
        pictures[0].save(
            made, format="WEBP", save_all=True, append_images=pictures[1:], duration=durations, loop=0,
            quality=quality, method=4,
        )  # fmt: skip
        if made.tell() <= LARGEST:
            path.write_bytes(made.getvalue())
            return made.tell()
    raise SystemExit(f"{path.name} does not fit into {LARGEST} bytes; film it more coarsely.")


if __name__ == "__main__":
    main()
