"""Policies of LeRobot's plug-in packages `lerobot_policy_*`: the peer in tests/fakes/lerobot_peer is on the path."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("lerobot")

import torch

from enpire.errors import PolicyProblem
from enpire.files import parse
from enpire.interfaces import ImprovementJob
from enpire.plugins import load
from enpire.types import Observation
from policies import lerobot_files, lerobot_plugins
from policies.lerobot_base import LerobotShape, new_parts
from policies.lerobot_learner import LerobotHabc, LerobotSettings
from policies.normalise import Scale
from tests.policies.recorded import driven, write

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]
PEER = Path(__file__).resolve().parents[1] / "fakes" / "lerobot_peer"


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(PEER))
    lerobot_plugins.import_plugins.cache_clear()
    yield
    lerobot_plugins.import_plugins.cache_clear()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    scales = [Scale(mean=np.zeros(wide, np.float32), spread=np.ones(wide, np.float32)) for wide in (3, 2)]
    lerobot_plugins.require_type("peer", ("act",))
    made = tmp_path / "version"
    made.mkdir()
    lerobot_files.save(new_parts(LerobotShape(family="peer", width=64, horizon=6, execute=3), *scales), made)
    return made


def test_an_installed_plug_in_loads_as_a_version(folder: Path) -> None:
    loader: Any = load("policies", "lerobot")
    policy = loader(folder)
    assert (policy.horizon, policy.execute) == (6, 3)
    for lane in range(5):
        policy.begin(lane, seed=lane)
    states = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    chunks = policy.act(Observation(stamp_ns=0, state=states), np.arange(5))
    assert chunks.shape == (5, 6, 2)
    assert np.isfinite(chunks).all()
    assert np.ptp(chunks, axis=0).max() > 0, "it reads the state"


def test_its_own_processor_step_is_admitted_and_another_one_is_not(folder: Path) -> None:
    path = folder / "policy_preprocessor.json"
    saved = json.loads(path.read_text())
    assert "peer_passes_on" in [step["registry_name"] for step in saved["steps"]]
    saved["steps"][-1]["registry_name"] = "map_delta_action_to_robot_action"  # LeRobot has it, and it is on no list
    path.write_text(json.dumps(saved))
    with pytest.raises(PolicyProblem, match="is 'map_delta_action_to_robot_action'; these steps are allowed"):
        lerobot_files.load_parts(folder)


@pytest.mark.parametrize(
    ("key", "value"), [("auto_map", {"AutoModel": "x.Y"}), ("encoder_name", "someone/else"), ("use_peft", True)]
)
def test_its_configuration_is_checked_like_every_other(folder: Path, key: str, value: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    with pytest.raises(PolicyProblem, match=key):
        lerobot_files.load_parts(folder)


def test_a_plug_in_that_is_not_installed_or_broken_is_named(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = tmp_path / "site" / "lerobot_policy_broken-1.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: lerobot-policy-broken\nVersion: 1\n")
    (tmp_path / "site" / "lerobot_policy_broken.py").write_text("raise RuntimeError('no CUDA here')\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    lerobot_plugins.import_plugins.cache_clear()
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "type": "broken"}))
    with pytest.raises(PolicyProblem, match=r"lerobot_policy_broken could not be imported \(RuntimeError: no CUDA"):
        lerobot_files.load_parts(folder)


def test_the_learner_improves_it_and_makes_a_new_one(tmp_path: Path) -> None:
    folders = [write(tmp_path / "episodes", driven(seed, expert=seed < 4)) for seed in range(8)]
    report: list[object] = []
    parent: Path | None = None
    for number in range(2):
        job = ImprovementJob(
            recipe={"name": "peer", "learner": "lerobot", "settings": SETTINGS if parent is None else REST},
            task="point", parent=parent, episodes=folders, work=tmp_path / f"work{number}",
            output=tmp_path / f"made{number}", round=number, seed=1,
        )  # fmt: skip
        job.work.mkdir()
        metrics = LerobotHabc().improve(job, report.append)
        assert np.isfinite(metrics["loss"])
        parent = job.output
        made = lerobot_files.load_parts(parent)
        assert made.policy.config.type == "peer"
    first, second = ((tmp_path / f"made{number}" / "model.safetensors").read_bytes() for number in range(2))
    assert first != second


REST = {"batch": 32, "least_steps": 20, "most_steps": 20, "critic_steps": 20, "critic_batch": 64, "critic_hidden": 32}
SETTINGS = {**REST, "family": "peer"}


def test_an_unknown_family_and_a_size_that_it_lacks_are_one_sentence() -> None:
    with pytest.raises(Exception, match="family is 'sewing'; a new policy can be one of act, diffusion, peer"):
        parse(LerobotSettings, {"family": "sewing"}, "The recipe")
    with pytest.raises(Exception, match="width changes nothing here, because a peer policy has its own size"):
        parse(LerobotSettings, {"family": "peer", "width": 32}, "The recipe")
