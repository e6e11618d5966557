"""Runs an ONNX model as a policy, on the CPU, one lane at a time, so that lanes cannot influence each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from enpire.errors import PolicyProblem
from enpire.types import FloatArray, ImageArray, IntArray, Observation, TaskSpec
from policies.onnx_files import MODEL, OnnxInput, OnnxVersion, admit, read_version

_TYPES = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(uint8)": np.uint8}
_ERRORS_ONLY = 3
"""Level of onnxruntime's log lines."""


class OnnxPolicy:
    """An ONNX model for several lanes."""

    def __init__(self, folder: Path, version: OnnxVersion) -> None:
        """Open the model.

        Raises:
            PolicyProblem: onnxruntime cannot read it, or its inputs and output are not those of `version`.
        """
        self._where, self._version = folder / MODEL, version
        self.horizon, self.execute, self.needs_images = version.output.horizon, version.execute, version.needs_images
        options: Any = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.use_deterministic_compute = True
        options.log_severity_level = _ERRORS_ONLY
        try:
            self._session: Any = onnxruntime.InferenceSession(
                self._where.read_bytes(), options, providers=["CPUExecutionProvider"]
            )
        except Exception as problem:
            raise PolicyProblem(f"{self._where} cannot be opened by onnxruntime ({_short(problem)}).") from problem
        self._types = {one.name: self._checked(one) for one in self._session.get_inputs()}
        if absent := sorted(set(version.inputs) - set(self._types)):
            raise PolicyProblem(f"{self._where} has no input {absent[0]!r}; it has {', '.join(self._types)}.")
        outputs = [one.name for one in self._session.get_outputs()]
        if version.output.name not in outputs:
            raise PolicyProblem(f"{self._where} has no output {version.output.name!r}; it has {', '.join(outputs)}.")
        self._noise: dict[int, np.random.Generator] = {}

    def begin(self, lane: int, seed: int) -> None:
        """Start a new episode in this lane; `seed` is of its noise."""
        self._noise[lane] = np.random.default_rng(seed)

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        """Chunks (len(lanes), horizon, action_dim) float32, units of the robot.

        Raises:
            PolicyProblem: a lane has not begun, a camera is missing or has another size, or the model fails.
        """
        if waiting := [int(lane) for lane in lanes if int(lane) not in self._noise]:
            raise PolicyProblem(f"lane {waiting[0]} asks for an action before its episode began.")
        rows = [self._chunk(observation, row, self._noise[int(lane)]) for row, lane in enumerate(lanes)]
        return np.stack(rows) if rows else np.zeros((0, self.horizon, self._version.output.shape[-1]), np.float32)

    def _chunk(self, observation: Observation, row: int, noise: np.random.Generator) -> FloatArray:
        given = {
            name: self._input(name, one, observation, row, noise) for name, one in sorted(self._version.inputs.items())
        }
        wanted = self._version.output
        try:
            (found,) = self._session.run([wanted.name], given)
        except Exception as problem:
            raise PolicyProblem(f"{self._where} fails in onnxruntime ({_short(problem)}).") from problem
        if not isinstance(found, np.ndarray) or found.shape != (1, *wanted.shape):
            raise PolicyProblem(
                f"{self._where}, output {wanted.name!r}, has the shape {np.shape(found)}, not {(1, *wanted.shape)}."
            )
        return found.reshape(self.horizon, wanted.shape[-1]).astype(np.float32)

    def _input(
        self, name: str, one: OnnxInput, observation: Observation, row: int, noise: np.random.Generator
    ) -> np.ndarray[Any, Any]:
        """The input (1, ...) of a lane."""
        if one.noise:
            return noise.standard_normal((1, *one.shape)).astype(self._types[name])
        if one.camera:
            return self._image(name, one, observation.images, row)
        if one.state[1] > observation.state.shape[1]:
            raise PolicyProblem(
                f"{self._where}, input {name!r}, needs the state up to number {one.state[1]}; there are "
                f"{observation.state.shape[1]}."
            )
        return observation.state[row : row + 1, one.state[0] : one.state[1]].astype(self._types[name])

    def _image(self, name: str, one: OnnxInput, images: Any, row: int) -> np.ndarray[Any, Any]:
        if one.camera not in images:
            raise PolicyProblem(
                f"{self._where} needs images of {one.camera!r}; there are {', '.join(images) or 'none'}."
            )
        image: ImageArray = images[one.camera][row]
        turned = image.transpose(2, 0, 1) if one.shape[0] == 3 else image
        if turned.shape != one.shape:
            raise PolicyProblem(
                f"{self._where}, input {name!r}, has the shape {one.shape}, and the camera {one.camera!r} gives "
                f"{turned.shape}: export the model with the scaling inside."
            )
        wanted = self._types[name]
        return np.ascontiguousarray(turned[None] if wanted is np.uint8 else turned[None].astype(wanted) / wanted(255))

    def _checked(self, found: Any) -> Any:
        """The numpy type of one input of the model, which must be as the version describes it."""
        one, name = self._version.inputs.get(found.name), found.name
        if one is None:
            raise PolicyProblem(f"{self._where} needs the input {name!r}, which the description does not name.")
        free = any(not isinstance(size, int) for size in found.shape[1:])
        if len(found.shape) != 1 + len(one.shape) or (not free and tuple(found.shape[1:]) != one.shape):
            raise PolicyProblem(
                f"{self._where}, input {name!r}, has the shape {tuple(found.shape)}, and the description says "
                f"{(1, *one.shape)}."
            )
        if isinstance(found.shape[0], int) and found.shape[0] != 1:
            raise PolicyProblem(f"{self._where}, input {name!r}, takes {found.shape[0]} at a time: export it for 1.")
        allowed = {kind: made for kind, made in _TYPES.items() if one.camera or made is not np.uint8}
        if found.type not in allowed:
            raise PolicyProblem(f"{self._where}, input {name!r}, is {found.type}; allowed are {', '.join(allowed)}.")
        return allowed[found.type]


def load(folder: Path) -> OnnxPolicy:
    """Load a version's folder. PolicyProblem or FileProblem if it does not fit."""
    admit(folder)
    return OnnxPolicy(folder, read_version(folder))


def try_out(folder: Path, version: OnnxVersion, spec: TaskSpec) -> None:
    """Let the model act at the low end, in the middle and at the high end of the state, twice from the same seed.

    Raises:
        PolicyProblem: an action is not finite, or the second time it is another one.
    """
    images = {
        one.camera: np.full((1, *(one.shape[1:] + one.shape[:1] if one.shape[0] == 3 else one.shape)), 127, np.uint8)
        for one in version.inputs.values()
        if one.camera
    }
    low, high = (np.nan_to_num([getattr(one, end) for one in spec.state]) for end in ("low", "high"))
    found: list[list[FloatArray]] = []
    policy = OnnxPolicy(folder, version)
    for _ in range(2):
        policy.begin(0, 1)
        found.append([])
        for part in (0.0, 0.5, 1.0):
            state = (low + part * (high - low)).astype(np.float32)[None]
            found[-1].append(policy.act(Observation(stamp_ns=0, state=state, images=images), np.array([0])))
    if not np.isfinite(found[0]).all():
        raise PolicyProblem(f"{folder / MODEL} gives numbers that are not finite for states within their bounds.")
    if not np.array_equal(found[0], found[1]):
        raise PolicyProblem(
            f"{folder / MODEL} draws its own noise, so an episode could not be repeated: make the noise an input."
        )


def _short(problem: Exception) -> str:
    return " ".join(str(problem).split())[:200]
