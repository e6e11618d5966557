"""Pictures of windows: of a simulated episode they are taken while it runs again, once, and go with the job."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from enpire.errors import FileProblem, LearningProblem, UsageError
from enpire.home import open_home
from enpire.interfaces import ImprovementJob, Progress
from enpire.store.episodes import FolderStore
from enpire.store.pictures import NAME, Pictures
from policies.habc.segments import WindowSpec, cut
from policies.image_windows import ImageWindows
from policies.training_data import read_episodes
from sim import cameras
from tests.enpire.datasets.test_episode_images import recorded, seen_live


def test_windows_see_what_a_camera_would_have_seen(tmp_path: Path) -> None:
    from enpire.campaign.campaign import read_campaign

    home = open_home(tmp_path)
    recorded(home, "sim-1").close()
    folder = FolderStore(home.episodes).folder("E1")
    episodes = read_episodes([folder])
    windows = cut(episodes, WindowSpec(stride=4))
    job = ImprovementJob(
        recipe={}, task="pin_insertion", parent=None, episodes=[folder], work=tmp_path / "work",
        output=tmp_path / "out", round=1, seed=0,
    )  # fmt: skip
    with pytest.raises(LearningProblem, match="its station sim-1 is no simulation of this campaign"):
        ImageWindows(job, windows, episodes).collect(["top"], lambda _: None)
    seed = read_campaign("pin_insertion").seed * 1000 + 1
    job = replace(job, station_seeds={"sim-1": seed})
    if why := cameras.why_no_images():
        with pytest.raises(UsageError, match="No pictures"):
            ImageWindows(job, windows, episodes).collect(["top"], lambda _: None)
        pytest.skip(why)
    heard: list[Progress] = []
    window_images = ImageWindows(job, windows, episodes)
    window_images.collect(["top"], heard.append)
    assert [(said.stage, said.done, said.total) for said in heard] == [("pictures", 1, 1)]
    rows = np.arange(len(windows))[::-1]
    live = seen_live(home)
    expected = np.stack([live[int(tick)]["top"] for tick in windows.tick[rows]])
    np.testing.assert_array_equal(window_images.at("top", rows), expected)
    made = job.work / "images" / "E1" / NAME
    assert len(Pictures(made).names) == len(windows)
    stamp = made.stat().st_mtime_ns
    again = ImageWindows(job, windows, episodes)
    again.collect(["top"], heard.append)
    assert made.stat().st_mtime_ns == stamp
    np.testing.assert_array_equal(again.at("top", rows), expected)
    window_images.close()
    assert not (job.work / "images").exists()
    with pytest.raises(FileProblem, match="needs the camera 'wrist'"):
        ImageWindows(job, windows, episodes).collect(["wrist"], heard.append)
