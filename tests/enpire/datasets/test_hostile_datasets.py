"""A dataset of another tool cannot leave its folder, block, fill the memory or exceed the task's bounds."""

from __future__ import annotations

import resource
from pathlib import Path

import numpy as np
import pytest

from enpire.datasets.dataset_files import below, memory_limit, video_name
from enpire.datasets.dataset_import import import_episodes
from enpire.datasets.lerobot_tables import read_instructions
from enpire.errors import EnpireError, FileProblem
from enpire.home import Home, open_home
from enpire.store.episodes import FolderStore
from tests.enpire.datasets.foreign_dataset import written
from tests.enpire.datasets.hostile_datasets import ATTACKS, SPEC, big, of_the_task
from tests.fakes.sample_campaign import CAMPAIGN, begin


@pytest.fixture
def lab(tmp_path: Path) -> Home:
    home = open_home(tmp_path / "lab")
    begin(home.root).flush()
    return home


@pytest.mark.parametrize("name", ATTACKS)
def test_a_hostile_dataset_is_refused_in_one_sentence_and_leaves_nothing(lab: Home, tmp_path: Path, name: str) -> None:
    make, said = ATTACKS[name]
    make(tmp_path / "set")
    with pytest.raises(EnpireError, match=said) as refusal:
        import_episodes(lab, tmp_path / "set", CAMPAIGN)
    assert "\n" not in str(refusal.value)
    assert not list(FolderStore(lab.episodes).ids())


def test_an_episode_that_leaves_the_bounds_is_left_out_and_rounding_is_not(lab: Home, tmp_path: Path) -> None:
    high = np.array([one.high for one in SPEC.action])
    action = np.zeros((12, SPEC.action_dim))
    action[2] = high * 1.001
    action[8] = high * 1.5
    taken = import_episodes(lab, written(tmp_path / "set", of_the_task(action=action.tolist())), CAMPAIGN)
    assert (taken.episodes, taken.out_of_bounds) == (1, ("episode-1",))


def test_a_small_file_that_describes_much_is_refused_before_it_fills_the_memory(tmp_path: Path) -> None:
    root = big(tmp_path / "set", 4096)
    assert (root / "meta" / "tasks.parquet").stat().st_size < 10_000_000
    before = resource.getrlimit(resource.RLIMIT_AS)
    with pytest.raises(FileProblem, match=r"takes more than 0\.25 GiB of memory"), memory_limit(root, 2**28):
        read_instructions(root)
    assert resource.getrlimit(resource.RLIMIT_AS) == before


def test_files_are_found_below_the_dataset_and_links_within_it_are_allowed(tmp_path: Path) -> None:
    root = tmp_path / "set"
    root.mkdir()
    (root / "a.mp4").write_bytes(b"")
    (root / "b.mp4").symlink_to("a.mp4")
    (root / "loop").symlink_to("loop")
    assert below(root, "b.mp4") == (root / "a.mp4").resolve()
    with pytest.raises(FileProblem, match="cannot be read"):
        below(root, "loop")


def test_a_pattern_names_videos_as_lerobot_does() -> None:
    pattern = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
    assert video_name(pattern, "cam", 2, 1234) == pattern.format(video_key="cam", chunk_index=2, file_index=1234)
    assert video_name("{video_key}-{file_index}", "a", 0, 7) == "a-7"
