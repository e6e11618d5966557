"""Admits the folder of a LeRobot reward model before LeRobot reads it.

LeRobot builds these models from another model that their configuration names, and lets that model bring code
(`trust_remote_code`). So the name must be a folder inside, whose files are data, or be listed in the lab's own file.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from enpire.errors import PolicyProblem
from enpire.files import shown
from enpire.store.versions import hash_files
from policies.checkpoint_admission import (
    CONFIG,
    LARGEST_DOCUMENT,
    LARGEST_VOCABULARY,
    SUFFIXES,
    WEIGHTS,
    check_fields,
    read_object,
)

BASES: Mapping[str, str] = {"robometer": "base_model_id", "topreward": "vlm_name"}
"""LeRobot's progress reward models -> the key that names the model which they are built from."""
_NAMED = {"model_type": re.compile(r"[a-z0-9_]+"), "tokenizer_class": re.compile(r"\w+")}
"""Keys by which transformers finds its own classes."""
_WORDS = {"tokenizer.json", "vocab.json", "added_tokens.json"}
"""Files whose keys are words of a language, not settings."""


def admit_reward_model(folder: Path, hub_models: Sequence[str], others: Sequence[str] = ()) -> dict[str, object]:
    """Check every file of a reward model's folder.

    Args:
        folder: with config.json, and weights and the folder of a base model where it has them.
        hub_models: names of models on a hub that the lab's own file lists; they are read from this machine's cache.
        others: types of reward models that an installed package of the lab registers.

    Returns:
        The configuration, with the place of the base model in place of its name.

    Raises:
        PolicyProblem: a file or a field may run or fetch something. The sentence names it.
    """
    folders = _check_files(folder, inner=False)
    config = read_object(folder / CONFIG, LARGEST_DOCUMENT)
    family = config.get("type")
    if not isinstance(family, str) or not (family in BASES or family in others):
        raise PolicyProblem(
            f"{folder / CONFIG} is of type {shown(family)}; reward models of progress are of type "
            f"{', '.join((*BASES, *others))}."
        )
    base = BASES.get(family)
    check_fields(config, str(folder / CONFIG), free=frozenset({base} if base else ()), named=_NAMED)
    for inner in folders:
        _check_files(inner, inner=True)
    if base is not None:
        config[base] = _base_model(folder, config.get(base), base, hub_models)
    weights = str(folder.resolve()) if (folder / WEIGHTS).is_file() else None
    return {**config, "pretrained_path": weights, "device": "cpu", "push_to_hub": False}


def digest_of_files(folder: Path) -> str:
    """Hash of the admitted files, those of its folders, too."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return hash_files(folder, {path.relative_to(folder).as_posix(): path.stat().st_size for path in paths})


def _base_model(folder: Path, named: object, key: str, hub_models: Sequence[str]) -> str:
    """Where the base model is: the path of a folder inside, or a name that is listed."""
    if isinstance(named, str) and re.fullmatch(r"[\w-][\w.-]*", named) and (folder / named).is_dir():
        return str((folder / named).resolve())
    if isinstance(named, str) and named in hub_models:
        return named
    raise PolicyProblem(
        f"{folder / CONFIG}, key {key!r}, names {shown(named)}. A model elsewhere could bring code: save it as a "
        "folder inside and name that folder, or list the name under hub_models of the verifier in your own file."
    )


def _check_files(folder: Path, *, inner: bool) -> list[Path]:
    """Check the files of one folder; returns the folders in it."""
    folders: list[Path] = []
    try:
        paths = sorted(folder.iterdir())
    except OSError as error:
        raise PolicyProblem(f"The reward model {folder} cannot be read ({error}); check its path.") from error
    for path in paths:
        kind = path.lstat().st_mode
        if stat.S_ISDIR(kind) and not inner:
            folders.append(path)
        elif not stat.S_ISREG(kind) or path.suffix not in SUFFIXES:
            raise PolicyProblem(
                f"{path} does not belong to a reward model: it holds plain files that end in "
                f"{', '.join(sorted(SUFFIXES))}, and folders of such files. Remove it."
            )
        elif path.suffix == ".json" and (inner or path.name != CONFIG):
            words = path.name in _WORDS
            document = read_object(path, LARGEST_VOCABULARY if words else LARGEST_DOCUMENT)
            if not words:
                check_fields(document, str(path), free=frozenset(), named=_NAMED)
    return folders
