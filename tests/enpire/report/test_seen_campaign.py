"""A whole campaign with a robot that has a camera and a policy that looks: what it saw arrives, and makes it better."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from enpire.datasets.dataset_export import export_episodes
from enpire.home import open_home
from enpire.queries import campaigns
from enpire.report import charts
from enpire.store import versions
from enpire.store.episodes import FolderStore
from enpire.store.pictures import NAME, Pictures
from tests.fakes.point_task import environment
from tests.fakes.reach_task import MODULE, reach_station
from tests.policies.tiny_act import write_act
from web_ui.archive import Archive

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
SMALL = {"most_steps": 8, "least_steps": 8, "batch": 8, "critic_steps": 20, "critic_batch": 16, "critic_hidden": 16}


def test_what_a_robot_saw_makes_its_policy_better(tmp_path: Path) -> None:
    pytest.importorskip("lerobot")
    home = open_home(tmp_path / "home")
    policy = versions.publish(write_act(tmp_path / "act", "top", (48, 64), 4, 0.02), home.versions)
    recipe, plan, arm = tmp_path / "small.yaml", tmp_path / "seen.yaml", reach_station(tmp_path)
    recipe.write_text(yaml.safe_dump({"name": "small", "like": "lerobot_act", "settings": SMALL}))
    campaign = {
        "name": "seen", "task": f"{MODULE}:ReachTask", "recipe": str(recipe),
        "stations": {
            "count": 1, "lanes": 1, "driver": arm.driver, "options": dict(arm.options), "pace": "realtime",
            "reset": "robot", "ahead": 2,
        },
        "base": {"policy": policy, "evaluate_starts": 3}, "rounds": {"episodes": 4, "train_starts": 8},
        "gate": {"pairs": 2}, "budget": {"wall_s": 600, "rounds": 1},
    }  # fmt: skip
    plan.write_text(yaml.safe_dump(campaign))
    done = subprocess.run(
        [sys.executable, "-m", "enpire.cli", "run", str(plan), "--home", str(home.root), "--headless"],
        capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, env=environment(),
    )  # fmt: skip
    said = done.stdout + done.stderr
    assert "gate 1: candidate" in said, said
    assert "the budget of 1 rounds is used up" in said, said
    store = FolderStore(home.episodes)
    folders = [store.folder(order_id) for order_id in store.ids()]
    filmed = [folder for folder in folders if store.facts(folder).pictures_sha256]
    assert len(filmed) >= 3 + 4 + 2, "what was measured, collected and judged"
    for folder in filmed:
        film = Pictures(folder / NAME)
        assert (film.cameras, len(film.names)) == (("top",), store.facts(folder).ticks + 1)
    with campaigns.open_records(home.root) as records:
        collected = [
            order_id for order_id in records.reading.training_episodes(campaigns.find_campaign(records, "")) if order_id
        ]
    assert len(collected) >= 4
    archive = Archive(home.root)
    shown = archive.episode(collected[0]).pictures
    assert shown[0] == "top_00000.jpg"
    assert archive.picture(collected[0], shown[-1]).startswith(b"\xff\xd8")
    assert charts.image_strip(str(store.folder(collected[0]))).count("<img") == 6
    assert export_episodes(home, collected, tmp_path / "set", cameras=True).written == len(collected)
