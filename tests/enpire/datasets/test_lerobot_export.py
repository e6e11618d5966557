"""Export to LeRobotDataset and import: LeRobot reads the export, and the import is exact."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from enpire.datasets.lerobot_export import EpisodeExtras, export_dataset
from enpire.datasets.lerobot_import import import_dataset
from enpire.errors import FileProblem, UsageError
from enpire.store import pictures
from enpire.store.arrays import decision_of, unpack
from enpire.types import SOURCE_HUMAN, Bounds, Episode, OutcomeKind, TaskSpec
from tests.enpire.datasets.foreign_dataset import columns, written
from tests.enpire.store.store_samples import a_recording, an_order
from tests.fakes.model_hub import running_hub

pytestmark = pytest.mark.filterwarnings("ignore")

SPEC = TaskSpec(
    name="pin_insertion",
    instruction="put the pin into the hole",
    state=tuple(Bounds(name=f"s{n}", unit="m", low=-9, high=9) for n in range(3)),
    action=tuple(Bounds(name=f"a{n}", unit="m", low=-9, high=9) for n in range(2)),
    rate_hz=20.0,
    limit_ticks=100,
)


def _episode(outcome: OutcomeKind, seed: int) -> Episode:
    episode, data = a_recording(an_order(), outcome, seed)
    return replace(episode, arrays=unpack(data))


def thought(episode: Episode) -> dict[str, list[float]]:
    """Example outputs of critics for the first episode's decisions."""
    if episode.outcome != "success" or episode.arrays is None:
        return {}
    count = int(decision_of(episode.arrays.chunk)[-1]) + 1
    return {name: [round(0.1 * n, 4) for n in range(count)] for name in ("p_v", "V_e", "g")}


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Episode]]:
    episodes = [_episode("success", 1), _episode("failure", 2), _episode("unsafe", 3)]
    root = tmp_path_factory.mktemp("lerobot") / "set"
    steps: list[str] = []

    def read() -> Iterator[Episode]:
        for episode in episodes:
            steps.append(f"read {episode.order.order_id}")
            yield episode

    def critics(episode: Episode) -> dict[str, list[float]]:
        steps.append(f"write {episode.order.order_id}")
        return thought(episode)

    assert export_dataset(read(), SPEC, root, EpisodeExtras(critic_outputs=critics)) == 3
    # An episode is written before the next one is read, so that the count of those read is the progress.
    assert steps == [f"{what} {one.order.order_id}" for one in episodes for what in ("read", "write")]
    assert [entry.name for entry in root.parent.iterdir()] == ["set"]
    return root, episodes


@pytest.mark.slow
def test_an_exported_dataset_is_read_back_exactly(exported: tuple[Path, list[Episode]]) -> None:
    root, episodes = exported
    back = list(import_dataset(root))
    assert [(one.uid, one.outcome) for one in back] == [(one.order.order_id, one.outcome) for one in episodes]
    assert {one.instruction for one in back} == {SPEC.instruction}
    for one, episode in zip(back, episodes, strict=True):
        assert episode.arrays is not None
        for name in ("state", "action", "source", "chunk"):
            before, after = getattr(episode.arrays, name), getattr(one.arrays, name)
            assert before.dtype == after.dtype
            assert np.array_equal(before, after)
        assert set(one.critic_outputs) == set(thought(episode))
        for name, values in thought(episode).items():
            np.testing.assert_allclose(one.critic_outputs[name], values, rtol=1e-6)


