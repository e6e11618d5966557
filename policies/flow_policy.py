"""The flow-matching policy as a station runs it: numpy only, so that no station has to load torch.

A chunk of actions starts as noise and follows a learned velocity field in a few Euler steps
(flow matching, Lipman et al., arXiv 2210.02747). Training is in `policies.flow_network`; a test holds both equal.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from enpire.errors import PolicyProblem
from enpire.types import FloatArray, IntArray, Observation
from policies.normalise import Scale, fourier

BLOCK_ROWS = 8
"""Matrix products of different heights differ in the last bits: every product has exactly this many rows, so that a
lane's chunk is the same whichever lanes decide with it."""
TIME_OCTAVES = 3
KINDS = frozenset({"flow", "best_of_n", "residual", "foreseeing"})
"""Kinds of versions whose actor is a flow policy: any of them can be the parent of a learner that trains one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowShape:
    """The sizes of a flow policy, as policy.json names them."""

    state_dim: int
    action_dim: int
    horizon: int = 8
    """Actions in a chunk."""
    execute: int = 4
    """Actions sent before the next decision."""
    hidden: int = 256
    depth: int = 3
    frequencies: int = 4
    """Octaves of sines and cosines of the normalised state."""
    euler_steps: int = 10

    def __post_init__(self) -> None:
        """Refuse sizes that no network can have."""
        if not 1 <= self.execute <= self.horizon:
            raise PolicyProblem(f"execute is {self.execute}; allowed is 1 to horizon ({self.horizon}).")
        if min(self.state_dim, self.action_dim, self.hidden, self.depth, self.euler_steps) < 1 or self.frequencies < 0:
            raise PolicyProblem(f"a flow policy needs sizes of at least 1 (frequencies 0), got {self}.")

    @property
    def chunk_dim(self) -> int:
        """Numbers in one action chunk."""
        return self.horizon * self.action_dim

    @property
    def state_features(self) -> int:
        """Width of a state after the Fourier features."""
        return self.state_dim * (1 + 2 * self.frequencies)

    @property
    def widths(self) -> tuple[int, ...]:
        """Widths of the layers, input first. The input is chunk, time features, state features, in this order."""
        first = self.chunk_dim + 1 + 2 * TIME_OCTAVES + self.state_features
        return (first, *(self.hidden,) * self.depth, self.chunk_dim)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowVersion:
    """Everything that a version's folder says."""

    shape: FlowShape
    state: Scale
    action: Scale
    temperature: float
    """Spread of the initial noise at sampling time; 1 is what was trained."""
    weights: Mapping[str, FloatArray]
    """`layer.<i>.weight` (out, in) and `layer.<i>.bias` (out,)."""


def time_features(time: FloatArray) -> FloatArray:
    """Flow time (N,) in [0, 1] -> (N, 1 + 2 * TIME_OCTAVES)."""
    return fourier(time[:, None].astype(np.float32), TIME_OCTAVES)


