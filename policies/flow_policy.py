"""The flow-matching policy as a station runs it. It uses numpy only, so that a station need not load torch.

A chunk of actions starts as noise and follows a learned velocity field in a few Euler steps
(flow matching, Lipman et al., arXiv 2210.02747). Training is in `policies.flow_network`; a test holds both equal.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Self

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from enpire.errors import PolicyProblem
from enpire.types import FloatArray, IntArray, Observation
from policies.flow_shape import TIME_OCTAVES, FlowShape
from policies.normalise import Scale, fourier

BLOCK_ROWS = 8
"""Rows of every matrix product. Products with different numbers of rows differ in the last bits; with a fixed number a
lane's chunk does not depend on which other lanes are in the batch."""
INDICATOR = "indicator"
"""Name of the weights (hidden,) from the indicator to the first layer."""
KINDS = frozenset({"flow", "best_of_n", "residual", "foreseeing", "steered", "refined"})
"""Kinds of versions whose actor is a flow policy; a learner that trains a flow policy accepts each as a parent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowVersion:
    """The contents of a version's folder."""

    shape: FlowShape
    state: Scale
    action: Scale
    temperature: float
    """Standard deviation of the initial noise when sampling; training uses 1."""
    weights: Mapping[str, FloatArray]
    """`layer.<i>.weight` (out, in), `layer.<i>.bias` (out,), and with the indicator `indicator` (hidden,); float32."""
    collect_temperature: float = 0.0
    """`temperature` of rollouts that only collect data; 0: the same."""
    guidance: float = 1.0
    """With the indicator: weight of "positive" when sampling. 0 is the unconditioned policy, 1 the conditioned one.
    Above 1 their difference is enlarged (classifier-free guidance, Ho and Salimans, arXiv 2207.12598)."""

    def weights_for(self, shape: FlowShape) -> Mapping[str, FloatArray]:
        """The weights for a network of `shape`, which may differ from the version's in `indicator` alone.

        A network with the new input computes the same for each of its values until it is trained. A network without the
        input gets the policy that is conditioned on "positive".
        """
        if shape.indicator and not self.shape.indicator:
            return {**self.weights, INDICATOR: np.zeros(shape.hidden, np.float32)}
        if self.shape.indicator and not shape.indicator:
            layers = {name: value for name, value in self.weights.items() if name != INDICATOR}
            return layers | {"layer.0.bias": self.weights["layer.0.bias"] + self.weights[INDICATOR]}
        return self.weights


def time_features(time: FloatArray) -> FloatArray:
    """Fourier features of flow times (N,) in [0, 1]: (N, 1 + 2 * TIME_OCTAVES) float32."""
    return fourier(time[:, None].astype(np.float32), TIME_OCTAVES)