@pytest.mark.slow
def test_lerobots_own_script_trains_act_on_an_export(exported: tuple[Path, list[Episode]], tmp_path: Path) -> None:
    pytest.importorskip("accelerate")
    asked = [
        sys.executable, "-m", "lerobot.scripts.lerobot_train", "--policy.type=act", "--policy.device=cpu",
        "--policy.push_to_hub=false", "--policy.chunk_size=4", "--policy.n_action_steps=4", "--policy.dim_model=32",
        "--policy.dim_feedforward=64", "--policy.n_heads=2", "--policy.n_encoder_layers=1",
        "--policy.pretrained_backbone_weights=null", "--dataset.repo_id=enpire/test",
        f"--dataset.root={exported[0]}", "--steps=20", "--batch_size=4", "--num_workers=0", "--log_freq=10",
        "--wandb.enable=false", f"--output_dir={tmp_path / 'out'}",
    ]  # fmt: skip
    surroundings = {**os.environ, "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(asked, capture_output=True, text=True, env=surroundings, check=False, timeout=580)
    assert done.returncode == 0, done.stderr[-3000:]
    assert (tmp_path / "out/checkpoints/last/pretrained_model/model.safetensors").is_file()


@pytest.mark.slow
def test_lerobot_reads_an_export(exported: tuple[Path, list[Episode]]) -> None:
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    root, episodes = exported
    dataset: Any = LeRobotDataset("enpire/pin_insertion", root=root)
    assert (dataset.num_episodes, dataset.num_frames, dataset.fps) == (3, 21, 20)
    first = episodes[0].arrays
    assert first is not None
    frame = dataset[3]
    assert np.array_equal(frame["observation.state"].numpy(), first.state[3])
    assert np.array_equal(frame["action"].numpy(), first.action[3])
    assert frame["task"] == SPEC.instruction
    assert [float(dataset[n]["next.reward"]) for n in (5, 6, 13)] == [0.0, 1.0, 0.0]
    assert [bool(dataset[n]["next.success"]) for n in (5, 6, 13, 20)] == [False, True, False, False]
    assert [bool(dataset[n]["next.done"]) for n in (5, 6, 13, 20)] == [False, True, True, True]
    human = [bool(dataset[n]["intervention"]) for n in range(7)]
    assert human == [source == SOURCE_HUMAN for source in first.source]


@pytest.mark.slow
def test_lerobot_finds_a_pushed_dataset_by_its_name(exported: tuple[Path, list[Episode]], tmp_path: Path) -> None:
    code = """
import sys
from enpire.datasets.model_hub import push_commit
from enpire.datasets.remote_files import manifest_of
from pathlib import Path
from lerobot.datasets.lerobot_dataset import LeRobotDataset
folder = Path(sys.argv[1])
push_commit(folder, manifest_of(folder, "dataset"), "hf://datasets/me/set", "", public=False)
dataset = LeRobotDataset("me/set")
print(dataset.num_episodes, dataset.num_frames, dataset[3]["action"].tolist())
"""
    with running_hub() as hub:
        surroundings = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
        done = subprocess.run(
            [sys.executable, "-c", code, str(exported[0])], env={**surroundings, **hub.environment(str(tmp_path))},
            capture_output=True, text=True, timeout=600, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    first = exported[1][0].arrays
    assert first is not None
    assert done.stdout.strip() == f"3 21 {first.action[3].tolist()}"


@pytest.mark.slow
def test_refusals(exported: tuple[Path, list[Episode]], tmp_path: Path) -> None:
    root, episodes = exported
    with pytest.raises(UsageError, match="exists already"):
        export_dataset(episodes, SPEC, root)
    with pytest.raises(UsageError, match="no recorded episode"):
        export_dataset([], SPEC, tmp_path / "empty")
    bare = a_recording(an_order())[0]
    with pytest.raises(FileProblem, match="has no recorded frame"):
        export_dataset([bare], SPEC, tmp_path / "bare")
    assert list(tmp_path.iterdir()) == []


def _no_parquet(root: Path) -> None:
    shutil.rmtree(root / "data")


def _truncated(root: Path) -> None:
    (file,) = (root / "data").rglob("*.parquet")
    file.write_bytes(file.read_bytes()[:-20])


def _old(root: Path) -> None:
    _told(root, "codebase_version", "v2.1")


def _short(root: Path) -> None:
    _told(root, "total_frames", 99)


def _told(root: Path, key: str, value: object) -> None:
    path = root / "meta" / "info.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (_no_parquet, "has no parquet file"),
        (_truncated, "cannot be read"),
        (_old, "only v3.0 can be read"),
        (_short, "its info.json says 99"),
    ],
)
def test_a_damaged_dataset_is_refused(
    exported: tuple[Path, list[Episode]], tmp_path: Path, damage: Callable[[Path], None], sentence: str
) -> None:
    root = shutil.copytree(exported[0], tmp_path / "copy")
    damage(root)
    with pytest.raises(FileProblem, match=sentence):
        list(import_dataset(root))


def test_a_foreign_dataset_is_read_with_its_own_columns(tmp_path: Path) -> None:
    cells = columns()
    held = [False, True, False, False, True, *[False] * 7]
    first, second = import_dataset(written(tmp_path / "set", cells | {"intervention": held}))
    assert (first.uid, second.uid, first.outcome, first.instruction) == ("episode-0", "episode-1", "unknown", "stack")
    assert np.array_equal(first.arrays.state[-2:], np.array([cells["observation.state"][4]] * 2, np.float32))
    assert first.arrays.source.tolist() == [0, 1, 0, 0, 1]
    assert second.arrays.chunk.tolist() == [-1] * 7


