"""The choice among regimes: which recipe the next branch of a session uses, and with which settings.

A regime that no session has tried comes first. After that, a regime is drawn by what its experiments achieved: kept
ones count 1, inconclusive ones one half, and each regime starts with one success and one failure (Thompson sampling).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import cast

from agent_loop.agents.operators import moved
from enpire.campaign.search_space import Plain, axes
from enpire.files import canonical

Entry = Mapping[str, object]
MOST_CHANGED = 2
"""Most settings that one step moves."""
RECOMBINE = 0.3
"""Share of the steps that take settings of another branch of the regime, where there is one."""
CREDIT: Mapping[str, float] = {"keep": 1.0, "inconclusive": 0.5}


@dataclass(frozen=True, slots=True, kw_only=True)
class RegimeStep:
    """The settings of the next branch in a regime."""

    kind: str
    why: str
    changes: Mapping[str, Plain]
    """Settings that differ from the regime's recipe."""
    settings: Mapping[str, object]
    """All settings."""
    parents: tuple[str, ...] = ()
    """Hypotheses that it builds on."""


def choose(regimes: Mapping[str, Entry], entries: Sequence[Entry], lane: str, draw: Random) -> str:
    """The regime of the next branch of a session. Sessions that begin together begin with different regimes."""
    tried = {str(entry["regime"]) for entry in entries}
    untried = [name for name in regimes if name not in tried]
    if untried:
        number = lane.rpartition("-")[2]
        return untried[(int(number) - 1 if number.isdigit() else 0) % len(untried)]
    return max(regimes, key=lambda name: _drawn(name, entries, draw))


def step_in(name: str, regime: Entry, entries: Sequence[Entry], draw: Random) -> RegimeStep | None:
    """The next step in a regime; None if its recipe was tried as it is and has no space.

    The first step is the recipe as it is. Later ones move one or two settings of its best branch, or take changed
    settings of another branch of the regime as well.
    """
    original = cast("Mapping[str, object]", regime["settings"])
    own = [entry for entry in entries if entry["regime"] == name and entry["settings"]]
    if not own:
        return RegimeStep(kind="draft", why=f"the recipe {name}", changes={}, settings=original)
    space = axes({key: tuple(value) for key, value in cast("Mapping[str, Sequence[Plain]]", regime["space"]).items()})
    if not space:
        return None
    best = max(own, key=lambda entry: CREDIT.get(str(entry["decision"]), 0.0))
    others = [entry for entry in own if entry is not best and entry["changes"]]
    settings, parents, with_other = dict(cast("Mapping[str, object]", best["settings"])), [best], ""
    if others and draw.random() < RECOMBINE:
        other = draw.choice(others)
        settings |= cast("Mapping[str, object]", other["changes"])
        parents.append(other)
        with_other = " with those of another branch"
    names = draw.sample(sorted(space), k=min(len(space), draw.randint(1, MOST_CHANGED)))
    settings |= {one: moved(space[one], settings[one], draw) for one in names}
    changes = {key: cast("Plain", settings[key]) for key in space if settings[key] != original[key]}
    return RegimeStep(
        kind="merge" if with_other else "improve", changes=changes, settings={**original, **changes},
        why=f"another {' and '.join(names)} of {name}{with_other}",
        parents=tuple(dict.fromkeys(str(entry["hypothesis_id"]) for entry in parents)),
    )  # fmt: skip


def submitted(entries: Sequence[Entry]) -> set[tuple[str, str]]:
    """(regime, settings in canonical form) of all experiments."""
    return {(str(entry["regime"]), canonical(entry["settings"])) for entry in entries}


def _drawn(name: str, entries: Sequence[Entry], draw: Random) -> float:
    over = [entry for entry in entries if entry["regime"] == name and entry["phase"] in ("decided", "invalid")]
    credit = sum(CREDIT.get(str(entry["decision"]), 0.0) for entry in over)
    return draw.betavariate(1 + credit, 1 + len(over) - credit)
