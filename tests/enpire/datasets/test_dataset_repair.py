"""A LeRobot recording that was killed: its whole episodes are read by LeRobot again, with the same numbers."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from typer.testing import CliRunner

from enpire.cli import app
from enpire.datasets.dataset_repair import repair_dataset
from enpire.errors import FileProblem, UsageError

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
EPISODES = 12
RECORD = """
import os, signal, sys
import numpy as np
from lerobot.datasets.lerobot_dataset import LeRobotDataset
root, videos, killed = sys.argv[1], sys.argv[2] == "videos", sys.argv[3] == "killed"
features = {
    "observation.state": {"dtype": "float32", "shape": (3,), "names": ["a", "b", "c"]},
    "action": {"dtype": "float32", "shape": (2,), "names": ["x", "y"]},
    "next.done": {"dtype": "bool", "shape": (1,), "names": None},
    "note": {"dtype": "string", "shape": (1,), "names": None},
}
if videos:
    shape = {"dtype": "video", "shape": (48, 64, 3), "names": ["height", "width", "channels"]}
    features["observation.images.top"] = shape
dataset = LeRobotDataset.create("a/b", fps=10, features=features, root=root, use_videos=videos)
for episode in range(4 if videos else 12):
    chance = np.random.default_rng(episode)
    for tick in range(5 + episode):
        frame = {
            "observation.state": chance.normal(size=3).astype(np.float32),
            "action": chance.normal(size=2).astype(np.float32),
            "next.done": np.array([tick == 4 + episode]), "note": f"n{episode}",
            "task": "push" if episode % 2 else "pull",
        }
        if videos:
            frame["observation.images.top"] = np.full((48, 64, 3), 40 * episode + 2 * tick, np.uint8)
        dataset.add_frame(frame)
    dataset.save_episode()
if killed:
    os.kill(os.getpid(), signal.SIGKILL)
