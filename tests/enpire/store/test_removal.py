"""What is removed lies in the folder that the caller owns; everything else stays, whatever the names and links."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from enpire.errors import FileProblem
from enpire.store import durable, removal
from tests.fakes.point_task import environment


@pytest.fixture
def owned(tmp_path: Path) -> Path:
    """A folder with a version, next to folders of a user."""
    (tmp_path / "owned" / "a" / "b").mkdir(parents=True)
    (tmp_path / "owned" / "a" / "b" / "file").write_text("ours")
    (tmp_path / "user").mkdir()
    (tmp_path / "user" / "thesis.tex").write_text("three years")
    return tmp_path / "owned"


def whole(owned: Path) -> bool:
    return (owned.parent / "user" / "thesis.tex").read_text() == "three years"


def test_files_folders_and_links_are_removed_and_missing_ones_are_no_error(owned: Path) -> None:
    (owned / "link").symlink_to(owned.parent / "user")
    (owned / "a" / "inner").symlink_to(owned.parent / "user")
    (owned / "dangling").symlink_to(owned / "nowhere")
    for name in ("link", "a", "dangling", "never/was", "never"):
        removal.remove(owned / name, owned)
    assert list(owned.iterdir()) == []
    assert whole(owned)


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "../user", "a/../../user", "/etc", "a/b/../../..", "user\0", "../owned", "a\0b", "../owned2"],
)
def test_nothing_outside_is_removed_or_replaced(owned: Path, name: str) -> None:
    (owned.parent / "owned2").mkdir()
    for act in (removal.remove, removal.try_remove):
        with pytest.raises(FileProblem, match="is neither removed nor replaced"):
            act(owned / name, owned)
    for source, target in ((owned / name, owned / "new"), (owned / "a", owned / name)):
        with pytest.raises(FileProblem, match="is neither removed nor replaced"):
            removal.replace(source, target, owned)
    assert whole(owned)
    assert (owned / "a" / "b" / "file").read_text() == "ours"


def test_a_link_on_the_way_is_not_followed(owned: Path) -> None:
    (owned / "way").symlink_to(owned.parent / "user")
    with pytest.raises(FileProblem, match=r"over the link .*way"):
        removal.remove(owned / "way" / "thesis.tex", owned)
    with pytest.raises(FileProblem, match="over the link"):
        removal.replace(owned / "a" / "b" / "file", owned / "way" / "thesis.tex", owned)
    assert whole(owned)


def test_the_owned_folder_may_itself_be_reached_over_a_link(owned: Path) -> None:
    """An operator may keep versions on another disk."""
    (owned.parent / "disk").symlink_to(owned)
    removal.remove(owned.parent / "disk" / "a", owned.parent / "disk")
    assert not (owned / "a").exists()


def test_a_link_at_the_target_is_replaced_and_not_written_through(owned: Path) -> None:
    (owned / "target").symlink_to(owned.parent / "user" / "thesis.tex")
    removal.replace(owned / "a" / "b" / "file", owned / "target", owned)
    assert (owned / "target").read_text() == "ours"
    assert not (owned / "target").is_symlink()
    assert whole(owned)


@given(st.text(alphabet="ab./\0~*-\\é\n ", max_size=12), st.text(alphabet="ab./", max_size=6))
def test_whatever_the_name_the_outside_stays(tmp_path_factory: pytest.TempPathFactory, name: str, more: str) -> None:
    top = tmp_path_factory.mktemp("fuzz")
    kept = [top / "b", top / "owned2", top / "a"]
    for folder in (top / "owned" / "a" / "b", *kept):
        folder.mkdir(parents=True)
        (folder / "file").write_text("kept")
    (top / "owned" / "~").symlink_to(top / "a")
    for tried in (Path(f"{top / 'owned'}/{name}"), top / "owned" / name / more, Path(name)):
        for act in (removal.remove, lambda path, within: removal.replace(within / "a", path, within)):
            with contextlib.suppress(FileProblem, OSError):
                act(tried, top / "owned")
    assert [(folder / "file").read_text() for folder in kept] == ["kept"] * 3


def test_a_folder_disappears_in_one_step_and_a_killed_removal_leaves_nothing_that_counts(tmp_path: Path) -> None:
    """A process that removes a large folder is killed in the middle: its name is gone, and a sweep removes the rest."""
    half = 0
    for attempt in range(8):
        owned = tmp_path / f"owned{attempt}"
        (owned / "version").mkdir(parents=True)
        for number in range(3000):
            (owned / "version" / f"{number}").touch()
        program = (
            "import sys\nfrom pathlib import Path\nfrom enpire.store import removal\n"
            "print('ready', flush=True)\nremoval.remove(Path(sys.argv[1]), Path(sys.argv[2]))\n"
        )
        words = [sys.executable, "-c", program, str(owned / "version"), str(owned)]
        with subprocess.Popen(words, env=environment(), stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            deadline = time.monotonic() + 300
            while (owned / "version").exists() and time.monotonic() < deadline:
                pass
            process.send_signal(signal.SIGKILL)
        assert not (owned / "version").exists()
        left = [path for path in owned.iterdir() if any(path.iterdir())]
        half += bool(left)
        assert [path.name for path in owned.iterdir()] == durable.sweep(owned)
        assert list(owned.iterdir()) == []
    assert half, "the process was never killed in the middle of a removal"


def test_two_threads_that_remove_the_same_folder_both_succeed(tmp_path: Path) -> None:
    for attempt in range(20):
        owned = tmp_path / f"owned{attempt}"
        (owned / "version" / "deep").mkdir(parents=True)
        for number in range(20):
            (owned / "version" / "deep" / f"{number}").touch()
        with ThreadPoolExecutor(4) as pool:
            done = [pool.submit(removal.remove, owned / "version", owned) for _ in range(4)]
            assert [item.result() for item in done] == [None] * 4
        assert list(owned.iterdir()) == []


def test_what_the_system_refuses_is_an_error_or_left(owned: Path) -> None:
    too_long = owned / ("long" * 100)
    assert not removal.try_remove(too_long, owned)
    with pytest.raises(OSError, match="too long"):
        removal.remove(too_long, owned)


def test_only_an_empty_folder_is_removed_as_one(owned: Path) -> None:
    with pytest.raises(FileProblem, match="is neither removed nor replaced"):
        removal.remove_empty(owned.parent / "user", owned)
    with pytest.raises(OSError, match="not empty"):
        removal.remove_empty(owned / "a", owned)
    (owned / "empty").mkdir()
    removal.remove_empty(owned / "empty", owned)
    assert [path.name for path in owned.iterdir()] == ["a"]
