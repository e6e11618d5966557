"""Exports episodes to LeRobotDataset v3, which other tools of the field read; `lerobot_import` reads it back.

Exported with the standard keys (`observation.state`, without pictures the same as `observation.environment_state`
because LeRobot's ACT and Diffusion insist on that or on a picture, `action`, `next.reward`, `next.done`,
`next.success`, `intervention`, task), with what makes the way back exact (`next.state`, `source`, `chunk`,
`episode_uid`, `outcome`), and with what HABC's critics thought (`p_v`, `V_e`, `g`, 0 where `judged` is false).
Pictures, where asked for, are `observation.images.<camera>`, as videos in LeRobot's own codec.
A LeRobotDataset is not crash-safe while it is written, so it is written under a hidden name and renamed when complete.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import numpy as np

from enpire.datasets.dataset_files import finish
from enpire.datasets.lerobot_video import IMAGES
from enpire.errors import FileProblem, MissingExtra, UsageError
from enpire.store import durable, removal
from enpire.store.arrays import decision_of
from enpire.store.pictures import Seen
from enpire.types import SOURCE_HUMAN, Bounds, Episode, ImageArray, TaskSpec

FORMAT = "v3.0"
ENVIRONMENT = "observation.environment_state"
CRITIC_OUTPUTS = ("p_v", "V_e", "g")
"""Outputs of HABC's critics for every decision: probability of success, minus decisions to come, gate."""
CriticOutputs = Mapping[str, Sequence[float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeExtras:
    """Data that goes into a dataset in addition to the arrays of an episode."""

    critic_outputs: Callable[[Episode], CriticOutputs] = lambda _: {}
    """The critics' outputs for its decisions; empty where there are none."""
    pictures: Callable[[Episode], Iterator[Seen]] = lambda _: repeat({})
    """Camera -> image, uint8 (height, width, 3), before every command; same cameras and sizes for all episodes; empty
    without cameras."""


def export_dataset(
    episodes: Iterable[Episode], spec: TaskSpec, target: Path, extras: EpisodeExtras | None = None
) -> int:
    """Write episodes (with arrays) as one dataset at `target`, which appears when complete; returns their number.

    Raises:
        UsageError: `target` exists, or there is no episode.
        FileProblem: an episode does not fit the task.
        MissingExtra: LeRobot is not installed.
    """
    if target.exists():
        raise UsageError(f"{target} exists already: name a new folder for the dataset.")
    staged = durable.stage_folder(target)
    try:
        written = _write(episodes, spec, staged / "dataset", extras or EpisodeExtras())
        finish(staged / "dataset")
        durable.reveal([(staged / "dataset", target)])
    finally:
        removal.remove(staged, target.parent)
    return written


def _write(episodes: Iterable[Episode], spec: TaskSpec, root: Path, extras: EpisodeExtras) -> int:
    dataset: Any = None
    written = 0
    try:
        for episode in episodes:
            seen = extras.pictures(episode)
            first = next(seen)
            if dataset is None:
                dataset = _create(spec, root, first)
            wanted = {key: tuple(of["shape"]) for key, of in dataset.features.items() if key.startswith(IMAGES)}
            frames = _frames(episode, spec, extras.critic_outputs(episode))
            for frame, now in zip(frames, chain([first], seen), strict=False):
                images = {f"{IMAGES}{camera}": image for camera, image in now.items()}
                _check_same(episode, {key: image.shape for key, image in images.items()}, wanted)
                if images:
                    del frame[ENVIRONMENT]
                dataset.add_frame(frame | images)
            dataset.save_episode()
            written += 1
    finally:
        if dataset is not None:
            # Otherwise its threads write files again after their folder was removed.
            dataset.clear_episode_buffer()
            dataset.finalize()
    if not written:
        raise UsageError("There is no recorded episode to export; the filter may be too narrow.")
    return written


def _check_same(episode: Episode, found: Mapping[str, tuple[int, ...]], wanted: Mapping[str, tuple[int, ...]]) -> None:
    if found != wanted:
        raise FileProblem(
            f"Episode {episode.order.order_id} has the images {dict(found)}, the first one {dict(wanted)}; export "
            "episodes with the same cameras."
        )


def _create(spec: TaskSpec, root: Path, seen: Seen) -> Any:
    if spec.rate_hz != round(spec.rate_hz):
        raise UsageError(f"LeRobotDataset needs a whole number of frames a second; {spec.name} runs at {spec.rate_hz}.")
    os.environ.setdefault("SVT_LOG", "1")  # LeRobot's encoder prints errors only
    try:
        from datasets import disable_progress_bars  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]
        from lerobot.datasets.lerobot_dataset import LeRobotDataset  # pyright: ignore[reportMissingTypeStubs]
    except ModuleNotFoundError as error:
        raise MissingExtra(f"Exporting needs LeRobot ({error}): pip install 'enpire[lerobot]'.") from error
    disable_progress_bars()  # there would be one bar per episode
    maker: Any = LeRobotDataset
    return maker.create(
        repo_id=f"enpire/{spec.name}",
        fps=round(spec.rate_hz),
        features=_features(spec, seen),
        root=root,
        robot_type=spec.name,
        use_videos=bool(seen),
        streaming_encoding=bool(seen),
        # A full queue would drop images and keep their rows; no episode has more images than this.
        encoder_queue_maxsize=spec.limit_ticks + 1,
        video_backend="pyav",
    )


def _video(image: ImageArray) -> dict[str, object]:
    return {"dtype": "video", "shape": image.shape, "names": ["height", "width", "channels"]}


def _features(spec: TaskSpec, seen: Seen) -> dict[str, dict[str, object]]:
    one = {"shape": (1,), "names": None}
    # With pictures it would only be an input that no robot has when LeRobot runs what was trained on them.
    context = (
        {f"{IMAGES}{camera}": _video(image) for camera, image in seen.items()}
        if seen
        else {ENVIRONMENT: _vector(spec.state)}
    )
    return {
        "observation.state": _vector(spec.state),
        **context,
        "action": _vector(spec.action),
        "next.state": _vector(spec.state),
        "next.reward": {"dtype": "float32", **one},
        "next.done": {"dtype": "bool", **one},
        "next.success": {"dtype": "bool", **one},
        "intervention": {"dtype": "bool", **one},
        "complementary_info.is_intervention": {"dtype": "float32", **one},
        "source": {"dtype": "int64", **one},
        "chunk": {"dtype": "int64", **one},
        "judged": {"dtype": "bool", **one},
        **{name: {"dtype": "float32", **one} for name in CRITIC_OUTPUTS},
        "episode_uid": {"dtype": "string", **one},
        "outcome": {"dtype": "string", **one},
    }


def _vector(bounds: Sequence[Bounds]) -> dict[str, object]:
    return {"dtype": "float32", "shape": (len(bounds),), "names": [one.name for one in bounds]}


def _frames(episode: Episode, spec: TaskSpec, critic_outputs: CriticOutputs) -> Iterator[dict[str, object]]:
    recorded = episode.arrays
    uid = episode.order.order_id
    if recorded is None or not len(recorded.action):
        raise FileProblem(f"Episode {uid} has no recorded frame; a dataset holds recorded episodes only.")
    if (recorded.state.shape[1], recorded.action.shape[1]) != (spec.state_dim, spec.action_dim):
        raise FileProblem(
            f"Episode {uid} has state {recorded.state.shape} and action {recorded.action.shape}; the task {spec.name} "
            f"has {spec.state_dim} state and {spec.action_dim} action numbers."
        )
    last, decisions = len(recorded.action) - 1, decision_of(recorded.chunk)
    for tick, (action, source) in enumerate(zip(recorded.action, recorded.source, strict=True)):
        won = tick == last and episode.outcome == "success"
        human = bool(source == SOURCE_HUMAN)
        decision = int(decisions[tick])
        judged = decision < min(len(critic_outputs.get(name, ())) for name in CRITIC_OUTPUTS)
        yield {
            "judged": np.array([judged]),
            **{
                name: np.array([critic_outputs[name][decision] if judged else 0.0], np.float32)
                for name in CRITIC_OUTPUTS
            },
            "observation.state": recorded.state[tick],
            ENVIRONMENT: recorded.state[tick],
            "action": action,
            "next.state": recorded.state[tick + 1],
            "next.reward": np.array([won], np.float32),
            "next.done": np.array([tick == last]),
            "next.success": np.array([won]),
            "intervention": np.array([human]),
            "complementary_info.is_intervention": np.array([human], np.float32),
            "source": np.array([source], np.int64),
            "chunk": np.array([recorded.chunk[tick]], np.int64),
            "episode_uid": uid,
            "outcome": episode.outcome,
            "task": spec.instruction,
        }