dataset.finalize()
"""


def _record(root: Path, what: str, ending: str = "killed") -> Path:
    done = subprocess.run(
        [sys.executable, "-c", RECORD, str(root), what, ending], capture_output=True, text=True, timeout=600,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "SVT_LOG": "1"}, check=False,
    )  # fmt: skip
    assert done.returncode == (-signal.SIGKILL if ending == "killed" else 0), done.stderr[-2000:]
    return root


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _record(tmp_path_factory.mktemp("killed") / "set", "numbers")


@pytest.fixture(scope="module")
def filmed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _record(tmp_path_factory.mktemp("filmed") / "set", "videos")


@pytest.fixture
def copied(tmp_path: Path) -> Callable[[Path], Path]:
    return lambda root: shutil.copytree(root, tmp_path / "broken")


def _loaded(root: Path) -> Any:
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    loader: Any = LeRobotDataset
    return loader("a/b", root=root)


def test_a_killed_recording_is_whole_again(recorded: Path, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in recorded.rglob("*") if path.is_file()}
    made = repair_dataset(recorded, tmp_path / "made")
    assert (made.episodes, made.frames, made.lost) == (EPISODES, sum(range(5, 5 + EPISODES)), ())
    assert made.recovered == ("data/chunk-000/file-000.parquet",)
    assert {path: path.read_bytes() for path in recorded.rglob("*") if path.is_file()} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["made"]
    dataset = _loaded(tmp_path / "made")
    assert (dataset.num_episodes, dataset.num_frames) == (EPISODES, made.frames)
    row = 0
    for episode in range(EPISODES):
        chance = np.random.default_rng(episode)
        for tick in range(5 + episode):
            frame = dataset[row]
            assert np.array_equal(frame["observation.state"], chance.normal(size=3).astype(np.float32))
            assert np.array_equal(frame["action"], chance.normal(size=2).astype(np.float32))
            assert bool(frame["next.done"]) == (tick == 4 + episode)
            assert (frame["task"], frame["note"]) == ("push" if episode % 2 else "pull", f"n{episode}")
            assert (int(frame["index"]), int(frame["frame_index"])) == (row, tick)
            row += 1
    # LeRobot writes this file after every episode, so it is there to compare with.
    old, new = (json.loads((root / "meta/stats.json").read_text()) for root in (recorded, tmp_path / "made"))
    assert set(old) == set(new)
    for key, stats in old.items():
        for name, values in stats.items():
            # LeRobot's quantiles come from a histogram of what it was given: float64 then, float32 now.
            np.testing.assert_allclose(new[key][name], values, rtol=1e-5, atol=2e-4, err_msg=f"{key} {name}")


def test_videos_stay_with_their_episodes(filmed: Path, tmp_path: Path) -> None:
    made = repair_dataset(filmed, tmp_path / "made")
    assert (made.episodes, made.lost) == (4, ())
    dataset = _loaded(tmp_path / "made")
    row = 0
    for episode in range(4):
        for tick in range(5 + episode):
            image = dataset[row]["observation.images.top"].numpy() * 255
            assert abs(image.mean() - (40 * episode + 2 * tick)) < 3, (episode, tick)
            row += 1
    old, new = (json.loads((root / "meta/stats.json").read_text()) for root in (filmed, tmp_path / "made"))
    top = "observation.images.top"
    assert new[top]["count"] == old[top]["count"]
    np.testing.assert_allclose(new[top]["mean"], old[top]["mean"], atol=0.01)


def test_episodes_without_all_their_images_are_named(
    filmed: Path, copied: Callable[[Path], Path], tmp_path: Path
) -> None:
    broken = copied(filmed)
    [video] = broken.rglob("*.mp4")
    kept = tmp_path / "short.mp4"
    with av.open(str(kept), "w") as out:
        stream: Any = out.add_stream("mpeg4", rate=10)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for _ in range(12):  # all of episodes 0 and 1 (5 + 6), one image of episode 2
            out.mux(stream.encode(av.VideoFrame.from_ndarray(np.zeros((48, 64, 3), np.uint8))))
        out.mux(stream.encode())
    shutil.move(kept, video)
    made = repair_dataset(broken, tmp_path / "made")
    assert made.episodes == 2
    assert made.lost == tuple(f"Episode {n}: its video ends early or is missing." for n in (2, 3))
    assert _loaded(tmp_path / "made").num_frames == 11
    video.unlink()
    with pytest.raises(FileProblem, match="No episode of .* is whole. Episode 0: its video"):
        repair_dataset(broken, tmp_path / "again")
    assert not (tmp_path / "again").exists()


def test_what_was_cut_off_is_named(recorded: Path, copied: Callable[[Path], Path], tmp_path: Path) -> None:
    broken = copied(recorded)
    data = broken / "data/chunk-000/file-000.parquet"
    data.write_bytes(data.read_bytes()[:-10])
    made = repair_dataset(broken, tmp_path / "made")
    assert (made.episodes, made.lost) == (EPISODES - 1, ("Episode 11: its frames are in no file.",))
    assert _loaded(tmp_path / "made").num_episodes == EPISODES - 1
    result = CliRunner().invoke(app, ["episodes", "repair", str(broken)])
    assert result.exit_code == 0, result.output
    assert "Lost: Episode 11: its frames are in no file." in result.output
    assert "11 episodes (110 frames), out of 1 file without contents, are whole in" in result.output.replace("\n", " ")
    assert (tmp_path / "broken-repaired" / "meta/info.json").is_file()


def test_damaged_bytes_cost_episodes_and_nothing_else(
    recorded: Path, copied: Callable[[Path], Path], tmp_path: Path
) -> None:
    broken = copied(recorded)
    data = broken / "data/chunk-000/file-000.parquet"
    good, kept = data.read_bytes(), list[int]()
    for number, at in enumerate(range(2000, len(good), 4001)):
        data.write_bytes(good[:at] + bytes([255]) * 300 + good[at + 300 :])
        made = repair_dataset(broken, tmp_path / f"made{number}")
        assert made.episodes + len(made.lost) == EPISODES
        kept.append(made.episodes)
    assert kept == sorted(kept)
    assert 0 < kept[0] < kept[-1] < EPISODES


def test_a_camera_named_like_a_path_is_refused(filmed: Path, copied: Callable[[Path], Path], tmp_path: Path) -> None:
    broken = copied(filmed)
    path = broken / "meta/info.json"
    path.write_text(path.read_text().replace("observation.images.top", "observation.images.../../../outside"))
    with pytest.raises(FileProblem, match="only colour images named"):
        repair_dataset(broken, tmp_path / "made")
    assert not (tmp_path / "made").exists()


def test_a_whole_dataset_is_left_alone(tmp_path: Path) -> None:
    root = _record(tmp_path / "set", "numbers", "closed")
    with pytest.raises(UsageError, match="is whole, with 12 episodes"):
        repair_dataset(root, tmp_path / "made")
    (root / "meta/episodes/chunk-000/file-000.parquet").unlink()
    made = repair_dataset(root, tmp_path / "made")
    assert (made.episodes, made.recovered) == (EPISODES, ())
    with pytest.raises(UsageError, match="exists already"):
        repair_dataset(root, tmp_path / "made")
    (root / "meta/tasks.parquet").write_bytes(b"PAR1")
    with pytest.raises(FileProblem, match=r"tasks\.parquet"):
        repair_dataset(root, tmp_path / "other")
