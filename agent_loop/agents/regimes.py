"""The choice among regimes: which recipe the next branch of a session uses, and which branch it continues.

A regime that no session has tried comes first. After that, a regime is drawn by what its experiments achieved: kept
ones count 1, promising ones one half, and each regime starts with one success and one failure (Thompson sampling).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import cast

from agent_loop.agents.operators import Known, Step, Tried, moved
from enpire.campaign.search_space import Plain, axes

Entry = Mapping[str, object]
CHANGED = 2
"""Most settings that a step inside a regime changes."""


def choose(regimes: Mapping[str, Entry], entries: Sequence[Entry], draw: Random) -> str:
    """The regime of the next branch."""
    tried = {str(entry["regime"]) for entry in entries}
    untried = [name for name in regimes if name not in tried]
    if untried:
        return untried[0]
    return max(regimes, key=lambda name: _drawn(name, entries, draw))


def step_in(name: str, regime: Entry, entries: Sequence[Entry], draw: Random) -> Step | None:
    """The regime's recipe as it is, if it is untried; else with one or two settings moved; None without a space."""
    own = [entry for entry in entries if entry["regime"] == name]
    if not own:
        return Step(operator="switch regime", kind="draft", changes={}, why=f"the recipe {name} as it is")
    known = known_of(regime, own)
    if not known.space:
        return None
    names = draw.sample(sorted(known.space), k=min(len(known.space), draw.randint(1, CHANGED)))
    changes: dict[str, Plain] = {one: moved(known.space[one], known.settings[one], draw) for one in names}
    return Step(
        operator="perturb regime", kind="improve", changes=changes, why=f"a step in {' and '.join(names)} of {name}"
    )


def known_of(regime: Entry, own: Sequence[Entry]) -> Known:
    """Space and best known settings of a regime: those of its last experiment that was kept, else its recipe's."""
    space = cast("Mapping[str, tuple[Plain, ...]]", regime["space"])
    kept = [entry for entry in own if entry["decision"] == "keep"]
    settings = cast("Mapping[str, object]", kept[-1]["settings"] if kept else regime["settings"])
    return Known(
        space=axes({key: tuple(value) for key, value in space.items()}), settings=settings,
        original=cast("Mapping[str, object]", regime["settings"]), tried=cast("Sequence[Tried]", ()),
    )  # fmt: skip


def _drawn(name: str, entries: Sequence[Entry], draw: Random) -> float:
    over = [entry for entry in entries if entry["regime"] == name and entry["phase"] in ("decided", "invalid")]
    credit = sum({"keep": 1.0, "inconclusive": 0.5}.get(str(entry["decision"]), 0.0) for entry in over)
    return draw.betavariate(1 + credit, 1 + len(over) - credit)
