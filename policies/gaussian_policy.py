"""A Gaussian policy over action chunks, as actor-critic methods train it. numpy only.

policy.json has the keys kind ("gaussian"), execute, frequencies, temperature, deviation, state and action. The weights
are those of one perceptron from state features to the mean before its tanh.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from enpire.errors import PolicyProblem
from enpire.types import FloatArray, IntArray, Observation
from policies.normalise import Scale, fourier
from policies.perceptron import Perceptron


@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianVersion:
    """The contents of a version's folder."""

    execute: int
    frequencies: int
    """Octaves of the Fourier features of the state."""
    temperature: float
    """Factor on the standard deviation when sampling; 0 sends the mean."""
    deviation: FloatArray
    """(execute * action_dim,) float32, standard deviations, normalised."""
    state: Scale
    action: Scale
    """Of one command; normalised commands are in [-1, 1]."""
    weights: Mapping[str, FloatArray]
    """`<i>.weight` (out, in) and `<i>.bias` (out,), float32."""


class GaussianPolicy:
    """The loaded policy."""

    def __init__(self, version: GaussianVersion) -> None:
        """Load the network; PolicyProblem if the weights do not fit the sizes."""
        self._version = version
        self.horizon = self.execute = version.execute
        wide = len(version.state.mean) * (1 + 2 * version.frequencies)
        self._network = Perceptron(version.weights, wide, version.execute * len(version.action.mean))
        self._noise: dict[int, np.random.Generator] = {}

    def begin(self, lane: int, seed: int) -> None:
        """Start a new episode in this lane; `seed` is of its noise."""
        self._noise[lane] = np.random.default_rng(seed)

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        """Sample chunks (len(lanes), execute, action_dim) float32, units of the robot.

        PolicyProblem if `observation.state` is not (len(lanes), state_dim), or a lane has not begun an episode.
        """
        version, state = self._version, observation.state.astype(np.float32)
        if state.shape != (len(lanes), len(version.state.mean)):
            raise PolicyProblem(
                f"the gaussian policy got a state of shape {state.shape}; for these lanes it must be "
                f"{(len(lanes), len(version.state.mean))}."
            )
        unknown = [int(lane) for lane in lanes if int(lane) not in self._noise]
        if unknown:
            raise PolicyProblem(
                f"lane {unknown[0]} asks for an action before its episode began; call begin(lane, seed) first."
            )
        mean = np.tanh(self._network(fourier(version.state.forward(state), version.frequencies)))
        size = len(version.deviation)
        noise = [self._noise[int(lane)].standard_normal(size, dtype=np.float32) for lane in lanes]
        sent = np.clip(mean + version.temperature * version.deviation * np.stack(noise), -1, 1).astype(np.float32)
        return version.action.inverse(sent.reshape(len(lanes), self.execute, -1))


def save(version: GaussianVersion, folder: Path) -> None:
    """Write policy.json and weights.safetensors into an existing folder."""
    document = {
        "kind": "gaussian", "execute": version.execute, "frequencies": version.frequencies,
        "temperature": round(version.temperature, 6), "deviation": [float(value) for value in version.deviation],
        "state": version.state.as_json(), "action": version.action.as_json(),
    }  # fmt: skip
    (folder / "policy.json").write_text(json.dumps(document, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    plain = {name: np.ascontiguousarray(version.weights[name], np.float32) for name in sorted(version.weights)}
    save_file(plain, folder / "weights.safetensors")


def load(folder: Path) -> GaussianPolicy:
    """Load a version's folder; PolicyProblem if it does not fit."""
    where = str(folder / "policy.json")
    try:
        document = json.loads((folder / "policy.json").read_text(encoding="utf-8"))
        weights = load_file(folder / "weights.safetensors")
        version = GaussianVersion(
            execute=int(document["execute"]),
            frequencies=int(document["frequencies"]),
            temperature=float(document["temperature"]),
            deviation=np.asarray(document["deviation"], np.float32),
            state=Scale.from_json(document["state"], where),
            action=Scale.from_json(document["action"], where),
            weights=weights,
        )
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise PolicyProblem(f"{folder}: not a readable gaussian policy ({error}); fetch the version again.") from error
    if len(version.deviation) != version.execute * len(version.action.mean):
        raise PolicyProblem(f"{where}: deviation must have execute * action_dim numbers; write the version again.")
    return GaussianPolicy(version)
