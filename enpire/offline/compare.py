"""One comparison of two versions in simulation, outside a campaign: the same starts, the same rule as a gate."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

import numpy as np

from enpire.errors import UnknownName
from enpire.gate.gate import Decision, GateRule, Trial, judge, pairs_in_order
from enpire.home import Home
from enpire.interfaces import Evidence, Policy, Rig, Task
from enpire.plugins import load, make
from enpire.store import versions
from enpire.types import SOURCE_POLICY, EpisodeArrays, FloatArray, ImageArray, Observation, Start, Verdict

EXPERT = "scripted:expert"
Side = Literal["champion", "candidate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What shall be compared."""

    task: str
    champion: str
    """A folder, a policy id (or its beginning), or `scripted:expert`."""
    candidate: str
    pairs: int = 400
    lanes: int = 16
    seed: int | None = None
    """Draws the starts; fresh ones when None."""


def compare(home: Home, asked: Comparison, say: Callable[[Decision], None]) -> Decision:
    """Run pairs, `lanes` at a time, until the gate's rule decides; `say` hears every reading of the evidence."""
    task = cast("Task", make("tasks", asked.task))
    sides: dict[Side, Policy] = {
        "champion": open_policy(home, asked.champion, task),
        "candidate": open_policy(home, asked.candidate, task),
    }
    rule = GateRule(pairs=asked.pairs)
    secret = secrets.token_bytes(32) if asked.seed is None else hashlib.sha256(f"{asked.seed}".encode()).digest()
    rig = task.rig(asked.lanes, asked.seed or 0)
    trials: list[Trial] = []
    try:
        while True:
            first = len(trials) // 2
            indices = range(first, min(first + asked.lanes, asked.pairs))
            starts = [task.start("holdout", index, secret) for index in indices]
            for side, policy in sides.items():
                ends = roll_out(task, rig, policy, starts)
                trials += [
                    Trial(pair=index, side=side, outcome=verdict.kind, ticks=ticks)
                    for index, (verdict, ticks) in zip(indices, ends, strict=True)
                ]
            decision = judge(pairs_in_order(trials), rule, rule.alpha)
            say(decision)
            if decision.final:
                return decision
    finally:
        rig.close()


def roll_out(task: Task, rig: Rig, policy: Policy, starts: Sequence[Start]) -> list[tuple[Verdict, int]]:
    """(verdict, ticks) of one rollout from each start, all in step, one lane each."""
    count, limit, verifier = len(starts), task.spec.limit_ticks, task.verifier()
    for lane, start in enumerate(starts):
        rig.place(lane, start)
        policy.begin(lane, start.seed)
    moving = np.arange(rig.lanes) < count
    ticks = np.zeros(rig.lanes, np.int64)
    states, sent = [rig.observe().state], list[FloatArray]()
    chunk = np.zeros((rig.lanes, policy.horizon, task.spec.action_dim), np.float32)
    while moving.any():
        tick = len(sent)
        if tick % policy.execute == 0:
            lanes, seen = np.flatnonzero(moving), rig.observe()
            chunk[lanes] = policy.act(Observation(stamp_ns=seen.stamp_ns, state=seen.state[lanes]), lanes)
        sent.append(rig.act(chunk[:, tick % policy.execute], moving).copy())
        ticks += moving
        states.append(rig.observe().state.copy())
        moving &= ~(verifier.finished(states[-1], ticks) | (ticks >= limit))
    ends: list[tuple[Verdict, int]] = []
    for lane in range(count):
        took = int(ticks[lane])
        arrays = EpisodeArrays(
            state=np.stack([row[lane] for row in states[: took + 1]]),
            action=np.stack([row[lane] for row in sent[:took]]),
            source=np.full(took, SOURCE_POLICY, np.uint8),
            chunk=np.arange(took, dtype=np.int32) // policy.execute,
        )
        images = rig.look(lane) if verifier.needs_images else dict[str, ImageArray]()
        ends.append((verifier.judge(Evidence(arrays=arrays, images=images)), took))
    return ends


def open_policy(home: Home, wanted: str, task: Task) -> Policy:
    """A version as a policy; UnknownName lists the versions of the home."""
    if wanted == EXPERT:
        return task.expert(0)
    folder = find_version(home, wanted)
    kind = str(versions.manifest(folder)["kind"])
    return cast("Callable[[Path], Policy]", load("policies", kind))(folder)


def find_version(home: Home, wanted: str) -> Path:
    """The folder of a version: a path that is one, or an id (or its beginning) in the home."""
    if (Path(wanted) / versions.MANIFEST).is_file():
        return Path(wanted)
    known = sorted(item.name for item in home.versions.glob("*") if (item / versions.MANIFEST).is_file())
    found = [name for name in known if name.startswith(wanted)]
    if len(found) != 1:
        listed = ", ".join(name[:12] for name in known) or "none yet"
        many = "More than one" if found else "No"
        raise UnknownName(f"{many} version in {home.versions} begins with {wanted!r}; there are: {listed}.")
    return home.versions / found[0]
