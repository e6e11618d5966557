"""Any LeRobot policy (0.6.1) as a Policy, from a local folder: nothing is asked of a hub, in reading or in writing.

A version's folder is LeRobot's own `pretrained_model` folder (config.json, model.safetensors, the two processors)
with our policy.json beside it, so that LeRobot's tools open it too:
{"kind": "lerobot", "inputs": {LeRobot's key: [first, last + 1] of our state}, "execute": number, "task": text}.
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from enpire.errors import MissingExtra, PolicyProblem
from enpire.files import parse
from enpire.types import FloatArray, IntArray, Observation

if TYPE_CHECKING:
    from lerobot.policies.pretrained import PreTrainedPolicy

BLOCK_ROWS = 8
"""ACT decides for blocks of exactly this many lanes, so that a lane's chunk is the same in any company."""
IMAGES = "observation.images."


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What policy.json says."""

    kind: Literal["lerobot"] = "lerobot"
    inputs: Mapping[str, tuple[int, int]]
    """LeRobot's key -> the part of our state row that it gets, [first, last + 1)."""
    execute: int
    """Actions sent before the next decision."""
    commands: int = 1
    """Commands in one action of a policy that knows no chunks (LeRobot's gaussian_actor)."""
    task: str = ""
    """The instruction that a vision-language-action policy reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """A LeRobot policy with its processors."""

    about: About
    policy: PreTrainedPolicy
    before: Any
    """LeRobot's pipeline that normalises a batch."""
    after: Any
    """LeRobot's pipeline that brings actions back to the robot's units."""


def open_parts(folder: Path) -> Parts:
    """Load a version's folder. PolicyProblem when it does not fit, MissingExtra without LeRobot."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    path = folder / "policy.json"
    try:
        document: object = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise PolicyProblem(f"{path} cannot be read ({error}); fetch the version again.") from error
    about = parse(About, document, f"The version {path}")
    for name in ("config.json", "model.safetensors", "policy_preprocessor.json", "policy_postprocessor.json"):
        if not (folder / name).is_file():
            # LeRobot would look for a missing file on the hub.
            raise PolicyProblem(f"{folder} lacks {name}, which every LeRobot policy has; save it with its processors.")
    return _opened(folder.resolve(), about)


def _opened(folder: Path, about: About) -> Parts:
    try:
        from lerobot.configs.policies import PreTrainedConfig
        from lerobot.policies.factory import get_policy_class, make_pre_post_processors
    except ModuleNotFoundError as missing:
        raise missing_extra(missing) from missing
    try:
        config = PreTrainedConfig.from_pretrained(folder, local_files_only=True)
        config.device = "cpu"
        policy = get_policy_class(config.type).from_pretrained(
            folder, config=config, local_files_only=True, strict=True
        )
        before, after = make_pre_post_processors(
            config, pretrained_path=str(folder), preprocessor_overrides={"device_processor": {"device": "cpu"}}
        )
    except ImportError as missing:
        raise missing_extra(missing) from missing
    except (OSError, ValueError, KeyError, RuntimeError, TypeError) as error:
        raise PolicyProblem(f"{folder}: LeRobot cannot load this policy ({error}).") from error
    policy.eval()
    return Parts(about=about, policy=policy, before=before, after=after)


def missing_extra(missing: ImportError) -> MissingExtra:
    """The sentence for a LeRobot that is not there, or lacks what one family of policies needs."""
    extra = "vla" if "transformers" in str(missing) else "lerobot"
    return MissingExtra(
        f"This LeRobot policy needs a package that is not installed ({missing}): pip install 'enpire[{extra}]'."
    )


def save(parts: Parts, folder: Path) -> None:
    """Write a version into an existing folder; LeRobot's tools and `load` both open it."""
    for parameter in parts.policy.parameters():
        # A trained network's parameters may be views of one row; a file wants each by itself.
        parameter.data = parameter.data.clone()
    parts.policy.save_pretrained(folder)
    # Without metadata: names of shared tensors would stand there in another order each time.
    weights = folder / "model.safetensors"
    save_file(load_file(weights), weights, metadata={"format": "pt"})
    parts.before.save_pretrained(folder)
    parts.after.save_pretrained(folder)
    text = json.dumps(asdict(parts.about), indent=1, sort_keys=True) + "\n"
    (folder / "policy.json").write_text(text, encoding="utf-8")


def batch_of(about: About, state: FloatArray) -> dict[str, Tensor]:
    """LeRobot's observation keys for our states (B, state_dim)."""
    found: dict[str, Tensor] = {}
    for key, (first, last) in about.inputs.items():
        if not 0 <= first < last <= state.shape[1]:
            raise PolicyProblem(f"{key} asks for the state's columns {first} to {last}; there are {state.shape[1]}.")
        found[key] = torch.from_numpy(np.ascontiguousarray(state[:, first:last], np.float32))
    return found


def picture_inputs(config: Any) -> Mapping[str, Any]:
    """LeRobot's key -> feature, for the inputs that are pictures."""
    return {key: feature for key, feature in config.input_features.items() if feature.type.name == "VISUAL"}


