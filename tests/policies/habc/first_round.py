"""A first round of HABC on small invented episodes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from enpire.interfaces import ImprovementJob
from policies.clone import Clone
from tests.policies.recorded import driven, write

SIZES: dict[str, object] = {
    "hidden": 64,
    "depth": 2,
    "frequencies": 1,
    "batch": 64,
    "least_steps": 60,
    "most_steps": 60,
    "stride": 2,
}
QUICK: dict[str, object] = SIZES | {"critic_steps": 60, "critic_batch": 64, "critic_hidden": 32}


def recipe(learner: str, settings: dict[str, object]) -> dict[str, object]:
    return {"name": "test", "learner": learner, "settings": settings}


def first_round(root: Path) -> ImprovementJob:
    """A first round: ten demonstrations, thirty policy episodes, a cloned parent."""
    taught = [write(root / "e", driven(seed, expert=True)) for seed in range(10)]
    own = [write(root / "e", driven(seed, expert=False, round_=1)) for seed in range(20, 50)]
    base = ImprovementJob(
        recipe=recipe("clone", SIZES), task="point", parent=None, episodes=taught, work=root / "w0",
        output=root / "base", round=0, seed=1,
    )  # fmt: skip
    Clone().improve(base, lambda _: None)
    return replace(
        base, recipe=recipe("habc", QUICK), parent=base.output, episodes=[*taught, *own], round=1,
        work=root / "work", output=root / "out",
    )  # fmt: skip
