"""A reward model is read by LeRobot only after its files, and those of the model under it, were found to hold data."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from enpire.errors import MissingExtra, PolicyProblem
from enpire.interfaces import Evidence
from enpire.types import EpisodeArrays
from policies.progress_verifier import ProgressVerifier, open_verifier
from policies.reward_admission import admit_reward_model, digest_of_files
from sim.tasks.pin_insertion import PinInsertion
from tests.policies.without_lerobot import without_lerobot

QWEN = "Qwen/Qwen3-VL-8B-Instruct"
HONEST: dict[str, Any] = {
    "robometer": {"type": "robometer", "base_model_id": "base", "vlm_config": {"model_type": "qwen3_vl"}},
    "topreward": {"type": "topreward", "vlm_name": "base", "attn_implementation": "sdpa"},
}


def write(folder: Path, config: object, base: dict[str, object] | None = None) -> Path:
    (folder / "base").mkdir(parents=True)
    text = config if isinstance(config, str) else json.dumps(config)
    (folder / "config.json").write_text(text, encoding="utf-8")
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / "base" / "config.json").write_text(json.dumps(base or {"model_type": "qwen3_vl"}), encoding="utf-8")
    return folder


@pytest.mark.parametrize("family", HONEST)
def test_a_model_with_its_base_inside_is_admitted(family: str, tmp_path: Path) -> None:
    folder = write(tmp_path / "model", HONEST[family])
    config = admit_reward_model(folder, ())
    base = config["base_model_id" if family == "robometer" else "vlm_name"]
    assert base == str((folder / "base").resolve())
    assert config["pretrained_path"] == str(folder.resolve())
    assert config["device"] == "cpu"


def test_a_remote_base_needs_the_word_of_the_labs_own_file(tmp_path: Path) -> None:
    folder = write(tmp_path / "model", {**HONEST["topreward"], "vlm_name": QWEN})
    with pytest.raises(PolicyProblem, match=f"'vlm_name', names '{QWEN}'.*list the name under hub_models"):
        admit_reward_model(folder, ())
    with pytest.raises(PolicyProblem, match="list the name under hub_models"):
        admit_reward_model(folder, ("Qwen/Qwen3-VL-8B",))
    assert admit_reward_model(folder, (QWEN,))["vlm_name"] == QWEN


ESCAPED = '{"type": "topreward", "vlm_name": "base", "vlm_config": {"\\u0061uto_map": {"AutoModel": "evil.py"}}}'
TWICE = '{"type": "topreward", "vlm_name": "base", "vlm_name": "evil/model"}'
FIELDS: dict[str, tuple[object, str]] = {
    "a base elsewhere by default": ({"type": "robometer"}, "'base_model_id', names None"),
    "a base on a hub": ({**HONEST["robometer"], "base_model_id": "evil/model"}, "names 'evil/model'"),
    "a base by a path": ({**HONEST["robometer"], "base_model_id": "/tmp"}, "names '/tmp'"),
    "a base above": ({**HONEST["robometer"], "base_model_id": "../base"}, r"names '\.\./base'"),
    "this folder as its base": ({**HONEST["robometer"], "base_model_id": "."}, r"names '\.'"),
    "a list of bases": ({**HONEST["robometer"], "base_model_id": ["base"]}, r"names \['base'\]"),
    "a base named twice": (TWICE, "names 'evil/model'"),
    "code by auto_map": (
        {**HONEST["robometer"], "vlm_config": {"auto_map": {"AutoModel": "x.Y"}}}, "'auto_map', which makes",
    ),
    "code by an escaped key": (ESCAPED, "'auto_map', which makes"),
    "trust": ({**HONEST["topreward"], "trust_remote_code": True}, "'trust_remote_code'"),
    "a kernel of a hub": ({**HONEST["topreward"], "attn_implementation": "evil/kernel"}, "allowed is eager"),
    "a second model": ({**HONEST["topreward"], "model_name": "evil/model"}, "'model_name', names 'evil/model'"),
    "a tokenizer elsewhere": ({**HONEST["topreward"], "tokenizer_name": "evil/words"}, "'tokenizer_name'"),
    "another type": ({**HONEST["topreward"], "type": "sarm"}, "is of type 'sarm'"),
    "no type": ({"vlm_name": "base"}, "is of type None"),
    "a type that is a list": ({"type": ["topreward"]}, "is of type"),
    "no JSON": ("{", "cannot be read as JSON"),
}  # fmt: skip


@pytest.mark.parametrize("name", FIELDS)
def test_a_field_that_could_run_or_fetch_something_is_refused(name: str, tmp_path: Path) -> None:
    config, said = FIELDS[name]
    folder = write(tmp_path / "model", config)
    with pytest.raises(PolicyProblem, match=said) as refusal:
        admit_reward_model(folder, ())
    assert str(folder) in str(refusal.value)


def link(folder: Path) -> None:
    (folder / "base" / "tokenizer.json").symlink_to("/etc/passwd")


FILES: dict[str, tuple[Callable[[Path], object], str]] = {
    "code": (lambda folder: (folder / "modeling.py").write_text("x"), "modeling.py does not belong"),
    "code in the base": (lambda folder: (folder / "base" / "modeling.py").write_text("x"), "does not belong"),
    "a pickle": (lambda folder: (folder / "base" / "pytorch_model.bin").write_bytes(b"x"), "does not belong"),
    "a link": (link, "tokenizer.json does not belong"),
    "a folder in the base": (lambda folder: (folder / "base" / "more").mkdir(), "more does not belong"),
    "code by the base": (
        lambda folder: (folder / "base" / "config.json").write_text('{"auto_map": {"AutoModel": "x.Y"}}'), "auto_map",
    ),
    "code by the processor": (
        lambda folder: (folder / "base" / "processor_config.json").write_text('{"auto_map": {"AutoProcessor": "x.Y"}}'),
        "auto_map",
    ),
    "code by a second file": (
        lambda folder: (folder / "preprocessor_config.json").write_text('{"auto_map": {"AutoProcessor": "x.Y"}}'),
        "auto_map",
    ),
    "a model under the base": (
        lambda folder: (folder / "base" / "config.json").write_text('{"base_model": "evil/model"}'), "'base_model'",
    ),
    "no configuration": (lambda folder: (folder / "config.json").unlink(), "config.json"),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_could_run_or_fetch_something_is_refused(name: str, tmp_path: Path) -> None:
    change, said = FILES[name]
    folder = write(tmp_path / "model", HONEST["robometer"])
    change(folder)
    with pytest.raises((PolicyProblem, FileNotFoundError), match=said):
        admit_reward_model(folder, ())


TASK = PinInsertion()
CAMERA = TASK.spec.cameras[0]


def verifier_of(folder: Path) -> ProgressVerifier:
    return open_verifier(TASK, {"model": str(folder), "camera": CAMERA, "threshold": 0.5})


@pytest.mark.parametrize("name", [*FIELDS, *FILES])
def test_no_verifier_is_made_of_a_hostile_model_and_lerobot_is_not_imported(name: str, tmp_path: Path) -> None:
    folder, said = tmp_path / "model", ""
    if name in FIELDS:
        config, said = FIELDS[name]
        write(folder, config)
    else:
        change, said = FILES[name]
        change(write(folder, HONEST["robometer"]))
    with without_lerobot() as asked, pytest.raises((PolicyProblem, FileNotFoundError), match=said):
        verifier_of(folder)
    assert asked == []


def dangle(folder: Path) -> None:
    (folder / "base" / "tokenizer.json").symlink_to(folder / "comes later")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda folder: (folder / "modeling.py").write_text("x"), "were changed after this verifier was made"),
        (dangle, "tokenizer.json does not belong"),  # a link to nothing has no bytes that the digest could cover
    ],
)
def test_a_model_that_turns_hostile_before_its_first_verdict_is_refused_before_lerobot_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], object], said: str
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    arrays = EpisodeArrays(
        state=np.zeros((2, TASK.spec.state_dim), np.float32), action=np.zeros((1, TASK.spec.action_dim), np.float32),
        source=np.zeros(1, np.uint8), chunk=np.zeros(1, np.int32),
    )  # fmt: skip
    ended = Evidence(arrays=arrays, images={CAMERA: np.zeros((8, 10, 3), np.uint8)})
    folder = write(tmp_path / "model", HONEST["robometer"])
    verifier = verifier_of(folder)
    with without_lerobot() as asked, pytest.raises(MissingExtra, match="this test hides it"):
        verifier.judge(ended)
    assert asked, "an honest model is loaded with LeRobot"
    change(folder)
    with without_lerobot() as asked, pytest.raises(PolicyProblem, match=said):
        verifier.judge(ended)
    assert asked == []


def test_a_type_of_another_package_is_admitted_where_it_is_named(tmp_path: Path) -> None:
    folder = write(tmp_path / "model", {"type": "glow", "gain": 2.0})
    with pytest.raises(PolicyProblem, match="is of type 'glow'"):
        admit_reward_model(folder, ())
    assert admit_reward_model(folder, (), ("glow",))["gain"] == 2.0


def test_the_digest_covers_every_file(tmp_path: Path) -> None:
    folder = write(tmp_path / "model", HONEST["robometer"])
    found = {digest_of_files(folder)}
    for name in ("config.json", "model.safetensors", "base/config.json", "base/vocab.txt"):
        path = folder / name
        path.write_bytes((path.read_bytes() if path.exists() else b"") + b" ")
        found.add(digest_of_files(folder))
    assert len(found) == 5
