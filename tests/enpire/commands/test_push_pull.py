"""`enpire policy push | pull` and `enpire episodes push | pull` as commands, with a hub that runs in the test."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from enpire.home import Home, open_home
from enpire.service.datasets import import_version
from enpire.store import origins
from tests.fakes.model_hub import Hub, running_hub


@pytest.fixture
def hub() -> Iterator[Hub]:
    with running_hub() as started:
        yield started


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return open_home(tmp_path / "home")


@pytest.fixture
def version(home: Home, tmp_path: Path) -> Path:
    """A version in the home."""
    made = tmp_path / "made"
    made.mkdir()
    (made / "policy.json").write_text(json.dumps({"kind": "program", "gain": 2}))
    (made / "weights.npz").write_bytes(b"w" * 100_000)
    return home.versions / import_version(home, made)


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    """A folder that looks like a dataset."""
    made = tmp_path / "set"
    (made / "meta").mkdir(parents=True)
    (made / "data").mkdir()
    (made / "meta" / "info.json").write_text('{"codebase_version": "v3.0"}')
    (made / "data" / "file-000.parquet").write_bytes(b"p" * 5000)
    (made / "README.md").write_text("# card of the export\n")
    return made


HELPER = """
import json, sys
from typer.testing import CliRunner
from enpire.cli import app
for line in sys.stdin:
    done = CliRunner().invoke(app, json.loads(line))
    print(json.dumps([done.exit_code, done.output]), flush=True)
"""
"""Runs one command after the other."""
Enpire = Callable[..., str]


@pytest.fixture
def enpire(hub: Hub, tmp_path: Path) -> Iterator[Enpire]:
    """Runs a command in a process beside the test: the hub's client reads its variables once. Returns what it said."""
    surroundings = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    surroundings.update(hub.environment(str(tmp_path / "hf")))
    with subprocess.Popen(
        [sys.executable, "-c", HELPER], env=surroundings, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as helper:
        asked, answers = helper.stdin, helper.stdout
        assert asked is not None
        assert answers is not None

        def run(*words: str | Path, code: int = 0) -> str:
            asked.write(json.dumps([str(word) for word in words]) + "\n")
            asked.flush()
            ended, said = json.loads(answers.readline())
            assert ended == code, said
            assert "Traceback" not in said
            return str(said)

        yield run
        asked.close()


def test_a_version_goes_to_a_hub_and_into_another_home(
    enpire: Enpire, hub: Hub, home: Home, version: Path, tmp_path: Path
) -> None:
    said = enpire("policy", "push", version.name[:12], "hf://me/net", "--home", home.root)
    repo = hub.repos["model", "me/net"]
    assert repo.private
    commit, files = repo.commits[-1]
    assert f"hf://me/net@{commit}" in said
    assert sorted(files) == ["README.md", "enpire.json", "policy.json", "weights.npz"]
    assert version.name in files["README.md"].decode()
    # The newest commit is another one now: the address that `push` printed gives what was pushed.
    repo.commits.append(("f" * 40, {"thesis.tex": b"x"}))
    other = tmp_path / "other"
    said = enpire("policy", "pull", f"hf://me/net@{commit}", "--home", other)
    assert version.name in said
    assert (other / "versions" / version.name / "weights.npz").read_bytes() == b"w" * 100_000
    assert (other / "versions" / version.name / "policy.json").read_bytes() == files["policy.json"]
    origin = origins.find(other, version.name)
    assert origin is not None
    assert (origin.source, origin.revision) == (f"hf://me/net@{commit}", commit)


def test_a_push_that_failed_at_the_commit_sends_nothing_large_again(
    enpire: Enpire, hub: Hub, home: Home, version: Path, tmp_path: Path
) -> None:
    push = ("policy", "push", version.name, "hf://me/net", "--home", home.root)
    hub.refused = "/commit/"
    assert "The hub refused hf://me/net" in enpire(*push, code=1)
    assert len([line for line in hub.asked if line.startswith("PUT /large/")]) == 1
    assert len(hub.repos["model", "me/net"].commits) == 1
    hub.refused = ""
    enpire(*push)
    assert len([line for line in hub.asked if line.startswith("PUT /large/")]) == 1
    assert "weights.npz" in hub.repos["model", "me/net"].commits[-1][1]


def test_a_dataset_goes_to_a_hub_again_and_back(enpire: Enpire, hub: Hub, dataset: Path, tmp_path: Path) -> None:
    url = "hf://datasets/me/set"
    enpire("episodes", "push", dataset, url)
    repo = hub.repos["dataset", "me/set"]
    first = repo.commits[-1][0]
    assert repo.tags == {"v3.0": first}
    assert repo.commits[-1][1]["README.md"] == b"# card of the export\n"
    # A second push: files that it has no more go, files of others stay, and the tag of LeRobot moves.
    repo.commits[-1][1][".gitattributes"] = b"of the hub"
    (dataset / "data" / "file-000.parquet").rename(dataset / "data" / "file-001.parquet")
    enpire("episodes", "push", dataset, url)
    commit, files = repo.commits[-1]
    assert sorted(files) == [".gitattributes", "README.md", "data/file-001.parquet", "enpire.json", "meta/info.json"]
    assert repo.tags == {"v3.0": commit}
    said = enpire("episodes", "pull", url, tmp_path / "back")
    assert f"{url}@{commit}" in said
    assert (tmp_path / "back" / "data" / "file-001.parquet").read_bytes() == b"p" * 5000
    enpire("episodes", "pull", f"{url}@{first}", tmp_path / "first")
    assert (tmp_path / "first" / "data" / "file-000.parquet").is_file()


def test_what_the_hub_or_its_user_has_wrong_is_one_sentence(
    enpire: Enpire, hub: Hub, home: Home, version: Path, dataset: Path, tmp_path: Path
) -> None:
    push = ("policy", "push", version.name, "--home", home.root)
    assert "write hf://USER/NAME" in enpire(*push, "hf://datasets/me/net", code=1)
    assert "leave @old out" in enpire(*push, "hf://me/net@old", code=1)
    assert not hub.repos
    pull = ("policy", "pull", "--home", home.root)
    assert "The hub refused hf://me/none" in enpire(*pull, "hf://me/none", code=1)
    enpire(*push, "hf://me/net", "--public")
    assert not hub.repos["model", "me/net"].private
    assert "is public: repeat the command with --public" in enpire(*push, "hf://me/net", code=1)
    hub.repos["model", "me/net"].commits[-1][1].pop("enpire.json")
    assert "no enpire.json" in enpire(*pull, "hf://me/net", code=1)


def test_a_folder_needs_no_account(enpire: Enpire, hub: Hub, home: Home, version: Path, tmp_path: Path) -> None:
    said = enpire("policy", "push", version.name, tmp_path / "shelf", "--home", home.root)
    assert re.search(r"at .*/shelf, [\d,]+ bytes sent\.", said)
    assert ", which had all of it." in enpire("policy", "push", version.name, tmp_path / "shelf", "--home", home.root)
    enpire("policy", "pull", tmp_path / "shelf", "--home", tmp_path / "other")
    assert (tmp_path / "other" / "versions" / version.name).is_dir()
    assert hub.asked == []
