"""A simulated operator, who takes over when an episode is going to fail (habc.md § 4).

From time to time the operator tests in branches of the simulation how the policy would continue. When all branches
fail, the operator takes over after a reaction delay, with a tremor at first. Then the operator finishes the task, or
hands back once the branches show that the policy will succeed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np

from enpire.errors import UsageError
from enpire.files import parse
from enpire.interfaces import Policy, Rig, Task
from enpire.policy_calls import LoadedPolicy, policy_seed, with_images
from enpire.shares import require_share
from enpire.types import PEOPLE, FloatArray, IntArray, MaskArray, Observation, Order
from sim.truth import Truth

_BRANCH_LANES = 100_000
"""Branches run under lane numbers from here on, so that the policy's noise in the real lanes is not touched."""
_LEAST = {"look_every_ticks": 1, "branches": 2, "adaptation_ticks": 1, "least_hold_ticks": 0}
"""Field of `OperatorBehaviour` -> its smallest value."""


@runtime_checkable
class Copied(Protocol):
    """A rig whose lanes can be copied."""

    def snapshot(self, lane: int) -> object:
        """Everything that the rest of the lane's episode depends on."""
        ...


@runtime_checkable
class BranchRig(Rig, Protocol):
    """The rig in which branches run."""

    def restore(self, lane: int, snapshot: object) -> None:
        """Put a snapshot into a lane."""

    def truth(self, lane: int) -> Truth:
        """Ground truth of the branch."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorBehaviour:
    """Behaviour parameters of the operator: the options of `operator_options`."""

    look_every_ticks: int = 15
    """Periods between two looks at an episode."""
    branches: int = 5
    """Continuations that are tested in a look. The operator takes over when all fail, and may hand back when at most
    one fails."""
    reaction_ticks: tuple[int, int] = (6, 15)
    """Delay before taking over, drawn uniformly; 6 to 15 periods are 0.2 to 0.5 s at 30 Hz."""
    adaptation_ticks: int = 15
    """Periods over which the tremor fades."""
    tremor: float = 0.15
    """Standard deviation of the tremor at first, as a share of each command's range."""
    hands_back: float = 0.5
    """Probability, drawn before the episode, that the operator hands back instead of finishing."""
    least_hold_ticks: int = 20
    """Least number of periods before the operator hands back."""

    def __post_init__(self) -> None:
        """Refuse values out of range. One branch would be all branches and at most one branch at the same time."""
        for name, least in _LEAST.items():
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, not {getattr(self, name)}.")
        low, high = self.reaction_ticks
        if not 0 <= low <= high:
            raise ValueError(f"reaction_ticks must be [least, most], from 0 up, not [{low}, {high}].")
        require_share("hands_back", self.hands_back, "[0, 1]")
        require_share("tremor", self.tremor, "[0, 1]")


@dataclass(slots=True)
class _Watch:
    """One supervised episode."""

    policy: LoadedPolicy
    rng: np.random.Generator
    seed: int
    hands_back: bool
    offset: int
    """Periods by which the looks of lanes that began together differ."""
    takes_over_at: int = -1
    held_since: int = -1
    """Tick at which the operator took over; -1 while the policy controls the robot."""
    looked_at: int = -1
    chunk: FloatArray | None = None
    used: int = 0