class FlowPolicy:
    """A loaded flow policy. Rows of a batch are independent of each other, bit for bit."""

    def __init__(self, version: FlowVersion) -> None:
        """Precompute the first layer's terms of the flow time.

        Raises:
            PolicyProblem: the weights do not have the shape, or are not finite.
        """
        shape = version.shape
        self.shape = shape
        self.horizon, self.execute = shape.horizon, shape.execute
        self._version = version
        self._layers = _layers(version)
        first, bias = self._layers[0]
        cut_time, cut_state = shape.chunk_dim, shape.widths[0] - shape.state_features
        times = np.arange(shape.euler_steps, dtype=np.float32) / np.float32(shape.euler_steps)
        self._chunk_weight = np.ascontiguousarray(first[:cut_time])
        self._state_weight = np.ascontiguousarray(first[cut_state:])
        self._time_offset: FloatArray = time_features(times) @ first[cut_time:cut_state] + bias
        self._unconditioned: FloatArray | None = None
        """The flow time's terms without the indicator, where guidance needs both."""
        if shape.indicator:
            _require_indicator(version)
            self._unconditioned = self._time_offset if version.guidance != 1 else None
            self._time_offset = self._time_offset + version.weights[INDICATOR]
        self._noise: dict[int, np.random.Generator] = {}

    @property
    def collector(self) -> Self:
        """The policy that collects data: this one, and its weights, with the version's `collect_temperature`."""
        temperature = self._version.collect_temperature
        if not temperature or temperature == self._version.temperature:
            return self
        made = copy.copy(self)
        made._version, made._noise = replace(self._version, temperature=temperature), {}
        return made

    def begin(self, lane: int, seed: int) -> None:
        """A new episode: the lane's noise starts again from `seed`."""
        self._noise[lane] = np.random.default_rng(seed)

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        """Sample one chunk for each lane.

        Args:
            observation: `state` (len(lanes), state_dim), units of the robot.
            lanes: (n,) int.

        Returns:
            (n, horizon, action_dim) float32, units of the robot.

        Raises:
            PolicyProblem: the state has another shape, or a lane has not begun an episode.
        """
        return self.sample(observation, lanes, 1)[:, 0]

    def act_along(self, observation: Observation, lanes: IntArray, left: FloatArray, delay: int) -> FloatArray:
        """Sample chunks whose first `delay` actions are those that are being executed.

        These actions are held on their own path from noise to action while the others flow, so that the chunk continues
        them smoothly (inpainting; real-time chunking, Black et al., arXiv 2506.07339, without its guidance term).

        Args:
            observation: `state` (len(lanes), state_dim), units of the robot.
            lanes: (n,) int.
            left: (n, any, action_dim), the rest of the present chunks, units of the robot; nan after their ends.
            delay: number of these actions that will have been sent when the answer is used.

        Returns:
            (n, horizon, action_dim) float32, units of the robot.
        """
        shape, count = self.shape, min(max(0, delay), self.horizon, left.shape[1])
        self._check(observation, lanes)
        noise = np.stack([self._draw_noise(int(lane)) for lane in lanes])
        target = np.full((len(lanes), shape.horizon, shape.action_dim), np.nan, np.float32)
        target[:, :count] = self._version.action.forward(left[:, :count])
        chunks = self.integrate(observation.state, noise, target.reshape(len(lanes), shape.chunk_dim))
        return self._version.action.inverse(chunks.reshape(target.shape))

    def sample(self, observation: Observation, lanes: IntArray, count: int) -> FloatArray:
        """Sample `count` chunks for each lane, each from its own noise: (len(lanes), count, horizon, action_dim)."""
        self._check(observation, lanes)
        state, shape = observation.state, self.shape
        noise = np.zeros((len(lanes) * count, shape.chunk_dim), np.float32)
        for row in range(len(noise)):
            noise[row] = self._draw_noise(int(lanes[row // count]))
        chunks = self.integrate(np.repeat(state, count, axis=0), noise)
        return self._version.action.inverse(chunks.reshape(len(lanes), count, shape.horizon, shape.action_dim))

    def integrate(self, state: FloatArray, noise: FloatArray, target: FloatArray | None = None) -> FloatArray:
        """Integrate the velocity field from noise to chunks.

        Args:
            state: (N, state_dim), units of the robot.
            noise: (N, chunk_dim) float32, already multiplied by the temperature.
            target: (N, chunk_dim) float32, normalised; numbers that are not nan are reached exactly.

        Returns:
            (N, chunk_dim) float32, normalised.
        """
        out = np.empty_like(noise)
        features = fourier(self._version.state.forward(state.astype(np.float32)), self.shape.frequencies)
        for top in range(0, len(noise), BLOCK_ROWS):
            count = min(BLOCK_ROWS, len(noise) - top)
            rows = slice(top, top + count)
            block = None if target is None else _padded(target[rows])
            out[rows] = self._block(_padded(features[rows]), _padded(noise[rows]), block)[:count]
        return out

    def features(self, state: FloatArray) -> FloatArray:
        """What the policy knows of states (N, state_dim), units of the robot: (N, state_dim + hidden) float32.

        The normalised state, and the last hidden layer at flow time 0 for noise of 0.
        """
        normalised = self._version.state.forward(state.astype(np.float32))
        row = fourier(normalised, self.shape.frequencies)
        blocks = [_padded(row[top : top + BLOCK_ROWS]) @ self._state_weight for top in range(0, len(row), BLOCK_ROWS)]
        hidden = [np.zeros((0, self.shape.hidden)), *(self._hidden(block + self._time_offset[0]) for block in blocks)]
        return np.concatenate([normalised, np.concatenate(hidden)[: len(row)]], axis=1, dtype=np.float32)

    def _check(self, observation: Observation, lanes: IntArray) -> None:
        wanted = (len(lanes), self.shape.state_dim)
        if observation.state.shape != wanted:
            found = observation.state.shape
            raise PolicyProblem(f"the flow policy got a state of shape {found}; for these lanes it must be {wanted}.")

    def _draw_noise(self, lane: int) -> FloatArray:
        if lane not in self._noise:
            raise PolicyProblem(
                f"lane {lane} asks for an action before its episode began; call begin(lane, seed) first."
            )
        row = self._noise[lane].standard_normal(self.shape.chunk_dim)
        return (row * self._version.temperature).astype(np.float32)

    def _block(self, features: FloatArray, noise: FloatArray, target: FloatArray | None) -> FloatArray:
        """Euler steps for exactly BLOCK_ROWS rows."""
        steps = self.shape.euler_steps
        state_offset = features @ self._state_weight
        chunk = noise.copy()
        for step in range(steps):
            row = chunk @ self._chunk_weight + state_offset
            velocity = self._velocity(row + self._time_offset[step])
            if self._unconditioned is not None:
                free = self._velocity(row + self._unconditioned[step])
                velocity = free + np.float32(self._version.guidance) * (velocity - free)
            chunk += velocity * np.float32(1 / steps)
            if target is not None:
                time = np.float32((step + 1) / steps)
                chunk = np.where(np.isnan(target), chunk, (1 - time) * noise + time * target)
        return chunk

    def _velocity(self, row: FloatArray) -> FloatArray:
        """The velocity (BLOCK_ROWS, chunk_dim) from the first layer's output (BLOCK_ROWS, hidden)."""
        weight, bias = self._layers[-1]
        return self._hidden(row) @ weight + bias

    def _hidden(self, row: FloatArray) -> FloatArray:
        """The last hidden layer from the first layer's output, both (BLOCK_ROWS, hidden)."""
        row = _silu(row)
        for weight, bias in self._layers[1:-1]:
            row = _silu(row @ weight + bias)
        return row


def load(folder: Path) -> FlowPolicy:
    """Load a version's folder (policy.json and weights.safetensors); PolicyProblem if it does not fit."""
    return FlowPolicy(read(folder))


def read(folder: Path) -> FlowVersion:
    """Read a version's folder without building the policy; of a kind with an added network, only the flow policy.

    Raises:
        PolicyProblem: the folder cannot be read, is of another kind, or does not fit.
    """
    where = str(folder / "policy.json")
    try:
        document = json.loads((folder / "policy.json").read_text(encoding="utf-8"))
        kind = document.get("kind") if isinstance(document, dict) else None
        if kind not in KINDS:
            raise PolicyProblem(
                f"{where} is of kind {kind!r}; a flow policy is of kind {', '.join(sorted(KINDS))}. Improve this "
                "version with a recipe for its kind, or start without a parent."
            )
        weights = load_file(folder / "weights.safetensors")
    except (OSError, ValueError, SafetensorError) as error:
        raise PolicyProblem(f"{folder}: not a readable flow policy ({error}); fetch the version again.") from error
    try:
        shape = FlowShape(**document["shape"])
        temperature, guidance = float(document["temperature"]), float(document.get("guidance", 1.0))
        collect_temperature = float(document.get("collect_temperature", 0.0))
        state, action = document["state"], document["action"]
    except (KeyError, TypeError, ValueError) as error:
        raise PolicyProblem(f"{where}: shape, temperature, state and action must fit ({error}).") from error
    return FlowVersion(
        shape=shape,
        state=Scale.from_json(state, where),
        action=Scale.from_json(action, where),
        temperature=temperature,
        weights={
            name: value
            for name, value in weights.items()
            if name.startswith("layer.") or (name == INDICATOR and shape.indicator)
        },
        collect_temperature=collect_temperature,
        guidance=guidance,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedNetwork:
    """A network that a version has in addition to its flow policy, in the same files."""

    kind: str
    """One of KINDS."""
    key: str
    """The key of `about` in policy.json; tensors are named `<key>.<name>`."""
    about: Mapping[str, object]
    """Settings of the network."""
    weights: Mapping[str, FloatArray]
    """Name -> float32 array."""


def read_added_network(folder: Path, kind: str, key: str) -> tuple[FlowVersion, AddedNetwork]:
    """Read a version of kind `kind`: its flow policy and its added network. PolicyProblem if it does not fit."""
    version, where = read(folder), folder / "policy.json"
    document = json.loads(where.read_text(encoding="utf-8"))
    if document["kind"] != kind or not isinstance(document.get(key), dict):
        raise PolicyProblem(
            f"{where}: a version of kind {kind} has the key {key}; this one is of kind {document['kind']}. Load it as "
            "that kind."
        )
    tensors = load_file(folder / "weights.safetensors")
    mine = {name.removeprefix(f"{key}."): value for name, value in tensors.items() if name.startswith(f"{key}.")}
    return version, AddedNetwork(kind=kind, key=key, about=document[key], weights=mine)


def save(version: FlowVersion, folder: Path, added: AddedNetwork | None = None) -> None:
    """Write policy.json and weights.safetensors into an existing folder; equal versions give equal bytes."""
    shape = asdict(version.shape)
    document: dict[str, object] = {
        "kind": added.kind if added else "flow",
        "shape": shape,
        "temperature": round(version.temperature, 6),
        "state": version.state.as_json(),
        "action": version.action.as_json(),
    }
    if version.collect_temperature:
        document["collect_temperature"] = round(version.collect_temperature, 6)
    if version.shape.indicator:
        document["guidance"] = round(version.guidance, 6)
    else:
        # A version without the input has the bytes that it had before the input existed.
        del shape["indicator"]
    weights = dict(version.weights)
    if added:
        document[added.key] = dict(added.about)
        weights |= {f"{added.key}.{name}": value for name, value in added.weights.items()}
    text = json.dumps(document, indent=1, sort_keys=True) + "\n"
    (folder / "policy.json").write_text(text, encoding="utf-8")
    plain = {name: np.ascontiguousarray(weights[name], dtype=np.float32) for name in sorted(weights)}
    save_file(plain, folder / "weights.safetensors")


def _layers(version: FlowVersion) -> list[tuple[FloatArray, FloatArray]]:
    widths = version.shape.widths
    layers: list[tuple[FloatArray, FloatArray]] = []
    for i, (wide_in, wide_out) in enumerate(pairwise(widths)):
        weight, bias = version.weights.get(f"layer.{i}.weight"), version.weights.get(f"layer.{i}.bias")
        if weight is None or bias is None or weight.shape != (wide_out, wide_in) or bias.shape != (wide_out,):
            found = None if weight is None else weight.shape
            raise PolicyProblem(
                f"layer {i} of the flow policy must be {(wide_out, wide_in)} with a bias, found {found}."
            )
        if not (np.isfinite(weight).all() and np.isfinite(bias).all()):
            raise PolicyProblem(f"layer {i} of the flow policy holds numbers that are not finite; train it again.")
        layers.append((np.ascontiguousarray(weight.T, dtype=np.float32), bias.astype(np.float32)))
    return layers


def _require_indicator(version: FlowVersion) -> None:
    found = version.weights.get(INDICATOR)
    if found is None or found.shape != (version.shape.hidden,) or not np.isfinite(found).all():
        raise PolicyProblem(
            f"a flow policy with the indicator must have {version.shape.hidden} finite weights named {INDICATOR}, "
            f"found {None if found is None else found.shape}; train it again."
        )
    if not (np.isfinite(version.guidance) and version.guidance >= 0):
        raise PolicyProblem(f"guidance is {version.guidance}; it must be a finite number of at least 0.")


def _padded(rows: FloatArray) -> FloatArray:
    if len(rows) == BLOCK_ROWS:
        return np.ascontiguousarray(rows)
    full = np.zeros((BLOCK_ROWS, rows.shape[1]), dtype=np.float32)
    full[: len(rows)] = rows
    return full


def _silu(x: FloatArray) -> FloatArray:
    with np.errstate(over="ignore"):
        return x / (np.float32(1) + np.exp(-x))