class LerobotPolicy:
    """A LeRobot policy that decides for several lanes.

    A policy with several observation steps sees the lane's last decisions, so `execute` 1 gives it LeRobot's own
    spacing. ACT has no noise and decides in blocks; others decide lane by lane with a seed each (the convolutions of
    diffusion give a row other last bits at another place in its block).
    """

    def __init__(self, parts: Parts) -> None:
        """Ask the policy once how long its chunks are."""
        self._parts = parts
        self._config: Any = parts.policy.config
        self._steps = int(getattr(self._config, "n_obs_steps", 1))
        self._noise: dict[int, np.random.Generator] = {}
        self._past: dict[int, deque[dict[str, Tensor]]] = {}
        self._blocks = self._config.type == "act"
        self.horizon = self._probe()
        self.execute = parts.about.execute
        if not 1 <= self.execute <= self.horizon:
            raise PolicyProblem(
                f"execute is {self.execute}; this {self._config.type} policy allows 1 to {self.horizon}."
            )

    def begin(self, lane: int, seed: int) -> None:
        """A new episode begins in this lane."""
        self._noise[lane] = np.random.default_rng(seed)
        self._past.pop(lane, None)

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        """Chunks for the lanes named, (len(lanes), horizon, action_dim), in the robot's units."""
        unknown = [int(lane) for lane in lanes if int(lane) not in self._noise]
        if unknown:
            raise PolicyProblem(f"lane {unknown[0]} decides before its episode began; call begin(lane, seed) first.")
        if len(observation.state) != len(lanes):
            raise PolicyProblem(f"{len(observation.state)} states came for {len(lanes)} lanes; give one for each.")
        rows = self._rows(observation)
        for row, lane in enumerate(lanes):
            self._remember(int(lane), {key: value[row] for key, value in rows.items()})
        size = BLOCK_ROWS if self._blocks else 1
        parts = [self._block([int(lane) for lane in lanes[top : top + size]]) for top in range(0, len(lanes), size)]
        return np.concatenate(parts) if parts else np.zeros((0, self.horizon, self._action_dim), np.float32)

    @property
    def _action_dim(self) -> int:
        return int(self._config.action_feature.shape[0]) // self._parts.about.commands

    def _rows(self, observation: Observation) -> dict[str, Tensor]:
        """Normalised inputs, one row for each lane."""
        rows = batch_of(self._parts.about, observation.state)
        for key in picture_inputs(self._config):
            camera = key.removeprefix(IMAGES)
            if camera not in observation.images:
                raise PolicyProblem(
                    f"this policy looks through the camera {camera!r}, which the station does not have."
                )
            picture = np.ascontiguousarray(observation.images[camera].transpose(0, 3, 1, 2), np.float32)
            rows[key] = torch.from_numpy(picture / np.float32(255))
        asked: dict[str, Any] = {**rows, "task": [self._parts.about.task] * len(observation.state)}
        seen = self._parts.before(asked)
        return {key: value for key, value in seen.items() if key.startswith("observation.")}

    def _remember(self, lane: int, row: dict[str, Tensor]) -> None:
        past = self._past.setdefault(lane, deque(maxlen=self._steps))
        past.append(row)
        while len(past) < self._steps:
            past.append(row)

    def _block(self, lanes: list[int]) -> FloatArray:
        padded = lanes + [lanes[-1]] * ((BLOCK_ROWS if self._blocks else 1) - len(lanes))
        keys = self._past[lanes[0]][0]
        stacked = {
            key: torch.stack([torch.stack([row[key] for row in self._past[lane]]) for lane in padded]) for key in keys
        }
        batch = {key: self._shaped(value) for key, value in stacked.items()}
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            self._parts.policy.reset()
            torch.manual_seed(int(self._noise[lanes[0]].integers(2**62)))
            chunk = self._chunk(batch)
            actions = self._parts.after(chunk.reshape(-1, chunk.shape[-1]))
        found = actions.numpy().astype(np.float32)
        return found.reshape(len(padded), -1, self._action_dim)[: len(lanes)]

    def _chunk(self, batch: dict[str, Tensor]) -> Tensor:
        """(B, steps, action width), normalised."""
        if self._config.type == "gaussian_actor":
            return self._parts.policy.select_action(batch)[:, None]
        return self._parts.policy.predict_action_chunk(batch)

    def _shaped(self, value: Tensor) -> Tensor:
        """(B, steps, ...) for policies with a history axis, (B, ...) for those without."""
        return value if self._config.type == "diffusion" or self._steps > 1 else value[:, 0]

    def _probe(self) -> int:
        wide = max(last for _, last in self._parts.about.inputs.values())
        images = {
            key.removeprefix(IMAGES): np.zeros((1, *feature.shape[1:], feature.shape[0]), np.uint8)
            for key, feature in picture_inputs(self._config).items()
        }
        self.horizon = 0
        self.begin(-1, 0)
        seen = Observation(stamp_ns=0, state=np.zeros((1, wide), np.float32), images=images)
        chunk = self.act(seen, np.array([-1]))
        del self._noise[-1], self._past[-1]
        return int(chunk.shape[1])


def load(folder: Path) -> LerobotPolicy:
    """Load a version's folder."""
    return LerobotPolicy(open_parts(folder))
