"""How well p_v foresees: HABC's viability head against branches of the simulation in which the policy itself goes on.

The head of a round has learned from what the version before collected, so that version acts, and goes on in the
branches, from starts that nobody has trained on or been judged by.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from enpire.interfaces import Policy, PredictsSuccess, Rig, Task
from enpire.offline.rollouts import RolloutLoop, RunningRollout
from enpire.policy_calls import LoadedPolicy
from enpire.types import SOURCE_POLICY, Observation, Order, Start
from sim.operator import SimulatedOperator

BRANCHES = 6
LOOK_EVERY_DECISIONS = 5
LEAST_SPEARMAN, MOST_ECE = 0.6, 0.1
LEAST_STATES = 100
"""Below so many states nothing is decided."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreseen:
    """What the head of one round said about states, and how often the policy succeeded from there."""

    seed: int
    round: int
    said: Sequence[float]
    truth: Sequence[float]


class Looks(RolloutLoop):
    """The rollout loop, which now and then asks the head and tries out how the policy goes on."""

    def __init__(self, task: Task, rig: Rig, seed: int, head: PredictsSuccess) -> None:
        """`rig` can be copied lane by lane."""
        super().__init__(task, rig)
        self._head, self._branches = head, SimulatedOperator(task, rig, seed, {"branches": BRANCHES})
        self.said: list[float] = []
        self.truth: list[float] = []

    def _begin(self, policy: Policy, lane: int, start: Start) -> RunningRollout:
        order = Order(
            order_id="", campaign_id="", station="benchmark", task=self.task.spec.name, policy_id="", start=start,
            purpose="collect", round=0,
        )  # fmt: skip
        self._branches.begin(lane, order, LoadedPolicy(policy_id="", policy=policy, source=SOURCE_POLICY))
        return super()._begin(policy, lane, start)

    def _step(self, policy: Policy, lanes: Mapping[int, RunningRollout], observation: Observation) -> None:
        ticks = {lane: len(item.actions) for lane, item in lanes.items()}
        evaluated = {lane: tick for lane, tick in ticks.items() if tick % (LOOK_EVERY_DECISIONS * policy.execute) == 0}
        if evaluated:
            rows = np.array(list(evaluated), np.int64)
            seen = Observation(stamp_ns=observation.stamp_ns, state=observation.state[rows])
            self.said += self._head.viability(seen, rows).tolist()
            found: Mapping[int, float] = self._branches.success_of_branches(evaluated)
            self.truth += [found[lane] for lane in evaluated]
        super()._step(policy, lanes, observation)


def agreement(said: npt.NDArray[np.floating], truth: npt.NDArray[np.floating]) -> tuple[float, float]:
    """(Spearman's rank correlation, expected calibration error over ten bins of `said`); nan where all are alike."""
    from scipy.stats import rankdata

    bins = np.minimum((said * 10).astype(np.int64), 9)
    gaps = [abs(said[bins == b].mean() - truth[bins == b].mean()) * (bins == b).mean() for b in np.unique(bins)]
    if np.ptp(said) == 0 or np.ptp(truth) == 0:
        return float("nan"), float(sum(gaps))
    return float(np.corrcoef(rankdata(said), rankdata(truth))[0, 1]), float(sum(gaps))


def claims(found: Sequence[Foreseen]) -> list[str]:
    """One line for each round: pass, FAIL or too few, over all seeds."""
    lines: list[str] = []
    for round_ in sorted({item.round for item in found}):
        said, truth = (
            np.concatenate([np.asarray(getattr(item, name)) for item in found if item.round == round_])
            for name in ("said", "truth")
        )
        rank, error = agreement(said, truth)
        sound = rank >= LEAST_SPEARMAN and error <= MOST_ECE
        verdict = "too few" if len(said) < LEAST_STATES else "pass" if sound else "FAIL"
        lines.append(
            f"  {verdict:8} p_v of habc_plus, round {round_}, against branch rollouts: Spearman {rank:.2f} (at least "
            f"{LEAST_SPEARMAN}), ECE {error:.3f} (at most {MOST_ECE}), {len(said)} states, truth {truth.mean():.0%}"
        )
    return lines or ["  not run  p_v of habc_plus against branch rollouts"]