class SimulatedOperator:
    """An `enpire.interventions.Intervener` for simulated stations: the plug-in `simulated`.

    Args:
        task: its expert (`clean_expert` where there is one) gives the operator's commands.
        rig: the station's rig; its lanes are copied.
        seed: of the operator and of the branches' rig.
        options: the fields of `OperatorBehaviour`.

    Raises:
        FileProblem: an unknown option, or a value that is not allowed.
        UsageError: the station's rig, or the task's, cannot be copied.
    """

    options: ClassVar = OperatorBehaviour

    def __init__(self, task: Task, rig: Rig, seed: int, options: Mapping[str, object]) -> None:
        self._task, self._behaviour = task, parse(OperatorBehaviour, options, "operator_options")
        branch_rig = task.rig(rig.lanes * self._behaviour.branches, seed)
        if not isinstance(rig, Copied) or not isinstance(branch_rig, BranchRig):
            raise UsageError(
                f"A simulated operator of {task.spec.name} needs a rig with snapshot, restore and truth; "
                "leave `operator` empty on real robots and where the simulation cannot be copied."
            )
        self._rig, self._branch_rig = rig, branch_rig
        self._seed = seed
        clean = getattr(task, "clean_expert", None)
        self._expert: Policy = clean() if callable(clean) else task.expert(seed)  # pyright: ignore[reportAttributeAccessIssue]
        self._span = np.array([item.high - item.low for item in task.spec.action])
        self._verifier = task.verifier()
        self._watches: dict[int, _Watch] = {}
        self._ticks: dict[int, int] = {}

    def begin(self, lane: int, order: Order, policy: LoadedPolicy) -> None:
        """Watch an episode; what the operator does in it depends on the start's seed alone."""
        rng = np.random.Generator(np.random.PCG64([self._seed, order.start.seed, 31]))
        self._watches[lane] = _Watch(
            policy=policy,
            rng=rng,
            seed=order.start.seed,
            hands_back=bool(rng.random() < self._behaviour.hands_back),
            offset=int(rng.integers(0, self._behaviour.look_every_ticks)),
        )
        if order.policy_id == PEOPLE:  # a demonstration from its first period to its last
            self._watches[lane].takes_over_at, self._watches[lane].hands_back = 0, False

    def watch(self, observation: Observation, lanes: IntArray, ticks: IntArray) -> MaskArray:
        """Which of the lanes (n,) the operator controls in this period, at ticks (n,): (n,) bool."""
        self._ticks = {int(lane): int(tick) for lane, tick in zip(lanes, ticks, strict=True)}
        due = [lane for lane, tick in self._ticks.items() if self._due(self._watches[lane], tick)]
        if due:
            for lane, share in self.success_of_branches({lane: self._ticks[lane] for lane in due}).items():
                self._decide(lane, share)
        for lane, tick in self._ticks.items():
            watch = self._watches[lane]
            if 0 <= watch.takes_over_at <= tick:
                watch.takes_over_at, watch.held_since, watch.chunk = -1, tick, None
                self._expert.begin(lane, watch.seed)
        return np.array([self._watches[int(lane)].held_since >= 0 for lane in lanes], np.bool_)

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        """The operator's commands (n, action_dim) float32: the expert's, with a tremor at first."""
        empty = [lane for lane in map(int, lanes) if self._needs_chunk(self._watches[lane])]
        if empty:
            rows = np.array(empty, np.int64)
            seen = Observation(stamp_ns=observation.stamp_ns, state=observation.state[rows])
            for lane, chunk in zip(empty, self._expert.act(seen, rows), strict=True):
                self._watches[lane].chunk, self._watches[lane].used = chunk.copy(), 0
        return np.stack([self._command(int(lane)) for lane in lanes]).astype(np.float32)

    def close(self) -> None:
        """Nothing to close: the branches' rig is memory alone."""

    def _due(self, watch: _Watch, tick: int) -> bool:
        if tick == 0 or (tick + watch.offset) % self._behaviour.look_every_ticks or watch.takes_over_at >= 0:
            return False
        held = watch.held_since >= 0
        return not held or (watch.hands_back and tick - watch.held_since >= self._behaviour.least_hold_ticks)

    def _decide(self, lane: int, share: float) -> None:
        watch, branches = self._watches[lane], self._behaviour.branches
        if watch.held_since >= 0:
            if share * branches >= branches - 1:
                watch.held_since = -1
        elif share == 0.0:
            low, high = self._behaviour.reaction_ticks
            watch.takes_over_at = self._ticks[lane] + int(watch.rng.integers(low, high + 1))

    def _needs_chunk(self, watch: _Watch) -> bool:
        return watch.chunk is None or watch.used >= self._expert.execute

    def _command(self, lane: int) -> FloatArray:
        watch = self._watches[lane]
        assert watch.chunk is not None
        command = watch.chunk[watch.used]
        watch.used += 1
        held = self._ticks[lane] - watch.held_since
        unsteady = max(0.0, 1.0 - held / self._behaviour.adaptation_ticks) * self._behaviour.tremor
        return command + (unsteady * self._span * watch.rng.standard_normal(len(command))).astype(np.float32)

    def success_of_branches(self, now: Mapping[int, int]) -> Mapping[int, float]:
        """lane -> share of the branches from its present state in which the policy succeeds by itself.

        `now`: lane of an episode that has begun -> its tick.
        """
        lanes, branches, rig = list(now), self._behaviour.branches, self._branch_rig
        rows = np.arange(len(lanes) * branches)
        policies: list[Policy] = []
        for row in rows.tolist():
            lane, branch = lanes[row // branches], row % branches
            watch = self._watches[lane]
            rig.restore(row, self._rig.snapshot(lane))
            watch.policy.policy.begin(_BRANCH_LANES + row, policy_seed(watch.seed) + 1 + 1000 * now[lane] + branch)
            policies.append(watch.policy.policy)
        done = np.zeros(rig.lanes, np.bool_)
        moving = np.arange(rig.lanes) < len(rows)
        ticks = np.zeros(rig.lanes, np.int64)
        ticks[rows] = [now[lane] for lane in lanes for _ in range(branches)]
        running = _BranchPolicies(policies, rig, self._task.spec.action_dim)
        while moving.any():
            rig.act(running.commands(rig.observe(), np.flatnonzero(moving)), moving)
            ticks[moving] += 1
            ended = moving & self._verifier.finished(rig.observe().state, ticks)
            done |= ended
            moving &= ~ended & (ticks < self._task.spec.limit_ticks)
        good = np.array([bool(done[row]) and rig.truth(row).success for row in rows.tolist()])
        return dict(zip(lanes, good.reshape(-1, branches).mean(axis=1).tolist(), strict=True))


class _BranchPolicies:
    """Runs each branch's policy; one call for all branches of one policy."""

    def __init__(self, policies: list[Policy], rig: Rig, action_dim: int) -> None:
        self._policies, self._rig = policies, rig
        self._command = np.zeros((rig.lanes, action_dim), np.float32)
        self._chunks: dict[int, tuple[FloatArray, int]] = {}

    def commands(self, observation: Observation, rows: IntArray) -> FloatArray:
        """(lanes, action_dim) float32; only those of `rows` are current."""
        groups: dict[int, list[int]] = {}
        for row in rows.tolist():
            chunk = self._chunks.get(row)
            if chunk is None or chunk[1] >= self._policies[row].execute:
                groups.setdefault(id(self._policies[row]), []).append(row)
        for group in groups.values():
            asked = np.array(group, np.int64)
            policy = self._policies[group[0]]
            seen = with_images(policy, observation, asked, self._rig.look)
            for row, chunk in zip(group, policy.act(seen, _BRANCH_LANES + asked), strict=True):
                self._chunks[row] = (chunk, 0)
        for row in rows.tolist():
            chunk, used = self._chunks[row]
            self._command[row] = chunk[used]
            self._chunks[row] = (chunk, used + 1)
        return self._command
