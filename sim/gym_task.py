"""Any Gymnasium environment as a task: `gym:<id>`, or `gym:<file>.yaml` with the environment and its success key.

The environment itself says whether a rollout succeeded. So the verifier is not a verifier of sensors: it reads a number
that the simulator appends to the state, and everything that shows it calls it simulator truth.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import gymnasium
import numpy as np

from enpire import plugins
from enpire.errors import EnvelopeViolation, RobotProblem, UsageError
from enpire.files import canonical, document, parse, read_yaml
from enpire.interfaces import Evidence, Policy, Skill
from enpire.types import (
    Bounds,
    FloatArray,
    ImageArray,
    IntArray,
    MaskArray,
    Observation,
    Split,
    Start,
    TaskSpec,
    Verdict,
)
from sim.gym_file import GymFile, Step, SuccessRule
from sim.gym_spaces import Rows, actions, observed
from sim.starts import Sampler
from sim.truth import Truth
from sim.verifiers.frozen import digest_of

Environment = gymnasium.Env[Any, Any]
CAMERA = "render"
SUCCESS_KEYS = ("is_success", "success")
"""Keys of `info` that are looked for where a file names none."""
SUCCESS, ENDED = "simulator_success", "simulator_ended"
"""The last two numbers of the state: 1 from the period on in which the environment reported a success, or ended."""
_SEEDS = 2**31
"""Environments are reset with a seed below this."""


def open_task(address: str) -> GymTask:
    """The task of `gym:<address>`: an id, or a YAML file (`GymFile`) below the current folder.

    Raises:
        UsageError: Gymnasium has no such environment, or it does not fit; FileProblem: the file is malformed.
    """
    path = Path(address)
    if path.suffix in (".yaml", ".yml"):
        return GymTask(path.stem, parse(GymFile, read_yaml(path), f"The task file {address}"))
    return GymTask(address.replace("/", "_").replace(":", "_"), GymFile(gym=address))


class GymTask:
    """A Gymnasium environment as a task. Its starts are seeds of `reset`."""

    starts_from_seeds = True
    """No sensor shows a seed, and no robot can reset the scene to one."""

    def __init__(self, name: str, file: GymFile) -> None:
        """Open one environment to read its spaces.

        Raises:
            UsageError: it cannot be made, or its observations or actions are no numbers.
        """
        self.file, self._name = file, name
        world = self.open()
        try:
            self.observed = tuple(observed(world.observation_space, (), file))
            self.actions = actions(world.action_space, file)
            registered = None if world.spec is None else gymnasium.spec(world.spec.id).max_episode_steps
            self._fps = float(world.metadata.get("render_fps") or 0.0)
            self.rule = file.success or _rule_of(world, file)
        finally:
            world.close()
        self._limit = file.limit or _registered_limit(file.gym, registered)

    @cached_property
    def spec(self) -> TaskSpec:
        """The spec: observations, the simulator's two numbers, and commands."""
        flags = tuple(Bounds(name=name, unit="1", low=0.0, high=1.0) for name in (SUCCESS, ENDED))
        return TaskSpec(
            name=self._name,
            instruction=self.file.instruction or self.file.gym,
            state=(*(bounds for item in self.observed for bounds in item.bounds), *flags),
            action=self.actions.bounds,
            rate_hz=self.file.rate_hz or self._fps or 30.0,
            limit_ticks=self._limit,
            cameras=(CAMERA,) if self.file.camera else (),
            start_names=("reset_seed",),
        )

    def open(self) -> Environment:
        """A new environment without a time limit of its own.

        Raises:
            UsageError: Gymnasium cannot make it.
        """
        plugins.look_here()
        options = dict(self.file.make) | ({"render_mode": "rgb_array"} if self.file.camera else {})
        try:
            return gymnasium.make(self.file.gym, max_episode_steps=-1, disable_env_checker=True, **options)
        except Exception as problem:
            raise UsageError(
                f"Gymnasium cannot make {self.file.gym!r}: {problem} Check the id, `make:` and that the package which "
                "registers it is installed; write module:Id-v0 to import that package first."
            ) from problem

    def row(self, observation: object) -> Rows:
        """One observation as numbers (state_dim - 2,), within their bounds."""
        return np.concatenate([item.read(observation) for item in self.observed])

    def rig(self, lanes: int, seed: int) -> GymRig:
        """A rig of `lanes` environments; the environment draws everything from the start, so `seed` changes nothing."""
        del seed
        return GymRig(self, lanes)

    def start(self, split: Split, index: int, secret: bytes) -> Start:
        """The index-th start of a split: a seed of `reset`; hidden ones depend on the secret."""
        sampler = Sampler(task=f"gym:{self._name}", ranges=((0.0, 1.0), (0.0, 1.0)))
        drawn = sampler.start(split, index, secret)
        return Start(split=split, index=index, values=(float(drawn.seed % _SEEDS),), seed=drawn.seed)

    def start_error(self, state: FloatArray, start: Start) -> tuple[tuple[float, ...], bool]:
        """The start itself: a reset by seed is exact."""
        del state
        return start.values, True

    def reset_skill(self) -> Skill:
        """There is none: UsageError, since only a seed begins an episode."""
        raise UsageError(
            f"The environment {self.file.gym} has no reset by the robot; set `reset: teleport` under `stations`."
        )

    def verifier(self) -> SimulatorTruth:
        """The environment's own word on success."""
        return SimulatorTruth(self)

    def expert(self, seed: int) -> Policy:
        """The expert of the file.

        Raises:
            UsageError: the file names none.
        """
        if not self.file.expert:
            raise UsageError(
                f"The task {self._name} has no expert; name one (`expert: module:attribute` in its file), or begin "
                "with `base: {policy: VERSION}` or with imported demonstrations (`enpire episodes import`)."
            )
        return cast("Policy", plugins.make("experts", self.file.expert, seed))


