"""Calibration of HABC's critics: exact values on Markov chains, and branch rollouts on a simulated task.

    python -m benchmarks.critics                             30 chains that no setting was chosen on
    python -m benchmarks.critics --development               the chains on which settings were chosen
    python -m benchmarks.critics --counted                   without networks, in a minute: see below
    python -m benchmarks.critics --task pin_insertion --keep FOLDER    branch rollouts, every round of habc_plus

Each chain has a random size and random probabilities (benchmarks/critic_chains.py). Its episodes go through the code of
the learner: windows, labels, weights and training of the critics. `now` is the shipped habc_plus, whose labels are p_v
later, `outcomes` habc_outcomes, and `before` has the label settings of habc_plus up to November 2026. `counted` is the
mean label of each state, to which a network with enough steps converges; under `outcomes` its error is their sampling
error.
`now, counted` follows every transition of the policy: the best estimate from these rollouts if states are known
exactly. `verdicts alone, counted` is `now` without the rollouts that were stopped early, which differs only with
early stops. The table gives, for each condition and round, the expected calibration error (ten bins, states weighted by
their expected visits) and the largest error over all states of p_v, and the largest error of V_e in decisions, as means
over chains with 95 % intervals.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from benchmarks.critic_chains import Chain, Collection, Condition, Exact
from benchmarks.improvement import Bench
from benchmarks.improvement_plans import Plan, tuning
from benchmarks.improvement_viability import ViabilitySample, agreement, claims
from benchmarks.intervals import head, mean_of
from benchmarks.machine import commit, describe
from benchmarks.measured import Measured, report
from enpire.campaign.recipe import read_recipe
from enpire.files import parse
from enpire.types import FloatArray
from policies.habc.labels import bootstrap_shares, label_weights
from policies.habc.learner import RoundData, collect_round_data
from policies.habc.settings import HabcSettings
from policies.habc.train import CriticTraining, critic_data, new_critics
from policies.normalise import Scale
from policies.training_data import RecordedEpisode, stacked_states

DEVELOPMENT, REPORT = 1000, 110_000
"""First seeds of the chains for choosing settings, and of those for reports. Earlier ones used 50000 to 100000."""
MOST_ECE, MOST_ERROR = 0.05, 0.06
CONDITIONS = (
    Condition(name="unsupervised"),
    Condition(name="half supervised", supervised=0.5),
    Condition(name="early stop", early_stop=0.25),
    Condition(name="half supervised, early stop", supervised=0.5, early_stop=0.25),
    Condition(name="all supervised", supervised=1.0),
)
ARMS: Mapping[str, Mapping[str, object]] = {
    "before": {"bootstrap": 0.0, "balance_length": True, "label_supervised": True, "label_decay": 1.0},
    "outcomes": {"bootstrap": 0.0, "label_decay": 0.2},
    "now": {},
}
VERDICTS_ALONE = "verdicts alone"
COUNTED_ONLY: Mapping[str, Mapping[str, object]] = {VERDICTS_ALONE: {}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Sizes of one run."""

    chains: int = 30
    first_seed: int = REPORT
    rounds: int = 4
    episodes: int = 400
    counted: bool = False
    """Only count; train no network."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Error:
    """The errors of one arm after one round on one chain."""

    chain: int
    condition: str
    arm: str
    round: int
    ece: float
    largest: float
    """Of p_v, over all states."""
    efficiency: float
    """The largest of V_e, in decisions; nan if it was not trained."""


def error(exact: Exact, viability: FloatArray) -> tuple[float, float]:
    """Expected calibration error in ten bins, and largest error, of p_v (N + 1,) of the states."""
    share = exact.visits / exact.visits.sum()
    gap = viability - exact.viability
    bins = np.minimum((viability * 10).astype(np.int64), 9)
    return float(np.abs(np.bincount(bins, share * gap)).sum()), float(np.abs(gap).max())


def settings_of(changes: Mapping[str, object]) -> HabcSettings:
    """The settings of habc_plus for decisions of one frame, with changes."""
    shipped: dict[str, object] = dict(read_recipe("habc_plus").settings)
    return parse(HabcSettings, shipped | {"horizon": 1, "execute": 1, "stride": 1} | dict(changes), "the benchmark")


def trained(
    episodes: Sequence[RecordedEpisode], settings: HabcSettings, chain: Chain, seed: int
) -> Sequence[FloatArray]:
    """p_v (N + 2,) and V_e (N + 2,) of every state, from critics that the learner's code trains on the episodes."""
    round_data = collect_round_data(list(episodes), settings)
    scale = Scale.of(stacked_states([item for item in episodes if item.round == 1]))
    data = critic_data(round_data.windows, settings, scale, round_data.kappa, ~round_data.held_out)
    training = CriticTraining(new_critics(round_data.windows, settings, seed), data, settings, seed)
    while training.done < settings.critic_steps:
        training.train_step()
    states = chain.observed(list(range(chain.states + 2)))
    critics = training.critics
    with torch.no_grad():
        logits, value = critics.both_heads(critics.features(torch.from_numpy(scale.forward(states))))
    limit = settings.logit_limit
    viability = torch.sigmoid(logits.clamp(-limit, limit)).numpy()
    return viability, value.clamp(-critics.shape.horizon_decisions, 0).numpy()


