"""Checkpoints in LeRobot's format: an honest one as files alone, and the fields that make it run or fetch something."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

CONFIG: Mapping[str, object] = {
    "type": "act", "n_obs_steps": 1, "device": "cpu", "repo_id": "someone/act", "pretrained_path": "someone/base",
    "vision_backbone": "resnet18", "pretrained_backbone_weights": "ResNet18_Weights.IMAGENET1K_V1",
    "input_features": {"observation.state": {"type": "STATE", "shape": [2]}},
}  # fmt: skip
"""As LeRobot writes it, shortened."""
PIPELINE: Mapping[str, object] = {
    "name": "policy_preprocessor",
    "steps": [
        {"registry_name": "to_batch_processor", "config": {}},
        {"registry_name": "normalizer_processor", "config": {"eps": 1e-8}, "state_file": "state.safetensors"},
    ],
}
POPEN = "subprocess.Popen"


def write(folder: Path) -> Path:
    """The files of an honest checkpoint, without weights that fit."""
    folder.mkdir(parents=True, exist_ok=True)
    documents = {"config.json": CONFIG, "policy_preprocessor.json": PIPELINE, "policy_postprocessor.json": PIPELINE}
    for name, document in documents.items():
        (folder / name).write_text(json.dumps(document))
    for name in ("model.safetensors", "state.safetensors"):
        (folder / name).write_bytes(b"\2\0\0\0\0\0\0\0{}")
    (folder / "language.tokenizer_config.json").write_text('{"tokenizer_class": "TokenizersBackend"}')
    (folder / "policy.json").write_text('{"kind": "lerobot", "execute": 1, "inputs": {"observation.state": [0, 2]}}')
    return folder


def edit(path: Path, change: Callable[[Any], object]) -> None:
    """Change a JSON file in place."""
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def _set(name: str, key: str, value: object) -> Callable[[Path], None]:
    return lambda folder: edit(folder / name, lambda document: document.update({key: value}))


def _step(name: str, step: Mapping[str, object]) -> Callable[[Path], None]:
    return lambda folder: edit(folder / name, lambda document: document["steps"].insert(0, step))


def command(marker: Path) -> dict[str, object]:
    """A processor step whose class starts a program that makes the file `marker`."""
    return {"class": POPEN, "config": {"args": ["touch", str(marker)]}}


def _file(name: str, data: bytes = b"{}") -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes(data)


def _link(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").symlink_to("/etc/passwd")


BEFORE, AFTER, TOKENIZER = "policy_preprocessor.json", "policy_postprocessor.json", "language.tokenizer_config.json"
ATTACKS: Mapping[str, tuple[Callable[[Path], object], str]] = {
    "a class before": (_step(BEFORE, {"class": POPEN, "config": {"args": ["true"]}}), "registry_name"),
    "a class after": (_step(AFTER, {"class": "os.system", "config": {"command": "true"}}), "registry_name"),
    "a class beside a name": (_step(BEFORE, {"registry_name": "device_processor", "class": POPEN}), "registry_name"),
    "a step that trusts code": (_step(BEFORE, {"registry_name": "action_tokenizer_processor"}), "are allowed"),
    "a step that loads a model": (_step(AFTER, {"registry_name": "reward_classifier_processor"}), "are allowed"),
    "no step": (_step(BEFORE, {"registry_name": ["device_processor"]}), "are allowed"),
    "a state outside": (
        _step(BEFORE, {"registry_name": "normalizer_processor", "state_file": "../../x.safetensors"}), "of this folder",
    ),
    "an absolute state": (
        _step(AFTER, {"registry_name": "unnormalizer_processor", "state_file": "/x.safetensors"}), "of this folder",
    ),
    "a tokenizer by path": (
        _step(AFTER, {"registry_name": "tokenizer_processor", "config": {"tokenizer_name": "/tmp/t"}}), "outside",
    ),
    "a step with a path": (
        _step(BEFORE, {"registry_name": "device_processor", "config": {"pretrained_model": "a/b"}}), "outside",
    ),
    "a key of the pipeline": (_set(BEFORE, "module", "os"), "nothing else"),
    "steps that are none": (_set(BEFORE, "steps", {"0": 1}), "list of steps"),
    "a family from the hub": (_set("config.json", "type", "pi0_fast"), "load from their folder alone"),
    "an encoder from the hub": (_set("config.json", "vision_encoder_name", "someone/encoder"), "outside the folder"),
    "remote code": (_set("config.json", "trust_remote_code", True), "import code"),
    "code by map": (_set("config.json", "auto_map", {"AutoConfig": "evil.Config"}), "import code"),
    "a target": (_set("config.json", "extra", [{"_target_": "os.system"}]), "import code"),
    "an attribute of torchvision": (_set("config.json", "vision_backbone", "get_weight"), "allowed is"),
    "an adapter": (_set("config.json", "use_peft", True), "use_peft"),
    "a size": (_set("config.json", "dim_model", 10**12), "below 2"),
    "a tokenizer's code": (_set(TOKENIZER, "auto_map", {"AutoTokenizer": ["evil.T", None]}), "import code"),
    "a tokenizer's class": (_set(TOKENIZER, "tokenizer_class", "pipeline"), "allowed is"),
    "a tokenizer's file": (_set(TOKENIZER, "vocab_file", "/etc/passwd"), "outside the folder"),
    "a kernel from the hub": (_set(TOKENIZER, "attn_implementation", "someone/kernel"), "allowed is"),
    "code beside": (_file("language.evil.py", b""), "does not belong"),
    "a pickle": (_file("pytorch_model.bin", b"\x80\4."), "does not belong"),
    "a hub's file": (_file("language.adapter_config.json"), "no file of a tokenizer"),
    "a link": (_link, "not a plain file"),
    "a folder": (lambda folder: (folder / "code").mkdir(), "not a plain file"),
    "deep": (_file("config.json", b'{"type":' * 100_000), "cannot be read as JSON"),
    "5000 digits": (_file("config.json", b'{"type": ' + b"9" * 5000 + b"}"), "cannot be read as JSON"),
    "a long document": (_file("config.json", b" " * 2_000_000), "bytes"),
    "a list": (_file("config.json", b"[]"), "must be a JSON object"),
    "not text": (_file(BEFORE, b"\xff\xfe"), "cannot be read as JSON"),
}  # fmt: skip
"""What is done to an honest checkpoint, and a part of the sentence that refuses it."""
