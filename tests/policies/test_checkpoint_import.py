"""A checkpoint of `lerobot-train` becomes a version by one command, or is refused with what does not fit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from enpire.cli import app
from enpire.home import Home, open_home
from enpire.interfaces import ImportChoices
from enpire.service.datasets import import_checkpoint
from enpire.types import Observation
from sim.tasks.push_t import PushT
from tests.policies.tiny_act import write_act

SPEC = PushT.spec
LAST = ("outputs", "train", "checkpoints", "last", "pretrained_model")


def enpire(home: Home, *words: str | Path) -> Result:
    return CliRunner().invoke(app, ["policy", "import", *map(str, words), "--home", str(home.root)])


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return open_home(tmp_path / "home")


def trained(folder: Path, **changes: Any) -> Path:
    """A checkpoint as `lerobot-train` writes it, with weights that are none; `changes` are of its config.json."""
    state, action = {"type": "STATE", "shape": [SPEC.state_dim]}, {"type": "ACTION", "shape": [SPEC.action_dim]}
    config = {
        "type": "act", "input_features": {"observation.state": state}, "output_features": {"action": action},
        "n_action_steps": 3, "chunk_size": 4, **changes,
    }  # fmt: skip
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").write_bytes(b"weights")
    for name in ("policy_preprocessor.json", "policy_postprocessor.json"):
        (folder / name).write_text(json.dumps({"name": "steps", "steps": []}))
    (folder / "train_config.json").write_text("{}")
    return folder


def test_every_way_to_name_a_checkpoint_gives_the_same_version(home: Home, tmp_path: Path) -> None:
    folder = trained(tmp_path.joinpath(*LAST))
    named = [folder, folder / "model.safetensors", folder / "config.json", *list(folder.parents)[:3]]
    found = {import_checkpoint(home, one, "push_t", ImportChoices()) for one in named}
    (policy_id,) = found
    about = json.loads((home.versions / policy_id / "policy.json").read_text())
    assert about == {
        "kind": "lerobot", "inputs": {"observation.state": [0, SPEC.state_dim]}, "execute": 3,
        "task": SPEC.instruction,
    }  # fmt: skip
    assert not (home.versions / policy_id / "train_config.json").exists()
    again = enpire(home, home.versions / policy_id)
    assert again.stdout.strip() == policy_id, "a version is imported as it is"


def test_lerobots_own_checkpoint_acts(home: Home, tmp_path: Path) -> None:
    from policies.lerobot_policy import load

    folder = write_act(tmp_path / "act", SPEC.cameras[0], (32, 32), SPEC.state_dim, 0.1)
    (folder / "policy.json").unlink()
    result = enpire(home, folder, "--task", "push_t", "--execute", "2", "--instruction", "push it")
    assert result.exit_code == 0, result.output
    version = home.versions / result.stdout.split()[0]
    policy = load(version)
    policy.begin(0, 1)
    images = {SPEC.cameras[0]: np.zeros((1, 32, 32, 3), np.uint8)}
    state = np.zeros((1, SPEC.state_dim), np.float32)
    assert policy.act(Observation(stamp_ns=0, state=state, images=images), np.array([0])).shape == (
        1,
        4,
        SPEC.action_dim,
    )
    assert policy.execute == 2
    assert json.loads((version / "policy.json").read_text())["task"] == "push it"


def test_chosen_columns_are_the_inputs(home: Home, tmp_path: Path) -> None:
    inputs = {
        "observation.state": {"type": "STATE", "shape": [2]},
        "observation.environment_state": {"type": "ENV", "shape": [SPEC.state_dim - 2]},
    }
    folder = trained(tmp_path / "made", input_features=inputs)
    refused = enpire(home, folder, "--task", "push_t")
    assert refused.exit_code == 1
    assert "choose them with `--state observation.state=FIRST:END`" in refused.stderr
    result = enpire(
        home, folder, "--task", "push_t", "--state", "observation.state=0:2",
        "--state", f"observation.environment_state=2:{SPEC.state_dim}",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    about = json.loads((home.versions / result.stdout.split()[0] / "policy.json").read_text())
    assert about["inputs"] == {
        "observation.state": [0, 2], "observation.environment_state": [2, SPEC.state_dim],
    }  # fmt: skip


STATE = {"type": "STATE", "shape": [SPEC.state_dim]}
CAMERA = {"observation.state": STATE, "observation.images.nose": {"type": "VISUAL", "shape": [3, 8, 8]}}


@pytest.mark.parametrize(
    ("changes", "words", "said"),
    [
        ({}, [], "name its task with --task"),
        ({}, ["--task", "sewing"], "sewing"),
        ({"output_features": {"action": {"type": "ACTION", "shape": [7]}}}, ["--task", "push_t"], "gives 7 numbers"),
        ({"output_features": {}}, ["--task", "push_t"], "has no output_features"),
        ({"input_features": {"observation.state": {}}}, ["--task", "push_t"], "needs a type and a shape"),
        ({"input_features": CAMERA}, ["--task", "push_t"], "needs the camera 'nose'"),
        ({}, ["--task", "push_t", "--state", "q=0:2"], "has no input 'q'"),
        ({}, ["--task", "push_t", "--state", "q=0"], "is not understood"),
        ({"type": "evil"}, ["--task", "push_t"], "is of type"),
        ({"auto_map": {"a": "b"}}, ["--task", "push_t"], "makes a library import code"),
    ],
)
def test_what_does_not_fit_gets_one_sentence_and_no_version(
    home: Home, tmp_path: Path, changes: dict[str, Any], words: list[str], said: str
) -> None:
    result = enpire(home, trained(tmp_path / "made", **changes), *words)
    assert result.exit_code == 1
    assert said in result.stderr
    assert list(home.versions.iterdir()) == []


def test_what_is_no_checkpoint_gets_one_sentence(home: Home, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for named in (tmp_path / "empty", tmp_path / "nowhere"):
        result = enpire(home, named, "--task", "push_t")
        assert result.exit_code == 1
        assert "is no checkpoint" in result.stderr
    policy_id = import_checkpoint(home, trained(tmp_path / "made"), "push_t", ImportChoices())
    result = enpire(home, home.versions / policy_id, "--task", "push_t")
    assert "says how it is used: leave out the options" in result.stderr
    result = enpire(home, "ws://127.0.0.1:9")
    assert "For the address of a server give --task" in result.stderr