def counted(round_data: RoundData, settings: HabcSettings, chain: Chain) -> FloatArray:
    """p_v (N + 2,): the mean label of each state under the label weights; 0.5 without a visit.

    Where labels are p_v later, the means are repeated until they no longer change.
    """
    windows, size = round_data.windows, chain.states + 2
    weights = label_weights(windows, settings, round_data.kappa).astype(np.float64)
    state, later = windows.state.argmax(axis=1), windows.label_state.argmax(axis=1)
    followed = weights * bootstrap_shares(windows, settings)
    visits = np.bincount(state, weights, minlength=size)
    successes = np.bincount(state, (weights - followed) * windows.success, minlength=size)
    onward = np.zeros((size, size))
    np.add.at(onward, (state, later), followed)
    found = np.full(size, 0.5)
    for _ in range(1000 if followed.any() else 1):
        before, found = found, np.where(visits > 0, (successes + onward @ found) / np.maximum(visits, 1e-12), 0.5)
        if np.abs(found - before).max() < 1e-9:
            break
    return found


def campaign(seed: int, condition: Condition, size: Size) -> Iterator[Error]:
    """The errors of every arm after each round of one campaign. Early stops use the p_v of the round before."""
    chain = Chain.drawn(seed, size.rounds)
    collection = Collection(chain=chain, condition=condition, episodes=size.episodes, seed=seed)
    states, now = [*range(chain.states), chain.states + 1], settings_of({})
    predicted: FloatArray | None = None
    for round_ in range(1, size.rounds + 1):
        collection.collect(round_, predicted)
        exact = chain.exact(round_)
        for arm, changes in {**ARMS, **COUNTED_ONLY}.items():
            settings = settings_of(changes)
            rollouts = [item for item in collection.kept if arm != VERDICTS_ALONE or not item.stopped]
            counts = counted(collect_round_data(rollouts, settings), settings, chain)
            found: dict[str, tuple[FloatArray, float]] = {f"{arm}, counted": (counts, float("nan"))}
            if not size.counted and arm in ARMS:
                viability, value = trained(collection.kept, settings, chain, seed)
                gap = float(np.abs(value[: chain.states] - exact.efficiency).max())
                found[arm] = (viability, gap)
            predicted = found[arm][0] if arm in found and settings == now else counts
            for name, (viability, gap) in found.items():
                ece, largest = error(exact, viability[states])
                yield Error(
                    chain=seed, condition=condition.name, arm=name, round=round_, ece=ece, largest=largest,
                    efficiency=gap,
                )  # fmt: skip


def interval(values: Sequence[float]) -> str:
    """Mean with its 95 % interval over chains (Student's t)."""
    from scipy.stats import t

    rows = np.asarray(values)
    half = t.ppf(0.975, len(rows) - 1) * rows.std(ddof=1) / np.sqrt(len(rows)) if len(rows) > 1 else float("nan")
    return f"{rows.mean():.3f} [{rows.mean() - half:.3f}, {rows.mean() + half:.3f}]"


HEAD = f"{'condition':<28} {'arm':<16} round  {'ECE of p_v':<22}  {'largest error of p_v':<22}  largest of V_e"


def passes(rows: Sequence[Error]) -> bool:
    """Whether the means over chains are within the limits."""
    ece, largest = (np.mean([getattr(item, name) for item in rows]) for name in ("ece", "largest"))
    return bool(ece <= MOST_ECE and largest <= MOST_ERROR)


def groups(found: Sequence[Error]) -> dict[tuple[str, str, int], list[Error]]:
    """(condition, arm, round) -> the errors of all chains."""
    return {
        key: [item for item in found if (item.condition, item.arm, item.round) == key]
        for key in sorted({(item.condition, item.arm, item.round) for item in found})
    }


