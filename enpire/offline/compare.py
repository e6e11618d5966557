"""Compares two versions in simulation, outside a campaign, from the same starts and with the rule of a gate."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from enpire.errors import PolicyProblem, UnknownName
from enpire.gate.gate import Decision, judge
from enpire.gate.rule import GateRule
from enpire.gate.trials import Trial, pairs_in_order
from enpire.home import Home
from enpire.interfaces import Policy, Task
from enpire.offline.rollouts import RolloutLoop
from enpire.parts import TASKS
from enpire.store import versions
from enpire.store.load_version import AllowedKinds, load_version

EXPERT = "scripted:expert"
Side = Literal["champion", "candidate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The two versions to compare, and how."""

    task: str
    champion: str
    """A folder, a policy id (or its beginning), or `scripted:expert`."""
    candidate: str
    """As `champion`."""
    pairs: int = 400
    lanes: int = 16
    seed: int | None = None
    """Determines the starts; new ones when None."""
    kinds: Sequence[str] = ()
    """Kinds "module:name" of versions that are loaded besides the installed kinds."""


def compare(home: Home, asked: Comparison, on_reading: Callable[[Decision], None]) -> Decision:
    """Run pairs, `lanes` at a time, until the rule of a gate decides; policies that need camera images get them.

    Args:
        home: holds the versions.
        asked: the comparison.
        on_reading: called with each reading of the evidence.

    Raises:
        UnknownName: there is no such version.
    """
    task = TASKS.make(asked.task)
    sides: dict[Side, Policy] = {
        "champion": open_policy(home, asked.champion, task, asked.kinds),
        "candidate": open_policy(home, asked.candidate, task, asked.kinds),
    }
    rule = GateRule(pairs=asked.pairs)
    secret = secrets.token_bytes(32) if asked.seed is None else hashlib.sha256(f"{asked.seed}".encode()).digest()
    rig = task.rig(asked.lanes, asked.seed or 0)
    loop, trials = RolloutLoop(task, rig), list[Trial]()
    try:
        while True:
            first = len(trials) // 2
            indices = range(first, min(first + asked.lanes, asked.pairs))
            starts = [task.start("holdout", index, secret) for index in indices]
            for side, policy in sides.items():
                trials += [
                    Trial(pair=index, side=side, outcome=done.verdict.kind, ticks=done.ticks)
                    for index, done in zip(indices, loop.run(policy, starts), strict=True)
                ]
            decision = judge(pairs_in_order(trials), rule, rule.alpha)
            on_reading(decision)
            if decision.final:
                return decision
    finally:
        rig.close()


def open_policy(home: Home, wanted: str, task: Task, kinds: Sequence[str] = ()) -> Policy:
    """Open a version, or the task's expert, as a policy; `kinds` are allowed besides the installed kinds.

    Raises:
        UnknownName: there is no such version.
        PolicyProblem: its kind is neither installed nor allowed.
    """
    if wanted == EXPERT:
        return task.expert(0)
    folder = find_version(home, wanted)
    try:
        return load_version(folder, folder.name, AllowedKinds(kinds=kinds, where="repeat this with --allow-kind"))
    except PolicyProblem as problem:
        raise PolicyProblem(f"The version {folder} cannot be loaded: {problem}") from problem


def find_version(home: Home, wanted: str) -> Path:
    """The folder of a version: a path to one, or an id (or its beginning) in the home.

    Raises:
        UnknownName: there is none, or more than one.
    """
    if versions.is_version(Path(wanted)):
        return Path(wanted)
    known = sorted(item.name for item in home.versions.glob("*") if (item / versions.MANIFEST).is_file())
    found = [name for name in known if name.startswith(wanted)]
    if len(found) != 1:
        listed = ", ".join(name[:12] for name in known) or "none yet"
        many = "More than one" if found else "No"
        raise UnknownName(f"{many} version in {home.versions} begins with {wanted!r}; there are: {listed}.")
    return home.versions / found[0]
