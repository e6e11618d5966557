from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from enpire.cli import app
from enpire.errors import UnknownName
from enpire.home import open_home
from enpire.offline.compare import Comparison, compare, find_version
from enpire.store import durable

POINT = "tests.fakes.point_task:PointTask"


def enpire(*words: str | Path) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def a_version(folder: Path) -> Path:
    durable.make_folder(folder)
    durable.write(folder / "policy.json", b'{"kind": "flow"}')
    return folder


def test_versions_are_found_by_folder_and_by_the_beginning_of_an_id(tmp_path: Path) -> None:
    home = open_home(tmp_path)
    first = a_version(home.versions / ("a" * 64))
    a_version(home.versions / ("ab" * 32))
    assert find_version(home, str(first)) == first
    assert find_version(home, "aa") == first
    with pytest.raises(UnknownName, match="More than one version .* begins with 'a'"):
        find_version(home, "a")
    with pytest.raises(UnknownName, match="there are: aaaaaaaaaaaa, abababababab"):
        find_version(home, "z")


def test_a_version_against_itself_is_never_promoted(tmp_path: Path) -> None:
    home = open_home(tmp_path)
    asked = Comparison(task=POINT, champion="scripted:expert", candidate="scripted:expert", pairs=12, lanes=4, seed=3)
    heard: list[int] = []
    decision = compare(home, asked, lambda reading: heard.append(reading.tally.pairs))
    assert decision.kind == "hold"
    assert (decision.tally.wins, decision.tally.losses) == (0, 0), "the same starts and the same luck"
    assert heard == sorted(heard)


def test_the_same_seed_is_the_same_comparison(tmp_path: Path) -> None:
    words = [
        "gate",
        "scripted:expert",
        "scripted:expert",
        "--task",
        POINT,
        "--pairs",
        "8",
        "--lanes",
        "4",
        "--seed",
        "5",
    ]
    first, second = (enpire(*words, "--home", tmp_path, "--json") for _ in range(2))
    assert first.exit_code == second.exit_code == 3, first.output
    assert json.loads(first.stdout) == json.loads(second.stdout)


def test_improve_needs_episodes(tmp_path: Path) -> None:
    from tests.fakes.sample_campaign import begin

    begin(tmp_path).flush()
    result = enpire("improve", "clone_demonstrations", "--home", tmp_path)
    assert result.exit_code == 1
    assert "no recorded episode" in result.stderr