def table(found: Sequence[Error], own: str) -> str:
    """One line for each condition, arm and round. Only the arm `own` promises the limits."""
    lines: list[str] = []
    for (condition, arm, round_), rows in groups(found).items():
        ece, largest = interval([item.ece for item in rows]), interval([item.largest for item in rows])
        gap = "" if np.isnan(rows[0].efficiency) else interval([item.efficiency for item in rows])
        verdict = "pass" if passes(rows) else "FAIL" if arm == own else "misses"
        lines.append(f"{condition:<28} {arm:<16} {round_:>5}  {ece:<22}  {largest:<22}  {gap:<22} {verdict}")
    return "\n".join(lines)


def chains(size: Size, condition: Condition) -> list[Error]:
    """The campaigns of one condition on all chains."""
    torch.set_num_threads(1)
    seeds = range(size.first_seed, size.first_seed + size.chains)
    return [item for seed in seeds for item in campaign(seed, condition, size)]


def branches(plan: Plan, seeds: Sequence[int], root: Path) -> str:
    """p_v of habc_plus against branch rollouts after every round: each seed, then the claims over all seeds."""
    lines = [
        f"{plan.task}, {plan.episodes} rollouts a round, {plan.supervised:.0%} supervised",
        "seed  round  ECE    states  truth",
    ]
    samples: list[ViabilitySample] = []
    for seed in seeds:
        bench = Bench(plan, seed, root / f"seed{seed}", commit())
        bench.arm("habc_plus")
        for round_ in range(1, plan.rounds + 1):
            sample = bench.viability(round_)
            samples.append(sample)
            predicted, measured = np.asarray(sample.predicted), np.asarray(sample.measured)
            if len(predicted):
                ece = agreement(predicted, measured)[1]
                lines.append(f"{seed:>4}  {round_:>5}  {ece:.3f}  {len(predicted):>6}  {measured.mean():.0%}")
    return "\n".join([*lines, tuning(plan.task, seeds), *claims(samples)])


def main() -> int:
    """Run and print the table; 1 if a round of `now`, or of habc_plus on the task, misses the limits."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chains", type=int, default=30)
    parser.add_argument("--episodes", type=int, default=400, help="rollouts with a verdict in each round of a chain")
    parser.add_argument("--development", action="store_true", help="the chains on which settings are chosen")
    parser.add_argument("--only", choices=[one.name for one in CONDITIONS], help="one condition")
    parser.add_argument("--counted", action="store_true", help="count, and train no network")
    parser.add_argument("--task", help="branch rollouts on this simulated task, not chains")
    parser.add_argument("--supervised", type=float, default=0.0, help="share of the task's supervised rollouts")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0], help="of the task")
    parser.add_argument("--keep", type=Path, help="folder of the task's campaigns, which an interrupted run resumes")
    given = parser.parse_args()
    if given.task:
        print(f"{describe(given.seeds)}\n{head(len(given.seeds), 'states')}")
        root = given.keep or Path(tempfile.mkdtemp(prefix="enpire-critics-"))
        shown = branches(Plan.of(given.task, given.supervised), given.seeds, root)
        print(shown)
        return int("  FAIL " in shown)
    first = DEVELOPMENT if given.development else REPORT
    size = replace(Size(), chains=given.chains, episodes=given.episodes, first_seed=first, counted=given.counted)
    print(f"{describe(list(range(first, first + size.chains)))}\n{head(size.chains, 'states', 'chain')}")
    print(f"settings  chosen on the development chains, seeds from {DEVELOPMENT}")
    print(f"{size.rounds} rounds of {size.episodes} rollouts with a verdict, {size.chains} chains from seed {first}")
    print(f"pass: mean ECE at most {MOST_ECE} and mean largest error of p_v at most {MOST_ERROR}\n{HEAD}")
    own, within = "now, counted" if size.counted else "now", True
    numbers: list[Measured] = []
    for condition in (one for one in CONDITIONS if given.only in (None, one.name)):
        found = chains(size, condition)
        print(table(found, own), flush=True)
        for (_, arm, round_), rows in groups(found).items():
            if arm == own:
                within &= passes(rows)
                numbers.append(_measured(f"{condition.name}, round {round_}: ECE of p_v", [item.ece for item in rows]))
    print()
    return report(numbers, [(f"{own}: within the limits after every round", within)])


def _measured(name: str, values: Sequence[float]) -> Measured:
    found = mean_of(values)
    return Measured(name=name, value=found.mean, low=found.low, high=found.high)


if __name__ == "__main__":
    sys.exit(main())
