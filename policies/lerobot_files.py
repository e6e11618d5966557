"""A LeRobot policy (0.6.1) in a version's folder; neither loading nor saving accesses a hub or runs foreign code.

A version's folder is LeRobot's own `pretrained_model` folder (config.json, model.safetensors, the two processors)
plus our policy.json, so that LeRobot's tools open it too:
{"kind": "lerobot", "inputs": {LeRobot's key: [first, last + 1] of our state}, "execute": number, "task": text}.
LeRobot keeps the tokenizer and the language model's configuration of a policy that reads instructions on the hub; here
they are in the folder, as `language.<file>`.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from enpire.errors import MissingExtra, PolicyProblem
from enpire.files import parse
from policies.checkpoint_admission import LANGUAGE, TOKENIZER, WEIGHTS, Admitted, admit
from policies.refined import Refining

if TYPE_CHECKING:
    from lerobot.policies.pretrained import PreTrainedPolicy

_COMPARED_SIZE = 4096
"""Tensors with at most this many numbers are compared with the file after loading."""


STEERING_FILE, REFINING_FILE = "steering.safetensors", "refining.safetensors"
"""A file in addition to LeRobot's: the network that picks the noise, or that refines the chunks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LerobotSteering:
    """How a network beside the policy picks its noise (`policies.lerobot_noise`)."""

    reach: float
    """Largest mean of the noise, in standard deviations of the policy's own noise."""
    spread: float
    """Standard deviation of the noise around its mean: exploration."""

    def __post_init__(self) -> None:
        """Refuse values that are not allowed with ValueError."""
        if not (0 < self.reach <= 10 and 0 <= self.spread <= 10):
            raise ValueError(f"reach is {self.reach} and spread {self.spread}; they must be in (0, 10] and [0, 10].")


@dataclass(frozen=True, slots=True, kw_only=True)
class LerobotManifest:
    """The contents of policy.json."""

    kind: Literal["lerobot"] = "lerobot"
    inputs: Mapping[str, tuple[int, int]]
    """LeRobot's key -> the columns of our state that it gets, [first, last + 1]: the second one is not included."""
    execute: int
    """Actions sent before the next decision."""
    hold: int = 1
    """Periods for which an action is repeated, for a policy without chunks (LeRobot's gaussian_actor)."""
    task: str = ""
    """The instruction that a vision-language-action policy reads."""
    steering: LerobotSteering | None = None
    """None: the policy draws its noise itself."""
    refining: Refining | None = None
    """None: the policy's chunks are sent as they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """A LeRobot policy with its processors."""

    about: LerobotManifest
    policy: PreTrainedPolicy
    preprocessor: Any
    """LeRobot's pipeline that normalises a batch of observations."""
    postprocessor: Any
    """LeRobot's pipeline that converts actions to the robot's units."""
    language: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    """File -> contents: tokenizer and configuration of a language model, as in the version's folder."""


def load_parts(folder: Path) -> Parts:
    """Load a version's folder.

    Raises:
        PolicyProblem: the folder does not fit, holds more than data, or its weights were not loaded completely.
        FileProblem: policy.json does not fit.
        MissingExtra: LeRobot, or a package that the policy needs, is not installed.
    """
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
    about = parse(LerobotManifest, document, f"The version {path}")
    admitted = admit(folder)
    _leave_the_hub()
    try:
        # LeRobot prints while it loads; stdout is for the command's answer.
        with contextlib.redirect_stdout(sys.stderr):
            return _opened(folder.resolve(), about, admitted)
    except ImportError as missing:
        raise missing_extra(missing) from missing
    except (OSError, ValueError, KeyError, RuntimeError, TypeError, MemoryError) as error:
        raise PolicyProblem(f"{folder}: LeRobot cannot load this policy ({error}).{_hint(folder, admitted)}") from error


