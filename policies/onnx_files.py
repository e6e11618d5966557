"""An ONNX policy in a folder: what its inputs mean, how it becomes a policy version, and which files it may hold.

A person describes the inputs and the output of `model.onnx` in `onnx.json`. A version has the same in policy.json:
{"kind": "onnx", "inputs": {name: input}, "output": output, "execute": number}. No onnxruntime.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from enpire.errors import FileProblem, MissingExtra, PolicyProblem, UsageError
from enpire.files import canonical, parse
from enpire.interfaces import ImportChoices
from enpire.types import Bounds, TaskSpec
from policies.checkpoint_admission import LARGEST_DOCUMENT, read_object

MODEL, DESCRIPTION, MANIFEST = "model.onnx", "onnx.json", "policy.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxInput:
    """What one input of the model gets; exactly one of `state`, `camera` and `noise` is given."""

    shape: tuple[int, ...]
    """Without the first axis, which is 1: one robot at a time."""
    state: tuple[int, ...] = ()
    """Which numbers of our state, first and last + 1."""
    units: tuple[str, ...] = ()
    """Of these numbers, as the model was trained with them."""
    camera: str = ""
    """Its image, with the axes (3, height, width) or (height, width, 3): floats from 0 to 1, or uint8."""
    noise: bool = False
    """Standard normal noise from the seed of the episode."""

    def __post_init__(self) -> None:
        if (bool(self.state), bool(self.camera), self.noise).count(True) != 1:
            raise ValueError("it gets one thing: give `state`, `camera` or `noise`.")
        if not self.shape or min(self.shape) < 1:
            raise ValueError("`shape` must hold numbers from 1 on, without the axis of the batch.")
        if self.state and (len(self.state) != 2 or not 0 <= self.state[0] < self.state[1]):
            raise ValueError("`state` must be the first number and the last + 1, such as [0, 7].")
        if self.state and self.shape != (self.state[1] - self.state[0],):
            raise ValueError(f"`state` gives {self.state[1] - self.state[0]} numbers, and `shape` is {self.shape}.")
        if self.camera and (len(self.shape) != 3 or 3 not in (self.shape[0], self.shape[2])):
            raise ValueError("the `shape` of a camera must be [3, height, width] or [height, width, 3].")


@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxOutput:
    """The output that holds the actions."""

    name: str
    shape: tuple[int, ...]
    """(horizon, action_dim), or (action_dim,) for one action; without the first axis, which is 1."""
    units: tuple[str, ...]
    """Of the action, as the model was trained with them."""

    def __post_init__(self) -> None:
        if len(self.shape) not in (1, 2) or min(self.shape) < 1:
            raise ValueError("`shape` must be [horizon, numbers of an action] or [numbers of an action].")

    @property
    def horizon(self) -> int:
        """Actions of one decision."""
        return self.shape[0] if len(self.shape) == 2 else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxVersion:
    """The contents of policy.json."""

    kind: Literal["onnx"] = "onnx"
    inputs: Mapping[str, OnnxInput]
    output: OnnxOutput
    execute: int = 1
    """Actions sent before the next decision."""

    def __post_init__(self) -> None:
        if not 1 <= self.execute <= self.output.horizon:
            raise ValueError(f"`execute` is {self.execute}; the model gives {self.output.horizon} actions at a time.")

    @property
    def needs_images(self) -> bool:
        """Whether an input gets images."""
        return any(one.camera for one in self.inputs.values())


def find_model(named: Path) -> Path | None:
    """The folder with an ONNX policy, from the folder or from its model.onnx; None where a file is missing."""
    folder = named if named.is_dir() else named.parent
    return folder if (folder / MODEL).is_file() and (folder / DESCRIPTION).is_file() else None


def manifest(folder: Path, spec: TaskSpec, choices: ImportChoices) -> str:
    """The text of policy.json for an ONNX policy and a task, after the model has acted on states within their bounds.

    Raises:
        FileProblem: onnx.json does not fit.
        PolicyProblem: the model does not fit onnx.json or the task, or gives numbers that are not finite.
        MissingExtra: onnxruntime is not installed.
        UsageError: a choice that onnx.json makes already.
    """
    if choices.columns or choices.instruction:
        raise UsageError(f"{folder / DESCRIPTION} says what each input gets: leave out --state and --instruction.")
    admit(folder)
    version = parse(OnnxVersion, read_object(folder / DESCRIPTION, LARGEST_DOCUMENT), str(folder / DESCRIPTION))
    if choices.execute:
        if choices.execute > version.output.horizon:
            raise UsageError(f"--execute is {choices.execute}; {folder} gives {version.output.horizon} actions.")
        version = replace(version, execute=choices.execute)
    check_task(version, spec, folder)
    from policies.onnx_policy import try_out

    try_out(folder, version, spec)
    return canonical(version) + "\n"


def admit(folder: Path) -> None:
    """Check the files of a version before onnxruntime reads them.

    Raises:
        PolicyProblem: model.onnx is missing or no plain file or no model, or keeps its numbers in another file.
        MissingExtra: the package onnx is not installed.
    """
    path = folder / MODEL
    if not path.exists() or not stat.S_ISREG(path.lstat().st_mode):
        raise PolicyProblem(f"{folder} needs the plain file {MODEL}; export the model again.")
    if name := _tensor_elsewhere(path):
        raise PolicyProblem(
            f"{path} keeps its weights in another file (tensor {name!r}), and a version is one file: save it with all "
            "weights inside (at most 2 GB)."
        )


def _tensor_elsewhere(path: Path) -> str:
    """The name of a tensor of a model whose numbers lie in another file; empty where there is none.

    Raises:
        MissingExtra: the package onnx is not installed.
        PolicyProblem: the file is no ONNX model.
    """
    try:
        import onnx
        from google.protobuf.message import DecodeError
    except ImportError as missing:
        raise MissingExtra(
            f"ONNX models need the package onnx, which is not installed ({missing}): pip install 'enpire[onnx]'."
        ) from missing
    try:
        model = onnx.load(str(path), load_external_data=False)
    except DecodeError as problem:
        raise PolicyProblem(f"{path} is no ONNX model; export the model again.") from problem
    return next((one.name or "?" for one in _tensors(model) if one.data_location == onnx.TensorProto.EXTERNAL), "")


def _tensors(message: Any) -> Iterator[Any]:
    """Every tensor in a message of a model: weights, constants, and those of functions and of graphs within graphs."""
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        for one in value if isinstance(value, Sequence) else (value,):
            if field.message_type.full_name == "onnx.TensorProto":
                yield one
            else:
                yield from _tensors(one)


def read_version(folder: Path) -> OnnxVersion:
    """policy.json of a version; FileProblem if it does not fit."""
    return parse(OnnxVersion, read_object(folder / MANIFEST, LARGEST_DOCUMENT), f"The version {folder / MANIFEST}")


def check_task(version: OnnxVersion, spec: TaskSpec, folder: Path) -> None:
    """Check cameras, state, action and units. PolicyProblem or FileProblem for what a task does not have."""
    for name, one in version.inputs.items():
        if one.camera and one.camera not in spec.cameras:
            has = ", ".join(spec.cameras) or "none"
            raise PolicyProblem(f"{folder}, input {name!r}, needs the camera {one.camera!r}; {spec.name} has {has}.")
        if one.state and one.state[1] > spec.state_dim:
            raise PolicyProblem(
                f"{folder}, input {name!r}, needs the state up to number {one.state[1]}; {spec.name} has "
                f"{spec.state_dim} numbers."
            )
        if one.state:
            _check_units(one.units, spec.state[one.state[0] : one.state[1]], f"{folder}, input {name!r}")
    if version.output.shape[-1] != spec.action_dim:
        raise PolicyProblem(
            f"{folder} gives {version.output.shape[-1]} numbers an action, and {spec.name} takes {spec.action_dim}."
        )
    _check_units(version.output.units, spec.action, f"{folder}, output {version.output.name!r}")


def _check_units(units: tuple[str, ...], bounds: tuple[Bounds, ...], where: str) -> None:
    if len(units) != len(bounds):
        raise FileProblem(f"{where} has {len(bounds)} numbers and {len(units)} `units`: give one for each.")
    for unit, one in zip(units, bounds, strict=True):
        if unit != one.unit:
            raise PolicyProblem(
                f"{where} has {one.name} in {unit!r}, and the task has it in {one.unit!r}: export the model with the "
                "conversion inside."
            )