class FlowPolicy:
    """A policy version, loaded. Rows of a batch never influence each other, to the bit."""

    def __init__(self, version: FlowVersion) -> None:
        """Check the weights against the shape and fold the constant parts of the first layer."""
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
        self._noise: dict[int, np.random.Generator] = {}

    def begin(self, lane: int, seed: int) -> None:
        """A new episode: the lane's noise starts again from `seed`."""
        self._noise[lane] = np.random.default_rng(seed)

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        """Chunks for the lanes named: state (len(lanes), state_dim) -> (len(lanes), horizon, action_dim)."""
        return self.candidates(observation, lanes, 1)[:, 0]

    def act_along(self, observation: Observation, lanes: IntArray, left: FloatArray, delay: int) -> FloatArray:
        """Chunks (len(lanes), horizon, action_dim) whose first `delay` actions are those that are being carried out.

        These are held on their own path from noise to action while the rest flows (inpainting, as in real-time
        chunking, Black et al., arXiv 2506.07339, without its guidance), so that the rest goes on from them.
        """
        shape, count = self.shape, min(max(0, delay), self.horizon, left.shape[1])
        self._fits(observation, lanes)
        noise = np.stack([self._draw(int(lane)) for lane in lanes])
        wanted = np.full((len(lanes), shape.horizon, shape.action_dim), np.nan, np.float32)
        wanted[:, :count] = self._version.action.forward(left[:, :count])
        chunks = self.flow(observation.state, noise, wanted.reshape(len(lanes), shape.chunk_dim))
        return self._version.action.inverse(chunks.reshape(wanted.shape))

    def candidates(self, observation: Observation, lanes: IntArray, count: int) -> FloatArray:
        """`count` chunks for each lane named, (len(lanes), count, horizon, action_dim), each from noise of its own."""
        self._fits(observation, lanes)
        state, shape = observation.state, self.shape
        noise = np.zeros((len(lanes) * count, shape.chunk_dim), np.float32)
        for row in range(len(noise)):
            noise[row] = self._draw(int(lanes[row // count]))
        chunks = self.flow(np.repeat(state, count, axis=0), noise)
        return self._version.action.inverse(chunks.reshape(len(lanes), count, shape.horizon, shape.action_dim))

    def flow(self, state: FloatArray, noise: FloatArray, wanted: FloatArray | None = None) -> FloatArray:
        """Carry noise (N, chunk_dim), scaled already, to normalised chunks (N, chunk_dim) for raw states.

        Numbers of `wanted` (N, chunk_dim) that are not nan are reached exactly.
        """
        out = np.empty_like(noise)
        features = fourier(self._version.state.forward(state.astype(np.float32)), self.shape.frequencies)
        for top in range(0, len(noise), BLOCK_ROWS):
            count = min(BLOCK_ROWS, len(noise) - top)
            rows = slice(top, top + count)
            aim = None if wanted is None else _padded(wanted[rows])
            out[rows] = self._block(_padded(features[rows]), _padded(noise[rows]), aim)[:count]
        return out

    def _fits(self, observation: Observation, lanes: IntArray) -> None:
        wanted = (len(lanes), self.shape.state_dim)
        if observation.state.shape != wanted:
            found = observation.state.shape
            raise PolicyProblem(f"the flow policy got state of shape {found}; its lanes need {wanted}.")

    def _draw(self, lane: int) -> FloatArray:
        if lane not in self._noise:
            raise PolicyProblem(f"lane {lane} decides before its episode began; call begin(lane, seed) first.")
        row = self._noise[lane].standard_normal(self.shape.chunk_dim)
        return (row * self._version.temperature).astype(np.float32)

    def _block(self, features: FloatArray, noise: FloatArray, wanted: FloatArray | None) -> FloatArray:
        """Euler steps of exactly BLOCK_ROWS rows."""
        steps = self.shape.euler_steps
        state_offset = features @ self._state_weight
        chunk = noise.copy()
        for step in range(steps):
            row = _silu(chunk @ self._chunk_weight + state_offset + self._time_offset[step])
            for weight, bias in self._layers[1:-1]:
                row = _silu(row @ weight + bias)
            weight, bias = self._layers[-1]
            velocity: FloatArray = row @ weight + bias
            chunk += velocity * np.float32(1 / steps)
            if wanted is not None:
                flown = np.float32((step + 1) / steps)
                chunk = np.where(np.isnan(wanted), chunk, (1 - flown) * noise + flown * wanted)
        return chunk


def load(folder: Path) -> FlowPolicy:
    """Load a version's folder (policy.json and weights.safetensors); PolicyProblem says what does not fit."""
    return FlowPolicy(read(folder))


def read(folder: Path) -> FlowVersion:
    """Read the flow policy of a version's folder without building it; of other KINDS, the actor alone."""
    where = str(folder / "policy.json")
    try:
        document = json.loads((folder / "policy.json").read_text(encoding="utf-8"))
        kind = document.get("kind") if isinstance(document, dict) else None
        if kind not in KINDS:
            raise PolicyProblem(
                f"{where} is of kind {kind!r}, a flow policy of kind {', '.join(sorted(KINDS))}: improve this version "
                "with a recipe for its own kind, or begin without a parent."
            )
        weights = load_file(folder / "weights.safetensors")
    except (OSError, ValueError, SafetensorError) as error:
        raise PolicyProblem(f"{folder}: not a readable flow policy ({error}); fetch the version again.") from error
    try:
        shape = FlowShape(**document["shape"])
        temperature = float(document["temperature"])
        state, action = document["state"], document["action"]
    except (KeyError, TypeError, ValueError) as error:
        raise PolicyProblem(f"{where}: shape, temperature, state and action must fit ({error}).") from error
    return FlowVersion(
        shape=shape,
        state=Scale.from_json(state, where),
        action=Scale.from_json(action, where),
        temperature=temperature,
        weights={name: value for name, value in weights.items() if name.startswith("layer.")},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedNetwork:
    """What a policy built around a flow policy keeps beside it in the same folder."""

    kind: str
    """One of KINDS."""
    key: str
    """Under which policy.json says `about`; tensors are named `<key>.<name>`."""
    about: Mapping[str, object]
    weights: Mapping[str, FloatArray]


def read_added_network(folder: Path, kind: str, key: str) -> tuple[FlowVersion, AddedNetwork]:
    """A version of that kind: its flow policy and what lies beside it. PolicyProblem when it does not fit."""
    version, where = read(folder), folder / "policy.json"
    document = json.loads(where.read_text(encoding="utf-8"))
    if document["kind"] != kind or not isinstance(document.get(key), dict):
        raise PolicyProblem(f"{where}: a version of kind {kind} says {key}; this one is of kind {document['kind']}.")
    tensors = load_file(folder / "weights.safetensors")
    mine = {name.removeprefix(f"{key}."): value for name, value in tensors.items() if name.startswith(f"{key}.")}
    return version, AddedNetwork(kind=kind, key=key, about=document[key], weights=mine)


def save(version: FlowVersion, folder: Path, beside: AddedNetwork | None = None) -> None:
    """Write policy.json and weights.safetensors into an existing folder; the same version gives the same bytes."""
    document: dict[str, object] = {
        "kind": beside.kind if beside else "flow",
        "shape": asdict(version.shape),
        "temperature": round(version.temperature, 6),
        "state": version.state.as_json(),
        "action": version.action.as_json(),
    }
    weights = dict(version.weights)
    if beside:
        document[beside.key] = dict(beside.about)
        weights |= {f"{beside.key}.{name}": value for name, value in beside.weights.items()}
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


def _padded(rows: FloatArray) -> FloatArray:
    if len(rows) == BLOCK_ROWS:
        return np.ascontiguousarray(rows)
    full = np.zeros((BLOCK_ROWS, rows.shape[1]), dtype=np.float32)
    full[: len(rows)] = rows
    return full


def _silu(x: FloatArray) -> FloatArray:
    with np.errstate(over="ignore"):
        return x / (np.float32(1) + np.exp(-x))
