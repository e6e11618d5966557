"""Accuracy of p_v: HABC's viability head against the success of branch rollouts of the policy.

The head of a round was trained on rollouts of the version before, so that version runs, also in the branches. The
starts were used neither for training nor for evaluation.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.intervals import LEAST_SEEDS, pooled_by_seed
from enpire.interfaces import Policy, PredictsSuccess, Rig, Task
from enpire.offline.rollouts import RolloutLoop, RunningRollout
from enpire.policy_calls import LoadedPolicy
from enpire.types import SOURCE_POLICY, Observation, Order, Start
from sim.operator import SimulatedOperator

BRANCHES = 6
EVERY_DECISIONS = 5
LEAST_SPEARMAN, MOST_ECE = 0.6, 0.05
LEAST_STATES = 100
"""With fewer states or fewer seeds than `LEAST_SEEDS` the claim is neither passed nor failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ViabilitySample:
    """Predicted and measured success from a number of states, for the head of one round."""

    seed: int
    round: int
    predicted: Sequence[float]
    """p_v of each state, in [0, 1]."""
    measured: Sequence[float]
    """Share of the branches from each state that succeed, in [0, 1]."""

    @classmethod
    def read(cls, path: Path) -> ViabilitySample:
        """The sample that `write` kept."""
        kept = json.loads(path.read_text(encoding="utf-8"))
        return cls(seed=kept["seed"], round=kept["round"], predicted=kept["said"], measured=kept["truth"])

    def write(self, path: Path) -> None:
        """Keep the sample, under the keys that folders of earlier runs have."""
        kept = {"seed": self.seed, "round": self.round, "said": self.predicted, "truth": self.measured}
        path.write_text(json.dumps(kept), encoding="utf-8")


class ViabilityProbe(RolloutLoop):
    """The rollout loop, with a prediction and branch rollouts every EVERY_DECISIONS decisions."""

    def __init__(self, task: Task, rig: Rig, seed: int, head: PredictsSuccess) -> None:
        """`rig`: one whose lanes can be copied."""
        super().__init__(task, rig)
        self._head, self._branches = head, SimulatedOperator(task, rig, seed, {"branches": BRANCHES})
        self.predicted: list[float] = []
        self.measured: list[float] = []

    def _begin(self, policy: Policy, lane: int, start: Start) -> RunningRollout:
        order = Order(
            order_id="", campaign_id="", station="benchmark", task=self.task.spec.name, policy_id="", start=start,
            purpose="collect", round=0,
        )  # fmt: skip
        self._branches.begin(lane, order, LoadedPolicy(policy_id="", policy=policy, source=SOURCE_POLICY))
        return super()._begin(policy, lane, start)

    def _step(self, policy: Policy, lanes: Mapping[int, RunningRollout], observation: Observation) -> None:
        ticks = {lane: len(item.actions) for lane, item in lanes.items()}
        evaluated = {lane: tick for lane, tick in ticks.items() if tick % (EVERY_DECISIONS * policy.execute) == 0}
        if evaluated:
            rows = np.array(list(evaluated), np.int64)
            seen = Observation(stamp_ns=observation.stamp_ns, state=observation.state[rows])
            self.predicted += self._head.viability(seen, rows).tolist()
            found: Mapping[int, float] = self._branches.success_of_branches(evaluated)
            self.measured += [found[lane] for lane in evaluated]
        super()._step(policy, lanes, observation)


def agreement(predicted: npt.NDArray[np.floating], measured: npt.NDArray[np.floating]) -> tuple[float, float]:
    """Spearman's rank correlation and expected calibration error in ten bins, of (states,) and (states,), in [0, 1].

    The correlation is nan if all predictions or all measurements are equal.
    """
    from scipy.stats import rankdata

    bins = np.minimum((predicted * 10).astype(np.int64), 9)
    gaps = [abs(predicted[bins == b].mean() - measured[bins == b].mean()) * (bins == b).mean() for b in np.unique(bins)]
    if np.ptp(predicted) == 0 or np.ptp(measured) == 0:
        return float("nan"), float(sum(gaps))
    return float(np.corrcoef(rankdata(predicted), rankdata(measured))[0, 1]), float(sum(gaps))


def claims(found: Sequence[ViabilitySample]) -> list[str]:
    """One line for each round: pass, FAIL or too few, over the pooled states of all seeds, with intervals by seed."""
    lines: list[str] = []
    for round_ in sorted({item.round for item in found}):
        items = [item for item in found if item.round == round_ and item.predicted]
        states = sum(len(item.predicted) for item in items)
        if not items:
            lines.append(f"  {'too few':8} p_v of habc_plus, round {round_}, against branch rollouts: no states")
            continue
        rank, error = _pooled(items)
        sound = rank >= LEAST_SPEARMAN and error <= MOST_ECE
        few = states < LEAST_STATES or len(items) < LEAST_SEEDS
        ranks, errors = (_interval(items, which) for which in (0, 1))
        truth = np.mean([value for item in items for value in item.measured])
        lines.append(
            f"  {'too few' if few else 'pass' if sound else 'FAIL':8} p_v of habc_plus, round {round_}, against branch "
            f"rollouts: Spearman {rank:.2f}{ranks} (at least {LEAST_SPEARMAN}), ECE {error:.3f}{errors} (at most "
            f"{MOST_ECE}), {states} states, truth {truth:.0%}"
        )
    return lines or ["  not run  p_v of habc_plus against branch rollouts"]


def _pooled(items: Sequence[ViabilitySample]) -> tuple[float, float]:
    """`agreement` over the states of all these seeds."""
    rows = [(said, truth) for item in items for said, truth in zip(item.predicted, item.measured, strict=True)]
    predicted, measured = np.array(rows).T
    return agreement(predicted, measured)


def _interval(items: Sequence[ViabilitySample], which: int) -> str:
    """The interval by seed of one figure of `agreement`; empty for one seed and for a figure that is not defined."""
    if len(items) < 2:
        return ""
    found = pooled_by_seed(lambda seeds: _pooled([items[seed] for seed in seeds])[which], len(items))
    return f" [{found.low:.2f}, {found.high:.2f}]" if np.isfinite(found.low) else ""
