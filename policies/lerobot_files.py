"""A LeRobot policy (0.6.1) in a version's folder: nothing is asked of a hub, in reading or in writing.

A version's folder is LeRobot's own `pretrained_model` folder (config.json, model.safetensors, the two processors)
with our policy.json beside it, so that LeRobot's tools open it too:
{"kind": "lerobot", "inputs": {LeRobot's key: [first, last + 1] of our state}, "execute": number, "task": text}.
What a policy that reads instructions needs beside its weights (tokenizer, layout of its language model), LeRobot leaves
on the hub; here it lies in the folder, too, as `language.<file>`.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from enpire.errors import MissingExtra, PolicyProblem
from enpire.files import parse

if TYPE_CHECKING:
    from lerobot.policies.pretrained import PreTrainedPolicy

LANGUAGE = "language."
_WEIGHTS, _BEFORE, _AFTER = "model.safetensors", "policy_preprocessor.json", "policy_postprocessor.json"
_TOKENIZER = "tokenizer_processor"
_SMALL = 4096
"""Tensors of at most so many numbers are compared with the file after loading."""


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What policy.json says."""

    kind: Literal["lerobot"] = "lerobot"
    inputs: Mapping[str, tuple[int, int]]
    """LeRobot's key -> the part of our state row that it gets, [first, last + 1)."""
    execute: int
    """Actions sent before the next decision."""
    hold: int = 1
    """Times that the action of a policy that knows no chunks (LeRobot's gaussian_actor) is sent."""
    task: str = ""
    """The instruction that a vision-language-action policy reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """A LeRobot policy with its processors."""

    about: About
    policy: PreTrainedPolicy
    before: Any
    """LeRobot's pipeline that normalises a batch."""
    after: Any
    """LeRobot's pipeline that brings actions back to the robot's units."""
    language: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    """File -> its bytes: the tokenizer and the layout of a language model, as they lay in the version's folder."""


