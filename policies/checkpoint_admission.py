"""Admits a LeRobot checkpoint before LeRobot, transformers or diffusers read it: files and fields that are data alone.

Those libraries import or fetch what a configuration names: a processor step by its `class`, code by `auto_map`, an
encoder or a tokenizer by its name on the hub. A version may come from another machine, so every such field is refused
here, and files, steps, families of policies and class names must be on a list. For a family or a step that is on no
list, the plug-in packages that are installed here are imported; nothing in a checkpoint says which.
"""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeGuard, cast

from enpire.errors import PolicyProblem
from enpire.files import shown
from policies.lerobot_plugins import failures, plugin_steps, plugin_types

CONFIG, WEIGHTS = "config.json", "model.safetensors"
BEFORE, AFTER = "policy_preprocessor.json", "policy_postprocessor.json"
LANGUAGE = "language."
"""Prefix of the files of a tokenizer or of a language model's configuration."""
FAMILIES = ("act", "diffusion", "vqbet", "tdmpc", "gaussian_actor", "smolvla", "pi0", "pi05")
"""LeRobot's policy types whose weights are all in the folder. LeRobot builds the others from code or parts on a hub."""
STEPS = (
    "rename_observations_processor", "to_batch_processor", "to_batch_processor_action",
    "to_batch_processor_observation", "to_batch_processor_complementary_data", "device_processor",
    "normalizer_processor", "unnormalizer_processor", "tokenizer_processor", "smolvla_new_line_processor",
    "pi0_new_line_processor", "pi05_prepare_state_tokenizer_processor_step", "relative_actions_processor",
    "absolute_actions_processor", "image_crop_resize_processor",
)  # fmt: skip
"""Registered processor steps that only compute."""
TOKENIZER = "tokenizer_processor"
HUB_NAMES = (
    "google/paligemma-3b-pt-224", "HuggingFaceTB/SmolVLM2-500M-Video-Instruct",
    "HuggingFaceTB/SmolVLM2-256M-Video-Instruct", "HuggingFaceTB/SmolVLM2-2.2B-Instruct",
)  # fmt: skip
"""Tokenizers of the families above: read from Hugging Face's cache on this machine where the folder has none."""
_LANGUAGE_FILES = {
    "config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
    "added_tokens.json", "vocab.json", "vocab.txt", "merges.txt", "preprocessor_config.json", "processor_config.json",
    "video_preprocessor_config.json", "chat_template.jinja", "chat_template.json", "tokenizer.model", "spiece.model",
}  # fmt: skip
_VOCABULARIES = {"tokenizer.json", "added_tokens.json", "vocab.json"}
"""Language files whose keys are words of the language, not settings."""
SUFFIXES = {".json", ".safetensors", ".txt", ".md", ".jinja", ".model"}
"""Endings of files in a checkpoint; none of them can hold code or a pickle."""
_IMPORTS = re.compile(
    r"class|_target_|auto_map|trust_remote_code|code_revision|custom_\w+|quantization_config|use_kernels|\w*entry_?point"
)
"""Keys that make a library import something."""
_REACHES = re.compile(
    r"(\w+_)?(path|paths|file|files|dir|folder|repo|repo_id|url|uri|hub|checkpoint|pretrained|model_name|model_id|"
    r"tokenizer_name|encoder_name|processor_name|base_model|adapter|peft|timm_backbone)(_\w+)?"
)
"""Keys whose texts name something outside the configuration."""
_UNUSED = {
    "repo_id", "pretrained_path", "pretrained_revision", "push_to_hub", "name_or_path", "_name_or_path",
    "pretrained_backbone_weights",
}  # fmt: skip
"""Keys like these that no loader uses here; `policies.lerobot_files` removes the ones that would be used."""
_NAMED = {
    "tokenizer_class": re.compile(r"\w+Tokenizer(Fast)?|TokenizersBackend|SentencePieceBackend"),
    "processor_class": re.compile(r"\w+Processor"),
    "image_processor_type": re.compile(r"\w+ImageProcessor(Fast|Pil)?"),
    "video_processor_type": re.compile(r"\w+VideoProcessor"),
    "feature_extractor_type": re.compile(r"\w+(ImageProcessor|FeatureExtractor)"),
    "model_type": re.compile(r"(smolvlm|idefics3)(_vision)?|llama|gemma|paligemma|siglip_vision_model"),
    "vision_backbone": re.compile(r"resnet\d+"),
    "final_activation": re.compile(r"ReLU|SiLU|GELU|ELU|Tanh|Sigmoid|Softplus"),
    "_attn_implementation": re.compile(r"eager|sdpa|flex_attention|flash_attention_2"),
    "attn_implementation": re.compile(r"eager|sdpa|flex_attention|flash_attention_2"),
}
"""Key -> what its text may be, for keys by which a library finds one of its own classes."""
LARGEST_DOCUMENT, LARGEST_VOCABULARY = 2**20, 2**27
"""Bytes of a configuration, and of a list of words."""
_LARGEST_SIZE = 2**31


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """What was learned about an admitted checkpoint."""

    tokenizer_name: str | None
    """The tokenizer that the saved pipeline names; None if it has none."""


