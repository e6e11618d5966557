"""Intervals of benchmarks are clustered by seed: strongly clustered seeds do not make a claim pass."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from benchmarks.improvement_plans import FIRST_FRESH_SEED, tuning
from benchmarks.improvement_table import Evaluation, table
from benchmarks.intervals import exact_share, head, mean_by_seed, pooled_by_seed, rate_by_seed
from enpire.gate.intervals import wilson

PER_SEED = 200
ORDER = ("habc_plus", "filtered_bc")


def evaluations(arm: str, rates: tuple[float, ...]) -> list[Evaluation]:
    return [
        Evaluation(
            seed=seed, arm=arm, round=0 if arm == "base" else 1, version="v", episodes=[], learning_cpu_s=1.0,
            success=[index < rate * PER_SEED for index in range(PER_SEED)], ticks=[50] * PER_SEED,
        )
        for seed, rate in enumerate(rates)
    ]  # fmt: skip


def line(rates: tuple[float, ...]) -> tuple[str, str]:
    """The row of habc_plus and the verdict on its claim against filtered_bc at 50 % on every seed."""
    found = {"base": evaluations("base", (0.5,) * len(rates))}
    found |= {name: evaluations(name, rates if name == "habc_plus" else (0.5,) * len(rates)) for name in ORDER}
    text = table(found, 1)
    row = next(one for one in text.splitlines() if one.startswith("habc_plus"))
    claim = "habc_plus beats filtered_bc by 5% or more"
    return row, next(one for one in text.splitlines() if one.endswith(claim)).split()[0]


def test_a_gain_on_two_of_five_seeds_is_no_gain() -> None:
    row, verdict = line((0.9, 0.4, 0.85, 0.45, 0.5))
    assert verdict == "FAIL"
    assert "+12.0% [-17.3%, +41.3%]" in row  # over starts alone it is [+8.5 %, +15.6 %]
    assert "[32.7%, 91.3%] of 1000" in row  # Wilson: [58.9 %, 65.0 %]


def test_a_gain_on_every_seed_is_one_and_four_seeds_are_too_few() -> None:
    assert line((0.62, 0.58, 0.65, 0.6, 0.59))[1] == "pass"
    assert line((0.62, 0.58, 0.65, 0.6))[1] == "too"


@pytest.mark.slow
def test_the_interval_by_seed_covers_the_mean_of_clustered_seeds() -> None:
    random = np.random.default_rng(3)
    covered = {"by seed": 0, "over starts": 0}
    for _ in range(400):
        groups = [random.normal(random.normal(0.0, 0.05), 0.5, PER_SEED) for _ in range(5)]
        for name, asked in (("by seed", groups), ("over starts", [np.concatenate(groups)])):
            found = mean_by_seed(asked)
            covered[name] += found.low <= 0 <= found.high
    assert covered["by seed"] >= 0.92 * 400
    assert covered["over starts"] < 0.85 * 400


def test_the_jackknife_of_a_mean_is_the_interval_by_seed() -> None:
    groups = list(np.random.default_rng(5).normal(size=(5, 40)) + np.arange(5)[:, None])
    plain = mean_by_seed(groups)
    found = pooled_by_seed(lambda seeds: float(np.mean([groups[seed] for seed in seeds])), 5)
    assert (found.mean, found.low, found.high) == pytest.approx((plain.mean, plain.low, plain.high))


def test_a_rate_by_seed_is_never_shorter_than_over_all_trials() -> None:
    plain = wilson(500, 500)
    found = rate_by_seed([100] * 5, [100] * 5)
    assert (found.mean, found.low, found.high) == (1.0, plain.low, plain.high)
    spread = rate_by_seed([50, 90, 0, 70, 20], [100, 100, 0, 100, 40])
    assert spread.mean == pytest.approx(230 / 340)
    assert spread.low < wilson(230, 340).low
    assert spread.high > wilson(230, 340).high


def test_one_seed_has_an_interval_over_its_values() -> None:
    values = np.random.default_rng(1).choice([-1.0, 0.0, 1.0], size=400, p=[0.1, 0.5, 0.4])
    found = mean_by_seed([values, np.array([])])
    assert found.low < values.mean() < found.high
    assert 0.1 < found.high - found.low < 0.2
    with pytest.raises(ValueError, match="no value to average"):
        mean_by_seed([])


def test_the_head_names_intervals_and_how_the_settings_were_chosen() -> None:
    assert "clustered by seed: t-intervals over 5 seeds" in head(5)
    assert "one seed: they say nothing about other seeds" in head(1)
    assert "clustered by station: t-intervals over 10 stations" in head(10, "episodes", "station")
    assert "over the steps of one turn: they say nothing about other turns" in head(1, "steps", "turn")
    fresh = tuning("pin_insertion", range(FIRST_FRESH_SEED, FIRST_FRESH_SEED + 2))
    assert "pin_insertion (seeds 0, 1, 2, 77, 78, 79, 80, 81)" in fresh
    assert fresh.endswith(f"seeds {FIRST_FRESH_SEED}, {FIRST_FRESH_SEED + 1} are fresh")
    assert tuning("pin_insertion", (1, 5, 100)).endswith(
        "seeds 5 are fresh; seeds 100 are NOT fresh: their results were published before; "
        "seeds 1 are NOT fresh: settings were chosen on them"
    )
    assert "a_new_task is a held-out task; seeds 0 are fresh" in tuning("a_new_task", (0,))


def test_no_published_seed_is_called_fresh() -> None:
    """The commands of the documents name the seeds whose results they report."""
    docs = Path(__file__).resolve().parents[2] / "docs"
    commands = re.findall(
        r"benchmarks\.improvement((?:[^`\n]|\\\n)*)", "\n".join(path.read_text() for path in docs.glob("*.md"))
    )
    found = 0
    for text in commands:
        given = {name: re.search(rf"--{name} (\S+)", text) for name in ("task", "first-seed", "seeds")}
        if given["task"] and given["first-seed"]:
            first, count = int(given["first-seed"][1]), int(given["seeds"][1]) if given["seeds"] else 1
            assert "are fresh" not in tuning(given["task"][1], range(first, first + count)), text
            found += 1
    assert found >= 6


@pytest.mark.parametrize(("hits", "n", "low", "high"), [
    (0, 10, 0.0, 0.3085), (0, 200, 0.0, 0.01828), (10, 10, 0.6915, 1.0), (3, 10, 0.0667, 0.6525),
])  # fmt: skip
def test_the_interval_of_a_share_is_exact_also_where_no_share_differs(
    hits: int, n: int, low: float, high: float
) -> None:
    """Clopper and Pearson 1934; with no hits 1 - 0.025 ** (1 / n)."""
    found = exact_share(hits, n)
    assert (found.mean, found.low, found.high) == pytest.approx((hits / n, low, high), abs=1e-4)
    assert exact_share(hits + 0.0, n) == found