def open_parts(folder: Path) -> Parts:
    """Load a version's folder. PolicyProblem when it does not fit, MissingExtra without LeRobot."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    path = folder / "policy.json"
    try:
        document: object = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise PolicyProblem(f"{path} cannot be read ({error}); fetch the version again.") from error
    if isinstance(document, dict) and (kind := cast("dict[str, object]", document).get("kind", "lerobot")) != "lerobot":
        raise PolicyProblem(
            f"{path} is of kind {kind!r}; a LeRobot policy is of kind 'lerobot'. Improve this version with a recipe "
            "for its kind, or start without a parent."
        )
    about = parse(About, document, f"The version {path}")
    for name in ("config.json", _WEIGHTS, _BEFORE, _AFTER):
        if not (folder / name).is_file():
            # LeRobot would look for a missing file on the hub.
            raise PolicyProblem(f"{folder} lacks {name}, which every LeRobot policy has; save it with its processors.")
    try:
        # LeRobot prints while it loads; stdout belongs to whoever asked for an answer.
        with contextlib.redirect_stdout(sys.stderr):
            return _opened(folder.resolve(), about)
    except ImportError as missing:
        raise missing_extra(missing) from missing
    except (OSError, ValueError, KeyError, RuntimeError, TypeError) as error:
        raise PolicyProblem(f"{folder}: LeRobot cannot load this policy ({error}).{_hint(folder)}") from error


def _opened(folder: Path, about: About) -> Parts:
    from lerobot.configs.policies import PreTrainedConfig
    from lerobot.policies.factory import get_policy_class, make_pre_post_processors

    language = {path.name.removeprefix(LANGUAGE): path.read_bytes() for path in sorted(folder.glob(f"{LANGUAGE}*"))}
    config = PreTrainedConfig.from_pretrained(folder, local_files_only=True)
    config.device = "cpu"
    overrides: dict[str, Any] = {"device_processor": {"device": "cpu"}}
    tokenizer = _tokenizer_name(folder)
    with _unpacked(language) as place:
        if place is not None and tokenizer is not None:
            overrides[_TOKENIZER] = {"tokenizer_name": place}
        with _no_weights_of_others(config, place):
            policy = get_policy_class(config.type).from_pretrained(
                folder, config=config, local_files_only=True, strict=True
            )
        before, after = make_pre_post_processors(config, pretrained_path=str(folder), preprocessor_overrides=overrides)
    steps: Any = before.steps
    for step in steps:
        if tokenizer and hasattr(step, "input_tokenizer"):
            step.tokenizer_name = tokenizer
    _check_weights(policy, folder / _WEIGHTS)
    policy.eval()
    return Parts(about=about, policy=policy, before=before, after=after, language=language)


@contextlib.contextmanager
def _unpacked(language: Mapping[str, bytes]) -> Iterator[str | None]:
    """A folder with these files under their own names, as transformers looks for them; None without files."""
    if not language:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="enpire-language-") as place:
        for name, data in language.items():
            (Path(place) / name).write_bytes(data)
        yield place


@contextlib.contextmanager
def _no_weights_of_others(config: Any, place: str | None) -> Iterator[None]:
    """While a policy is made, it is not to fetch pretrained parts: all its weights are in its own file.

    Afterwards the configuration says again what it said, so that it is saved as it came.
    """
    instead = {"pretrained_backbone_weights": None, "load_vlm_weights": False}
    if place is not None:
        instead["vlm_model_name"] = place
    said = {name: getattr(config, name) for name in instead if hasattr(config, name)}
    for name in said:
        setattr(config, name, instead[name])
    try:
        yield
    finally:
        for name, value in said.items():
            setattr(config, name, value)


def _tokenizer_name(folder: Path) -> str | None:
    """What the saved pipeline calls its tokenizer; None when it has none."""
    steps = json.loads((folder / _BEFORE).read_text(encoding="utf-8"))["steps"]
    named = [step["config"].get("tokenizer_name", "") for step in steps if step.get("registry_name") == _TOKENIZER]
    return named[0] if named else None


def _language_of(policy: Any, before: Any) -> dict[str, bytes]:
    """The files of a loaded policy's tokenizer and, where its language model's layout is apart, of that; or none."""
    speakers = [step.input_tokenizer for step in before.steps if hasattr(step, "input_tokenizer")]
    vlm = getattr(getattr(policy, "model", None), "vlm_with_expert", None)
    if vlm is not None:
        speakers += [vlm.processor, vlm.config]
    with tempfile.TemporaryDirectory(prefix="enpire-language-") as place:
        for speaker in speakers:
            speaker.save_pretrained(place)
        return {path.name: path.read_bytes() for path in sorted(Path(place).iterdir()) if path.is_file()}


def _check_weights(policy: Any, file: Path) -> None:
    """PolicyProblem unless every tensor came from the file: some of LeRobot's loaders only print what went wrong."""
    table = policy.state_dict(keep_vars=True)
    with safe_open(file, framework="pt") as kept:
        known = {name if name in table else f"model.{name}": name for name in kept.keys()}  # noqa: SIM118
        loaded = {table[name].data_ptr() for name in known if name in table}
        missing = [name for name, value in table.items() if name not in known and value.data_ptr() not in loaded]
        wrong = [
            name
            for name, stored in known.items()
            if name in table and table[name].numel() <= _SMALL
            and not torch.equal(table[name].detach().cpu(), kept.get_tensor(stored).to(table[name].dtype))
        ]  # fmt: skip
    if missing or wrong:
        raise PolicyProblem(
            f"{file} does not hold the weights of this {policy.config.type} policy: {len(missing)} tensors are missing "
            f"and {len(wrong)} were not taken, {(missing + wrong)[0]} for one; its config.json may be another one's."
        )


def _hint(folder: Path) -> str:
    if _tokenizer_name(folder) is None or any(folder.glob(f"{LANGUAGE}*")):
        return ""
    return (
        " Its tokenizer lies neither in the folder nor in Hugging Face's cache on this machine: load the policy once "
        "with LeRobot where there is a way to the hub; every version made from it then carries the tokenizer along."
    )


def missing_extra(missing: ImportError) -> MissingExtra:
    """The sentence for a LeRobot that is not there, or lacks what one family of policies needs."""
    extra = "vla" if "transformers" in str(missing) else "lerobot"
    return MissingExtra(
        f"This LeRobot policy needs a package that is not installed ({missing}): pip install 'enpire[{extra}]'."
    )


def save(parts: Parts, folder: Path) -> None:
    """Write a version into an existing folder; LeRobot's tools and `open_parts` both open it."""
    for parameter in parts.policy.parameters():
        # A trained network's parameters may be views of one row; a file wants each by itself.
        parameter.data = parameter.data.clone()
    parts.policy.save_pretrained(folder)
    # Without metadata: names of shared tensors would stand there in another order each time.
    weights = folder / _WEIGHTS
    save_file(load_file(weights), weights, metadata={"format": "pt"})
    parts.before.save_pretrained(folder)
    parts.after.save_pretrained(folder)
    for name, data in (parts.language or _language_of(parts.policy, parts.before)).items():
        (folder / f"{LANGUAGE}{name}").write_bytes(data)
    text = json.dumps(asdict(parts.about), indent=1, sort_keys=True) + "\n"
    (folder / "policy.json").write_text(text, encoding="utf-8")
