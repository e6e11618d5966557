"""Checks of a task's spec and of its starts."""

from __future__ import annotations

import math
from collections.abc import Sequence

from enpire.conformance import require
from enpire.types import Bounds, Split, TaskSpec
from sim.task_check.bench import SECRET, Bench

SPLITS: tuple[Split, ...] = ("train", "holdout", "confirm")
MANY = 100
"""Number of starts of a split that are checked."""


def check_it_is_a_task(bench: Bench) -> None:
    """It is made without arguments and has every member of the Task protocol, a spec and a verifier."""
    wanted = ("spec", "rig", "start", "reset_skill", "start_error", "verifier", "expert")
    missing = [name for name in wanted if not hasattr(bench.task, name)]
    require(not missing, f"It lacks {', '.join(missing)}.")
    spec: object = bench.spec
    require(isinstance(spec, TaskSpec), f"`spec` is of type {type(spec).__name__}, not TaskSpec.")
    verifier = bench.task.verifier()
    missing = [name for name in ("digest", "needs_images", "finished", "judge") if not hasattr(verifier, name)]
    require(not missing, f"`verifier()` gives {type(verifier).__name__}, which lacks {', '.join(missing)}.")


def check_name(bench: Bench) -> None:
    """The name is lower-case letters, digits and underscores, so that it can be a file and a word of a command."""
    name = bench.spec.name
    require(name.isidentifier() and name == name.lower(), f"The name is {name!r}.")


def check_instruction(bench: Bench) -> None:
    """The instruction has at least two words and at most 300 characters."""
    words = bench.spec.instruction
    require(len(words.split()) >= 2 and len(words) <= 300, f"The instruction is {words!r}.")


def check_rate_and_limit(bench: Bench) -> None:
    """The rate lies in 1 to 1000 Hz, and a rollout ends after at least one period and at most an hour."""
    spec = bench.spec
    require(1 <= spec.rate_hz <= 1000, f"The rate is {spec.rate_hz} Hz.")
    require(
        spec.limit_ticks >= 1 and spec.limit_ticks * spec.period_s <= 3600, f"The limit is {spec.limit_ticks} periods."
    )


def check_state_bounds(bench: Bench) -> None:
    """Every number of the state has finite bounds, low below high."""
    _bounds(bench.spec.state, "state")


def check_action_bounds(bench: Bench) -> None:
    """Every number of the action has finite bounds, low below high."""
    _bounds(bench.spec.action, "action")


def check_units(bench: Bench) -> None:
    """Every number of state and action has a unit ("1" for none)."""
    bare = [item.name for item in (*bench.spec.state, *bench.spec.action) if not item.unit]
    require(not bare, f"These have none: {', '.join(bare)}.")


def check_names_are_unique(bench: Bench) -> None:
    """No two numbers of the state, the action or the start, no two cameras and no two subtasks have one name."""
    spec = bench.spec
    lists = {
        "state": [item.name for item in spec.state], "action": [item.name for item in spec.action],
        "start_names": list(spec.start_names), "cameras": list(spec.cameras), "subtasks": list(spec.subtasks),
    }  # fmt: skip
    for where, names in lists.items():
        require(len(set(names)) == len(names) and all(names), f"{where}: {', '.join(names)}.")


def check_spec_is_constant(bench: Bench) -> None:
    """Two tasks made one after the other have the same spec."""
    require(bench.make().spec == bench.spec, "A second task has another spec.")


def check_starts_are_deterministic(bench: Bench) -> None:
    """The same split, index and secret give the same start, also from a second task."""
    other = bench.make()
    for split in SPLITS:
        for index in range(10):
            same = bench.task.start(split, index, SECRET) == other.start(split, index, SECRET)
            require(same, f"{split} start {index} differs the second time.")


def check_starts_carry_split_and_index(bench: Bench) -> None:
    """A start carries its own split and index."""
    for split in SPLITS:
        start = bench.task.start(split, 7, SECRET)
        require((start.split, start.index) == (split, 7), f"{split} start 7 carries {start.split} {start.index}.")


def check_start_values(bench: Bench) -> None:
    """A start has one finite value for each of `start_names`."""
    for split in SPLITS:
        for index in range(10):
            values = bench.task.start(split, index, SECRET).values
            fits = len(values) == len(bench.spec.start_names) and all(math.isfinite(value) for value in values)
            require(fits, f"{split} start {index} is {values} for {bench.spec.start_names}.")


def check_train_starts_are_public(bench: Bench) -> None:
    """Train starts do not depend on the secret."""
    same = all(bench.task.start("train", i, b"") == bench.task.start("train", i, SECRET) for i in range(10))
    require(same, "A train start changes with the secret.")


def check_holdout_depends_on_the_secret(bench: Bench) -> None:
    """Holdout starts change with the secret, so that no policy can train on them."""
    _depends_on_secret(bench, "holdout")


def check_confirm_depends_on_the_secret(bench: Bench) -> None:
    """Confirm starts change with the secret."""
    _depends_on_secret(bench, "confirm")


def check_splits_are_disjoint(bench: Bench) -> None:
    """No start of one split occurs in another one."""
    seen: dict[tuple[tuple[float, ...], int], str] = {}
    for split in SPLITS:
        for index in range(MANY):
            start = bench.task.start(split, index, SECRET)
            owner = seen.setdefault((start.values, start.seed), split)
            require(owner == split, f"{split} start {index} is one of {owner}, too.")


def check_starts_vary(bench: Bench) -> None:
    """Starts of different indices have different seeds, and most have different values."""
    starts = [bench.task.start("train", index, b"") for index in range(MANY)]
    require(len({start.seed for start in starts}) == MANY, "Two of the first hundred train starts have one seed.")
    if bench.spec.start_names:
        require(len({start.values for start in starts}) > MANY // 2, "Most train starts have the same values.")


def _depends_on_secret(bench: Bench, split: Split) -> None:
    pairs = [(bench.task.start(split, i, SECRET), bench.task.start(split, i, SECRET[::-1])) for i in range(10)]
    same = [one.index for one, other in pairs if (one.values, one.seed) == (other.values, other.seed)]
    require(not same, f"{split} starts {same} are the same with another secret: pass the secret to `sim.starts`.")


def _bounds(listed: Sequence[Bounds], what: str) -> None:
    require(listed, f"The {what} has no numbers.")
    for item in listed:
        sane = math.isfinite(item.low) and math.isfinite(item.high) and item.low < item.high
        require(sane, f"{item.name} lies in [{item.low}, {item.high}].")


CHECKS = (
    check_it_is_a_task, check_name, check_instruction, check_rate_and_limit, check_state_bounds, check_action_bounds,
    check_units, check_names_are_unique, check_spec_is_constant, check_starts_are_deterministic,
    check_starts_carry_split_and_index, check_start_values, check_train_starts_are_public,
    check_holdout_depends_on_the_secret, check_confirm_depends_on_the_secret, check_splits_are_disjoint,
    check_starts_vary,
)  # fmt: skip