class SimulatorTruth:
    """Reads the environment's own word from the state: no verifier of sensors, and marked so."""

    needs_images = False

    def __init__(self, task: GymTask) -> None:
        """Its digest covers this code and the whole task file."""
        described = canonical(document(asdict(task.file)))
        self.digest = hashlib.sha256(f"{digest_of(type(self))} {described}".encode()).hexdigest()

    def finished(self, state: FloatArray, ticks: IntArray) -> MaskArray:
        """Which lanes (n,) succeeded or were ended by the environment: states (n, k)."""
        del ticks
        return (state[:, -2] > 0.5) | (state[:, -1] > 0.5)

    def judge(self, evidence: Evidence) -> Verdict:
        """A success if the environment reported one in any period."""
        good = bool((evidence.arrays.state[:, -2] > 0.5).any())
        return Verdict(
            kind="success" if good else "failure", confidence=1.0, source="verifier", reason="simulator truth"
        )


class GymRig:
    """Several environments as the lanes of one rig. A seed begins an episode, so there is no `teleport` to turn off."""

    def __init__(self, task: GymTask, lanes: int) -> None:
        """Open the environments; each stands at seed 0 until it is placed."""
        self.spec, self.lanes, self._task = task.spec, lanes, task
        self._worlds = [task.open() for _ in range(lanes)]
        self._state = np.zeros((lanes, self.spec.state_dim), np.float32)
        self._total = np.zeros(lanes)
        self._periods, self._closed = 0, False
        for lane in range(lanes):
            self._begin(lane, 0)

    def place(self, lane: int, start: Start) -> None:
        """Reset one environment with the seed of a start."""
        if not 0 <= lane < self.lanes:
            raise UsageError(f"Lane {lane} does not exist; this rig has lanes 0 to {self.lanes - 1}.")
        self._begin(lane, int(start.values[0]))

    def observe(self) -> Observation:
        """The newest observations: state (lanes, state_dim) float32."""
        return Observation(stamp_ns=round(self._periods * 1e9 / self.spec.rate_hz), state=self._state.copy())

    def act(self, action: FloatArray, moving: MaskArray) -> FloatArray:
        """Step the environments that move; returns the commands (lanes, action_dim) within their limits.

        An environment that has ended stays as it is until it is placed again.

        Raises:
            EnvelopeViolation: a wrong shape, or a command that is not finite; nothing has moved.
            RobotProblem: the rig is closed.
        """
        if self._closed:
            raise RobotProblem(f"This rig of {self.spec.name} is closed; open a new one.")
        wanted = (self.lanes, self.spec.action_dim)
        if action.shape != wanted or not np.isfinite(action[moving]).all():
            raise EnvelopeViolation(f"{self.spec.name} takes finite commands of shape {wanted}; nothing moved.")
        low, high = ([getattr(item, side) for item in self.spec.action] for side in ("low", "high"))
        sent = np.clip(action, low, high).astype(np.float32)
        for lane in np.flatnonzero(moving & (self._state[:, -1] < 0.5)):
            self._step(int(lane), sent[lane])
        self._periods += 1
        return sent

    def look(self, lane: int) -> Mapping[str, ImageArray]:
        """What `render()` gives for one lane, if the task has a camera."""
        if not self._task.file.camera:
            return {}
        image = np.asarray(self._worlds[lane].render())
        return {CAMERA: np.ascontiguousarray(image[..., :3], dtype=np.uint8)}

    def stop(self) -> None:
        """Nothing to do: an environment moves only in `act`."""

    def close(self) -> None:
        """Close all environments. Allowed twice."""
        if not self._closed:
            self._closed = True
            for world in self._worlds:
                world.close()

    def truth(self, lane: int) -> Truth:
        """Whether the environment reported a success since the last start."""
        return Truth(success=bool(self._state[lane, -2] > 0.5), metrics={"total": float(self._total[lane])})

    def _begin(self, lane: int, seed: int) -> None:
        observation, _ = self._worlds[lane].reset(seed=seed)
        self._total[lane] = 0.0
        self._state[lane] = [*self._task.row(observation), 0.0, 0.0]

    def _step(self, lane: int, command: FloatArray) -> None:
        observation, reward, terminated, truncated, info = self._worlds[lane].step(self._task.actions.native(command))
        self._total[lane] += float(reward)
        step = Step(reward=float(reward), total=float(self._total[lane]), terminated=terminated, info=info)
        good = self._state[lane, -2] > 0.5 or self._task.rule.met(step)
        self._state[lane] = [*self._task.row(observation), float(good), float(terminated or truncated)]


def _rule_of(world: Environment, file: GymFile) -> SuccessRule:
    """The rule where the file has none: the first usual key that the environment reports."""
    world.reset(seed=0)
    world.action_space.seed(0)
    info = world.step(world.action_space.sample())[4]
    for key in SUCCESS_KEYS:
        if key in info:
            return SuccessRule(info=key)
    raise UsageError(
        f"{file.gym} reports neither {' nor '.join(SUCCESS_KEYS)} in its info. Write a task file that names its "
        "success: `success: {info: KEY}`, `{info: KEY, at_least: NUMBER}`, `{reward: NUMBER}`, `{total: NUMBER}` or "
        "`{terminated: true}`, and give it as the task gym:FILE.yaml."
    )


def _registered_limit(gym: str, registered: int | None) -> int:
    if not registered:
        raise UsageError(f"{gym} is registered without a time limit; set `limit` in a task file, in periods.")
    return registered