def _leave_the_hub() -> None:
    """Let Hugging Face's libraries read files of this machine only, also if they were imported earlier."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    constants: Any = sys.modules.get("huggingface_hub.constants")
    if constants is not None:
        constants.HF_HUB_OFFLINE = True


def _opened(folder: Path, about: LerobotManifest, admitted: Admitted) -> Parts:
    from lerobot.configs.policies import PreTrainedConfig
    from lerobot.policies.factory import get_policy_class, make_pre_post_processors

    language = {path.name.removeprefix(LANGUAGE): path.read_bytes() for path in sorted(folder.glob(f"{LANGUAGE}*"))}
    config = PreTrainedConfig.from_pretrained(folder, local_files_only=True)
    config.device = "cpu"
    overrides: dict[str, Any] = {"device_processor": {"device": "cpu"}}
    config.pretrained_path = None
    tokenizer = admitted.tokenizer_name
    with _unpacked(language) as language_folder:
        if language_folder is not None and tokenizer is not None:
            overrides[TOKENIZER] = {"tokenizer_name": language_folder}
        with _without_pretrained_parts(config, language_folder):
            policy = get_policy_class(config.type).from_pretrained(
                folder, config=config, local_files_only=True, strict=True
            )
        preprocessor, postprocessor = make_pre_post_processors(
            config, pretrained_path=str(folder), preprocessor_overrides=overrides
        )
    steps: Any = preprocessor.steps
    for step in steps:
        if tokenizer and hasattr(step, "input_tokenizer"):
            step.tokenizer_name = tokenizer
    _check_weights(policy, folder / WEIGHTS)
    policy.eval()
    return Parts(about=about, policy=policy, preprocessor=preprocessor, postprocessor=postprocessor, language=language)


@contextlib.contextmanager
def _unpacked(language: Mapping[str, bytes]) -> Iterator[str | None]:
    """A temporary folder with these files under their own names, for transformers; None without files."""
    if not language:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="enpire-language-") as language_folder:
        for name, data in language.items():
            (Path(language_folder) / name).write_bytes(data)
        yield language_folder


@contextlib.contextmanager
def _without_pretrained_parts(config: Any, language_folder: str | None) -> Iterator[None]:
    """Context in which a policy is built without fetching pretrained parts: its own file holds all weights.

    Afterwards the configuration is as before, so that it is saved unchanged.
    """
    replaced = {"pretrained_backbone_weights": None, "load_vlm_weights": False}
    if language_folder is not None:
        replaced["vlm_model_name"] = language_folder
    configured = {name: getattr(config, name) for name in replaced if hasattr(config, name)}
    for name in configured:
        setattr(config, name, replaced[name])
    try:
        yield
    finally:
        for name, value in configured.items():
            setattr(config, name, value)


def _language_of(policy: Any, preprocessor: Any) -> dict[str, bytes]:
    """The files of a loaded policy's tokenizer and, if separate, of its language model's configuration."""
    savables = [step.input_tokenizer for step in preprocessor.steps if hasattr(step, "input_tokenizer")]
    vlm = getattr(getattr(policy, "model", None), "vlm_with_expert", None)
    if vlm is not None:
        savables += [vlm.processor, vlm.config]
    with tempfile.TemporaryDirectory(prefix="enpire-language-") as language_folder:
        for savable in savables:
            savable.save_pretrained(language_folder)
        return {path.name: path.read_bytes() for path in sorted(Path(language_folder).iterdir()) if path.is_file()}


def _check_weights(policy: Any, file: Path) -> None:
    """PolicyProblem unless every tensor came from the file: some of LeRobot's loaders only print a mismatch."""
    table = policy.state_dict(keep_vars=True)
    with safe_open(file, framework="pt") as kept:
        known = {name if name in table else f"model.{name}": name for name in kept.keys()}  # noqa: SIM118
        loaded = {table[name].data_ptr() for name in known if name in table}
        missing = [name for name, value in table.items() if name not in known and value.data_ptr() not in loaded]
        wrong = [
            name
            for name, stored in known.items()
            if name in table and table[name].numel() <= _COMPARED_SIZE
            and not torch.equal(table[name].detach().cpu(), kept.get_tensor(stored).to(table[name].dtype))
        ]  # fmt: skip
    if missing or wrong:
        raise PolicyProblem(
            f"{file} does not hold the weights of this {policy.config.type} policy: {len(missing)} tensors are missing "
            f"and {len(wrong)} were not loaded, such as {(missing + wrong)[0]}. Its config.json may be of "
            "another policy; save the policy again."
        )


def _hint(folder: Path, admitted: Admitted) -> str:
    if admitted.tokenizer_name is None or any(folder.glob(f"{LANGUAGE}*")):
        return ""
    return (
        " Its tokenizer is neither in the folder nor in Hugging Face's cache on this machine. Load the policy once "
        "with LeRobot on a machine that reaches the hub; every version made from it then contains the tokenizer."
    )


def missing_extra(missing: ImportError) -> MissingExtra:
    """The error for a missing LeRobot, or for a missing package of one family of policies."""
    extra = "vla" if "transformers" in str(missing) else "lerobot"
    return MissingExtra(
        f"This LeRobot policy needs a package that is not installed ({missing}): pip install 'enpire[{extra}]'."
    )


def save(parts: Parts, folder: Path) -> None:
    """Write a version into an existing folder; LeRobot's tools and `load_parts` open it."""
    for parameter in parts.policy.parameters():
        # Parameters may be views of one flat tensor; the file needs separate tensors.
        parameter.data = parameter.data.clone()
    parts.policy.save_pretrained(folder)
    # LeRobot's metadata names shared tensors in a random order; without it equal weights give equal bytes.
    weights = folder / WEIGHTS
    save_file(load_file(weights), weights, metadata={"format": "pt"})
    parts.preprocessor.save_pretrained(folder)
    parts.postprocessor.save_pretrained(folder)
    for name, data in (parts.language or _language_of(parts.policy, parts.preprocessor)).items():
        (folder / f"{LANGUAGE}{name}").write_bytes(data)
    write_manifest(replace(parts.about, steering=None, refining=None), folder)


def write_manifest(about: LerobotManifest, folder: Path) -> None:
    """Write policy.json; that of a policy without an added network is as it was before these existed."""
    document = {key: value for key, value in asdict(about).items() if value is not None}
    text = json.dumps(document, indent=1, sort_keys=True) + "\n"
    (folder / "policy.json").write_text(text, encoding="utf-8")
