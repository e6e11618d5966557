"""The policy.json of a checkpoint that LeRobot's tools trained, from its config.json and the task. No torch."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from enpire.errors import PolicyProblem, UsageError
from enpire.interfaces import ImportChoices
from enpire.types import TaskSpec
from policies.checkpoint_admission import CONFIG, LARGEST_DOCUMENT, WEIGHTS, read_object

IMAGES = "observation.images."
ACTION = "action"
_INSIDE = ("pretrained_model", "last/pretrained_model", "checkpoints/last/pretrained_model")
"""Where `lerobot-train` puts the files of a checkpoint, below the folders that people name."""
_NUMBERS = ("STATE", "ENV")


def find_checkpoint(named: Path) -> Path | None:
    """The folder with the files of a LeRobot checkpoint, from a folder above it or from one of its files."""
    places = (named, *(named / inside for inside in _INSIDE)) if named.is_dir() else (named.parent,)
    return next((one for one in places if (one / CONFIG).is_file() and (one / WEIGHTS).is_file()), None)


def manifest(folder: Path, spec: TaskSpec, choices: ImportChoices) -> str:
    """The text of policy.json for a LeRobot checkpoint and a task.

    Raises:
        PolicyProblem: it needs other numbers, actions or cameras than the task has.
        UsageError: a choice names no input of the policy.
    """
    config = read_object(folder / CONFIG, LARGEST_DOCUMENT)
    inputs, outputs = _features(config, "input_features", folder), _features(config, "output_features", folder)
    action = outputs.get(ACTION, ("", ()))[1]
    if tuple(action) != (spec.action_dim,):
        raise PolicyProblem(
            f"{folder} gives {_size(action)} an action, and the task {spec.name} takes {spec.action_dim} numbers: "
            "name the task that the policy was trained for."
        )
    cameras = {key.removeprefix(IMAGES) for key, (kind, _) in inputs.items() if kind == "VISUAL"}
    if missing := sorted(one for one in cameras - set(spec.cameras) if not one.startswith("empty_camera_")):
        has = ", ".join(spec.cameras) or "none"
        raise PolicyProblem(
            f"{folder} needs the camera {missing[0]!r}, and the task {spec.name} has {has}: cameras are matched by "
            "name, so rename them in its config.json and its processors."
        )
    wanted = {key: _columns(key, shape, spec, choices) for key, (kind, shape) in inputs.items() if kind in _NUMBERS}
    if unknown := sorted(set(choices.columns) - set(wanted)):
        raise UsageError(f"{folder} has no input {unknown[0]!r}; it has {', '.join(sorted(wanted)) or 'images alone'}.")
    steps = config.get("n_action_steps", config.get("chunk_size", 1))
    execute = choices.execute or (steps if isinstance(steps, int) else 1)
    about = {
        "kind": "lerobot", "inputs": wanted, "execute": execute, "task": choices.instruction or spec.instruction,
    }  # fmt: skip
    return json.dumps(about, indent=1, sort_keys=True) + "\n"


def _columns(key: str, shape: Sequence[int], spec: TaskSpec, choices: ImportChoices) -> list[int]:
    """Which numbers of our state an input gets, the last one not included."""
    first, end = choices.columns.get(key, (0, spec.state_dim))
    if not 0 <= first < end <= spec.state_dim or list(shape) != [end - first]:
        raise PolicyProblem(
            f"{key} of this policy has {_size(shape)}, and the task {spec.name} gives numbers {first} to {end} of "
            f"{spec.state_dim}: choose them with `--state {key}=FIRST:END`, the last one not included."
        )
    return [first, end]


def _size(shape: Sequence[int]) -> str:
    return f"{shape[0]} numbers" if len(shape) == 1 else f"the shape {tuple(shape)}"


def _features(config: Mapping[str, object], key: str, folder: Path) -> Mapping[str, tuple[str, Sequence[int]]]:
    """Name -> (type, shape) of the inputs or outputs in a config.json."""
    listed, found = config.get(key), dict[str, tuple[str, Sequence[int]]]()
    for name, one in cast("dict[str, object]", listed).items() if isinstance(listed, dict) else ():
        match one:
            case {"type": str() as kind, "shape": [*shape]} if all(isinstance(size, int) for size in shape):
                found[name] = kind, cast("list[int]", shape)
            case _:
                raise PolicyProblem(f"{folder / CONFIG}, {key}: {name!r} needs a type and a shape; save it again.")
    if not found:
        raise PolicyProblem(f"{folder / CONFIG} has no {key}, so it is no checkpoint of a LeRobot policy.")
    return found
