"""A steered policy: a small network picks the noise from which a frozen flow policy makes its chunk. numpy only.

Diffusion steering (DSRL, Wagenmaker et al., arXiv 2506.15799): the flow policy is neither changed nor differentiated,
so every chunk is one that it could have sampled itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from enpire.errors import PolicyProblem
from enpire.files import parse
from enpire.types import FloatArray, IntArray, Observation
from policies.flow_policy import FlowPolicy, FlowVersion, read_added_network
from policies.normalise import fourier
from policies.perceptron import Perceptron

KIND, KEY = "steered", "steering"


@dataclass(frozen=True, slots=True, kw_only=True)
class Steering:
    """The settings of the noise network in policy.json."""

    reach: float
    """Largest mean of the noise, in standard deviations of the noise that the flow policy draws itself."""
    spread: float
    """Standard deviation of the noise around its mean, in the same unit: exploration. At least 0."""
    frequencies: int
    """Octaves of the Fourier features of the state."""


def steering_inputs(version: FlowVersion, about: Steering, state: FloatArray) -> FloatArray:
    """The network's inputs (N, features) float32 of states (N, state_dim), units of the robot."""
    return fourier(version.state.forward(state.astype(np.float32)), about.frequencies)


class Steered:
    """The loaded policy."""

    def __init__(self, version: FlowVersion, about: Steering, network: Perceptron) -> None:
        """`network`: from `steering_inputs` to the mean of the noise before tanh, (chunk_dim,)."""
        self._version, self._about, self._network = version, about, network
        self._flow = FlowPolicy(version)
        self.horizon, self.execute = self._flow.horizon, self._flow.execute
        self._draws: dict[int, np.random.Generator] = {}

    def begin(self, lane: int, seed: int) -> None:
        """Start a new episode in this lane; `seed` is of its noise."""
        self._draws[lane] = np.random.default_rng(seed)

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        """Chunks from the chosen noise: (len(lanes), horizon, action_dim) float32, units of the robot.

        PolicyProblem if `observation.state` is not (len(lanes), state_dim), or a lane has not begun an episode.
        """
        shape, about = self._version.shape, self._about
        if observation.state.shape != (len(lanes), shape.state_dim):
            raise PolicyProblem(
                f"the steered policy got a state of shape {observation.state.shape}; for these lanes it must be "
                f"{(len(lanes), shape.state_dim)}."
            )
        unknown = [int(lane) for lane in lanes if int(lane) not in self._draws]
        if unknown:
            raise PolicyProblem(
                f"lane {unknown[0]} asks for an action before its episode began; call begin(lane, seed) first."
            )
        mean = np.float32(about.reach) * np.tanh(
            self._network(steering_inputs(self._version, about, observation.state))
        )
        drawn = np.stack([self._draws[int(lane)].standard_normal(shape.chunk_dim, np.float32) for lane in lanes])
        noise = (mean + np.float32(about.spread) * drawn) * np.float32(self._version.temperature)
        chunks = self._flow.integrate(observation.state, noise.astype(np.float32))
        return self._version.action.inverse(chunks.reshape(len(lanes), shape.horizon, shape.action_dim))


def load(folder: Path) -> Steered:
    """Load a version's folder; PolicyProblem or FileProblem if it does not fit."""
    version, added = read_added_network(folder, KIND, KEY)
    about = parse(Steering, added.about, f"The version {folder}, steering")
    if not (0 < about.reach <= 10 and 0 <= about.spread <= 10):
        raise PolicyProblem(
            f"{folder}: reach is {about.reach} and spread {about.spread}; they must be in (0, 10] and [0, 10]. Train "
            "the version again."
        )
    shape = version.shape
    network = Perceptron(added.weights, shape.state_dim * (1 + 2 * about.frequencies), shape.chunk_dim)
    return Steered(version, about, network)