def _filmed(ticks: int, phase: int) -> list[dict[str, np.ndarray]]:
    """Images of two cameras: a disc that moves over a soft background."""
    y, x = np.mgrid[:64, :96]
    found = []
    for tick in range(ticks):
        soft = np.stack([x * 2, y * 3, 40 + 0 * x], axis=-1).astype(np.float64)
        disc = (x - 14 - 10 * tick) ** 2 + (y - 30 - phase) ** 2 < 120
        top = np.where(disc[..., None], [220, 60, 60], soft).clip(0, 255).astype(np.uint8)
        found.append({"top": top, "left_wrist": np.ascontiguousarray(top[::-1])})
    return found


@pytest.mark.slow
def test_images_are_read_back_within_the_loss_of_the_codec(tmp_path: Path) -> None:
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    episodes = [_episode("success", 1), _episode("failure", 2)]
    shown = {one.order.order_id: _filmed(one.ticks, 9 * n) for n, one in enumerate(episodes)}
    root = tmp_path / "set"
    beside = EpisodeExtras(pictures=lambda episode: iter(shown[episode.order.order_id]))
    assert export_dataset(iter(episodes), SPEC, root, beside) == 2
    dataset: Any = LeRobotDataset("enpire/pin_insertion", root=root, video_backend="pyav")
    assert set(dataset.meta.video_keys) == {"observation.images.top", "observation.images.left_wrist"}
    # With it, a policy that is trained on images would ask the robot for what it does not sense.
    assert "observation.environment_state" not in dataset.meta.features
    theirs = np.rint(dataset[3]["observation.images.top"].numpy().transpose(1, 2, 0) * 255)
    for one, episode in zip(import_dataset(root), episodes, strict=True):
        assert episode.arrays is not None
        assert np.array_equal(one.arrays.state, episode.arrays.state)
        assert one.pictures is not None
        pictures.keep(tmp_path / one.uid, one.pictures())
        kept = pictures.Pictures(tmp_path / one.uid)
        assert kept.cameras == ("left_wrist", "top")
        assert len(kept.names) == 2 * episode.ticks
        for tick, seen in enumerate(shown[one.uid]):
            for camera, image in seen.items():
                back = kept.picture(camera, tick)
                assert np.abs(back.astype(int) - image).mean() < 6
                others = [np.abs(back.astype(int) - other[camera]).mean() for other in shown[one.uid]]
                assert int(np.argmin(others)) == tick
    ours = pictures.Pictures(tmp_path / episodes[0].order.order_id).picture("top", 3)
    assert np.array_equal(ours, theirs)
    (video, *_) = (root / "videos").rglob("*.mp4")
    video.write_bytes(video.read_bytes()[:200])
    first = next(import_dataset(root))
    assert first.pictures is not None
    with pytest.raises(FileProblem, match="cannot be read"):
        list(first.pictures())


def test_a_foreign_dataset_may_hold_single_images(tmp_path: Path) -> None:
    (image,) = ({**seen}["top"] for seen in _filmed(1, 0))
    info = {"features": {"observation.images.top": {"dtype": "image", "shape": [64, 96, 3]}}}
    cell = {"bytes": pictures.png(image), "path": "0.png"}
    root = written(tmp_path / "set", columns() | {"observation.images.top": [cell] * 12}, info=info)
    one, _ = import_dataset(root)
    assert one.pictures is not None
    found = list(one.pictures())
    assert len(found) == 5
    assert np.array_equal(found[1]["top"], image)


@pytest.mark.slow
def test_episodes_of_other_cameras_do_not_share_a_dataset(tmp_path: Path) -> None:
    episodes = [_episode("success", 1), _episode("failure", 2)]
    few = [[{"top": seen["top"]} for seen in _filmed(episodes[0].ticks, 0)], _filmed(episodes[1].ticks, 0)]
    beside = EpisodeExtras(pictures=lambda _: iter(few.pop(0)))
    with pytest.raises(FileProblem, match="same cameras"):
        export_dataset(iter(episodes), SPEC, tmp_path / "set", beside)
    assert list(tmp_path.iterdir()) == []