def admit(folder: Path) -> Admitted:
    """Check every file of a checkpoint's folder before a library reads it.

    Raises:
        PolicyProblem: a file is missing, or holds more than data. The sentence names file, field and what is allowed.
    """
    names = _files(folder)
    for name in (CONFIG, WEIGHTS, BEFORE, AFTER):
        if name not in names:
            # LeRobot would search the hub for a missing file.
            raise PolicyProblem(
                f"{folder} lacks {name}, which every LeRobot policy has; save the policy with its processors."
            )
    _check_config(folder, has_language=any(name.startswith(LANGUAGE) for name in names))
    found = [_pipeline_tokenizer(folder, name, names) for name in (BEFORE, AFTER)]
    for name in sorted(names):
        if name.startswith(LANGUAGE) and name.endswith(".json"):
            vocabulary = name.removeprefix(LANGUAGE) in _VOCABULARIES
            document = read_object(folder / name, LARGEST_VOCABULARY if vocabulary else LARGEST_DOCUMENT)
            if not vocabulary:
                check_fields(document, str(folder / name), free=frozenset())
    return Admitted(tokenizer_name=next((name for name in found if name), None))


def _files(folder: Path) -> set[str]:
    """The names in the folder; PolicyProblem for one that is no plain file of a checkpoint."""
    names: set[str] = set()
    try:
        paths = sorted(folder.iterdir())
    except OSError as error:
        raise PolicyProblem(f"{folder} cannot be read ({error}); fetch the version again.") from error
    for path in paths:
        name = path.name
        if not stat.S_ISREG(path.lstat().st_mode):
            raise PolicyProblem(f"{path} is not a plain file; a checkpoint holds no links, folders or devices.")
        if path.suffix not in SUFFIXES:
            raise PolicyProblem(
                f"{path} does not belong to a checkpoint; its files end in {', '.join(sorted(SUFFIXES))}. Weights "
                "must be .safetensors, because other formats can hold code; convert or remove the file."
            )
        if name.startswith(LANGUAGE) and name.removeprefix(LANGUAGE) not in _LANGUAGE_FILES:
            raise PolicyProblem(
                f"{path} is no file of a tokenizer; after {LANGUAGE!r} there may be: "
                f"{', '.join(sorted(_LANGUAGE_FILES))}. Remove it."
            )
        names.add(name)
    return names


def _check_config(folder: Path, *, has_language: bool) -> None:
    path = folder / CONFIG
    config = read_object(path, LARGEST_DOCUMENT)
    family = config.get("type")
    if not isinstance(family, str) or not (family in FAMILIES or family in plugin_types()):
        raise PolicyProblem(
            f"{path} is of type {shown(family)}; these load from their folder alone: {', '.join(FAMILIES)}, and types "
            "that a package installed here registers. For another type, install its package lerobot_policy_*, or write "
            f"a policy plug-in (docs/habc.md).{failures()}"
        )
    if config.get("use_peft"):
        raise PolicyProblem(f"{path} says use_peft, so its weights are elsewhere; merge the adapter and save it again.")
    check_fields(config, str(path), free=frozenset({"vlm_model_name"}) if has_language else frozenset())
    for key, value in _items(config):
        if isinstance(value, int) and not -_LARGEST_SIZE < value < _LARGEST_SIZE:
            raise PolicyProblem(f"{path}, key {key!r}, is {shown(value)}; numbers below 2^31 are allowed. Correct it.")


