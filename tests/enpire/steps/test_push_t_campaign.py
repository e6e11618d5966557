"""The shipped campaign of push_t, made small: a person takes over, HABC learns from it, and the gate is asked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from enpire.files import find
from enpire.store.arrays import unpack
from enpire.store.episodes import FolderStore
from enpire.types import SOURCE_HUMAN

pytestmark = [pytest.mark.slow]

SMALL = {
    "stations": {"count": 1, "lanes": 2, "ahead": 4},
    "base": {"demonstrations": 12, "evaluate_starts": 4},
    "rounds": {"episodes": 6},
    "gate": {"pairs": 4},
    "budget": {"wall_s": 500, "rounds": 1},
}


def recipe(folder: Path, like: str, **settings: int) -> str:
    path = folder / f"small_{like}.yaml"
    path.write_text(yaml.safe_dump({"name": path.stem, "like": like, "settings": settings}))
    return str(path)


def test_a_round_of_the_shipped_campaign(tmp_path: Path) -> None:
    campaign = yaml.safe_load(find("campaigns", "push_t").read_text())
    for section, values in SMALL.items():
        campaign[section] |= values
    campaign["recipe"] = recipe(tmp_path, campaign["recipe"], most_steps=60, critic_steps=50)
    campaign["base"]["recipe"] = recipe(tmp_path, campaign["base"]["recipe"], most_steps=100)
    path, home = tmp_path / "push_t.yaml", tmp_path / "home"
    path.write_text(yaml.safe_dump(campaign))
    done = subprocess.run(
        [sys.executable, "-m", "enpire.cli", "run", str(path), "--home", str(home), "--headless"],
        capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    said = done.stdout + done.stderr
    assert "round 1: habc learns from" in said, said
    assert "gate 1: candidate" in said, said
    assert "the budget of 1 rounds is used up" in said, said
    store = FolderStore(home / "episodes")
    folders = [item.parent for item in (home / "episodes").rglob("episode.json")]
    watched = [folder for folder in folders if store.facts(folder).order.supervised and store.facts(folder).sha256]
    assert any((unpack(store.arrays_file(folder)).source == SOURCE_HUMAN).any() for folder in watched)