def _pipeline_tokenizer(folder: Path, name: str, names: set[str]) -> str | None:
    """Check a saved pipeline of processors; the tokenizer that it names."""
    path = folder / name
    pipeline, tokenizer = read_object(path, LARGEST_DOCUMENT), None
    steps = pipeline.get("steps")
    if not isinstance(steps, list) or pipeline.keys() - {"name", "steps"}:
        raise PolicyProblem(f"{path} must hold a name and a list of steps, nothing else; save the policy again.")
    for number, step in enumerate(cast("list[object]", steps)):
        where = f"{path}, step {number}"
        if not _is_object(step) or step.keys() - {"registry_name", "config", "state_file"}:
            extra = "" if not _is_object(step) else f", not {', '.join(sorted(step))[:80]}"
            raise PolicyProblem(
                f"{where} must hold registry_name, config and state_file alone{extra}. A `class` could be any code; "
                "save the policy with registered steps."
            )
        registered = step.get("registry_name")
        if not isinstance(registered, str) or (registered not in STEPS and registered not in plugin_steps()):
            raise PolicyProblem(
                f"{where} is {shown(registered)}; these steps are allowed: {', '.join(STEPS)}, and "
                "those of the installed packages lerobot_policy_*."
            )
        state_file, config = step.get("state_file"), step.get("config", {})
        if "state_file" in step and (state_file not in names or not str(state_file).endswith(".safetensors")):
            raise PolicyProblem(
                f"{where} keeps its state in {shown(state_file)}; it must be a .safetensors file of this folder."
            )
        if not _is_object(config):
            raise PolicyProblem(f"{where}, config must be an object, not {shown(config)}; save the policy again.")
        # Files in the folder replace the tokenizer of the first pipeline.
        replaced = name == BEFORE and any(one.startswith(LANGUAGE) for one in names)
        check_fields(config, where, free=frozenset({"tokenizer_name"}) if replaced else frozenset())
        if step["registry_name"] == TOKENIZER and isinstance(named := config.get("tokenizer_name"), str):
            tokenizer = named
    return tokenizer


def check_fields(
    document: Mapping[str, object], where: str, free: frozenset[str], named: Mapping[str, re.Pattern[str]] | None = None
) -> None:
    """Refuse every key, at any depth, by which a library would import or fetch something.

    Args:
        document: the configuration.
        where: its place, as the beginning of a sentence.
        free: keys whose values the caller replaces.
        named: what keys by which a library finds its own classes may be, besides and before those known here.

    Raises:
        PolicyProblem: names the key.
    """
    allowed = {**_NAMED, **(named or {})}
    for key, value in _items(document):
        if value is None or value is False or value in ("", [], {}):
            continue
        if _IMPORTS.fullmatch(key):
            raise PolicyProblem(f"{where} has the key {key!r}, which makes a library import code; remove it.")
        if key in free or key in _UNUSED:
            continue
        if key in allowed:
            if not isinstance(value, str) or not allowed[key].fullmatch(value):
                raise PolicyProblem(
                    f"{where}, key {key!r}, is {shown(value)}; allowed is {allowed[key].pattern}. Correct it."
                )
        elif _REACHES.fullmatch(key) and _has_text(value) and value not in HUB_NAMES:
            raise PolicyProblem(
                f"{where}, key {key!r}, names {shown(value)}, which is outside the folder; it may be empty or one of "
                f"{', '.join(HUB_NAMES)}. Save the policy again with its tokenizer, as `language.*` files."
            )


def _items(document: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """Every key of an object and of the objects in it, with its value."""
    waiting: list[object] = [document]
    while waiting:
        value = waiting.pop()
        if _is_object(value):
            yield from value.items()
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(cast("list[object]", value))


def _has_text(value: object) -> bool:
    listed = cast("list[object]", value) if isinstance(value, list) else [value]
    return any(isinstance(item, str) for item in listed)


def _is_object(value: object) -> TypeGuard[dict[str, object]]:
    return isinstance(value, dict)


def read_object(path: Path, most: int) -> dict[str, object]:
    """A JSON object of at most `most` bytes."""
    if path.stat().st_size > most:
        raise PolicyProblem(f"{path} has {path.stat().st_size} bytes; at most {most} are read. Save the policy again.")
    try:
        content: object = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise PolicyProblem(f"{path} cannot be read as JSON ({error}); save the policy again.") from error
    if not _is_object(content):
        raise PolicyProblem(f"{path} must be a JSON object, not {shown(content)}; save the policy again.")
    return content
