"""The choice among regimes: which branch a session opens next, from where, and with which settings.

A regime that no session has tried comes first. After that, each way to begin (a regime from the champion, a promising
branch continued, another regime from the newest version of a promising branch) has a value: the gain that it may bring
per robot-minute, drawn from what the branches so far gained and used (Thompson sampling). The highest value wins. So
costly regimes are chosen less, and no regime is given up for good.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from random import Random
from typing import cast

from agent_loop.agents.operators import moved
from enpire.campaign.search_space import Axis, Plain, axes
from enpire.files import canonical

Entry = Mapping[str, object]
"""One experiment or one regime of the brief."""
TRIES = 64
"""Draws after which there is nothing new to try."""
MOST_FAILED = 8
"""Draws of one way after which it offers nothing new."""
MOST_CHANGED = 2
"""Most settings that one step moves."""
RECOMBINE = 0.3
"""Share of the steps that take settings of another branch of the same learner, where there is one."""
UNCHANGED = 0.5
"""Share of the continued branches that keep their settings."""
PRIOR = 0.2
"""Standard deviation of the gain of a branch of which nothing is known."""
NO_GAIN = 0.05
"""The same of a branch that ended before its gain was known."""
Z80 = 1.2816
"""Normal quantile of a two-sided 80 % interval."""
LEAST_MIN = 1.0
"""Robot-minutes that a branch counts for at least."""
TWIN = "same actions: experiment "
"""Beginning of the reason of a branch that acted exactly like an earlier one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What a session knows when it opens a branch: the parts of its brief."""

    regimes: Mapping[str, Entry]
    entries: Sequence[Entry]
    """The experiments that it may see, oldest first."""
    lane: str
    sharing: str

    def changes(self, entry: Entry) -> Mapping[str, Plain]:
        """The settings of an experiment that differ from the recipe of its regime; also of a refused one."""
        regime = self.regimes.get(str(entry["regime"]))
        if regime is None or not entry["settings"]:
            return cast("Mapping[str, Plain]", entry["changes"])
        original = cast("Mapping[str, Plain]", regime["settings"])
        settings = cast("Mapping[str, Plain]", entry["settings"])
        return {name: value for name, value in settings.items() if value != original.get(name)}

    @property
    def sources(self) -> Sequence[Entry]:
        """The experiments that another one may build on."""
        return [entry for entry in self.entries if may_be_built_on(entry)]

    def learner(self, entry: Entry) -> object:
        """The learner of an experiment's regime."""
        return self.regimes.get(str(entry["regime"]), {}).get("learner")

    def space(self, regime: str) -> Mapping[str, Axis]:
        """The search space of a regime."""
        written = cast("Mapping[str, Sequence[Plain]]", self.regimes[regime]["space"])
        return axes({name: tuple(values) for name, values in written.items()})


@dataclass(frozen=True, slots=True, kw_only=True)
class RegimeStep:
    """The next branch of a session."""

    regime: str
    kind: str
    why: str
    changes: Mapping[str, Plain]
    """Settings that differ from the regime's recipe."""
    parent_experiment: str = ""
    """The experiment whose branch it continues; empty: it starts from the champion."""
    sources: tuple[Entry, ...] = ()
    """Experiments that it builds on."""

    @property
    def parents(self) -> list[str]:
        """Hypotheses that it builds on."""
        return list(dict.fromkeys(str(entry["hypothesis_id"]) for entry in self.sources))

    @property
    def key(self) -> tuple[str, str, str]:
        """Equal for two branches that would be the same."""
        return self.regime, canonical(self.changes), self.parent_experiment


def next_branch(known: Known, draw: Random) -> RegimeStep | None:
    """The next branch; None if nothing new is found, until another champion allows to repeat a recipe.

    It depends on the brief and the random stream alone.
    """
    taken = _taken(known)
    tried = {str(entry["regime"]) for entry in known.entries}
    if untried := [name for name in known.regimes if name not in tried]:
        number = known.lane.rpartition("-")[2]
        name = untried[(int(number) - 1 if number.isdigit() else 0) % len(untried)]
        return RegimeStep(regime=name, kind="draft", why=f"{name} as it is, from the champion", changes={})
    failed: Counter[tuple[str, str]] = Counter()
    for _ in range(TRIES):
        way = _way(known, draw, {one for one, times in failed.items() if times >= MOST_FAILED})
        if way is None:
            return None
        regime, parent = way
        step = _continued(known, regime, parent, draw) if parent else _varied(known, regime, draw)
        if step.key not in taken:
            return step
        failed[regime, str(parent["experiment_id"]) if parent else ""] += 1
    return None


def promising(entry: Entry) -> bool:
    """Whether a branch may be continued: it may be better than the present champion, and it was not the worse half.

    It ended with its budget, or its gate held.
    """
    ended = (
        str(entry["why"]).startswith(("no gain", "no tokens left", "no money left"))
        or entry["decision"] == "inconclusive"
    )
    high = entry.get("gain_high")
    return bool(ended and entry.get("is_over_champion") and isinstance(high, float) and high > 0)


def _taken(known: Known) -> set[tuple[str, str, str]]:
    """Keys of the branches that would be the same again: open ones, and those decided or refused with this champion."""
    return {
        (str(entry["regime"]), canonical(known.changes(entry)), str(entry["parent_experiment"]))
        for entry in known.entries
        if entry.get("is_over_champion", True) or entry["phase"] not in ("decided", "invalid", "cancelled")
    }


def _way(known: Known, draw: Random, failed: Set[tuple[str, str]]) -> tuple[str, Entry | None] | None:
    """The regime and the parent of the next branch: the way with the highest drawn value, without those that failed."""
    rates = {name: _rate_of_regime(known, name, draw) for name in known.regimes}
    values: list[tuple[float, str, Entry | None]] = [
        (rate, name, None) for name, rate in rates.items() if (name, "") not in failed
    ]
    refused = {
        (str(entry["regime"]), str(entry["parent_experiment"]))
        for entry in known.entries if entry["phase"] == "invalid" and entry["parent_experiment"]
    }  # fmt: skip
    for entry in known.sources:
        shared = entry["lane"] == known.lane or known.sharing == "adopt"
        if not (promising(entry) and shared):
            continue
        rate = _per_minute(_drawn_gain(entry, draw), _minutes(entry))
        for name in known.regimes:
            unknown = draw.gauss(0.0, PRIOR) / _minutes(entry)
            if (name, str(entry["experiment_id"])) not in refused | failed:
                values.append((rate if name == entry["regime"] else (rate + rates[name]) / 2 + unknown, name, entry))
    return max(values, key=lambda one: one[0])[1:] if values else None


def _rate_of_regime(known: Known, name: str, draw: Random) -> float:
    """Drawn gain per robot-minute of a regime from the champion; one unknown branch is added to those that ended."""
    over = [one for one in known.entries if one["regime"] == name and one["phase"] == "decided"]
    failed = [one for one in known.entries if one["regime"] == name and one["phase"] == "invalid" and one["settings"]]
    measured = [*over, *failed]
    minutes = [_minutes(one) for one in measured] or [LEAST_MIN]
    gains = [draw.gauss(0.0, PRIOR), *(_drawn_gain(one, draw) for one in measured)]
    return _per_minute(sum(gains) / len(gains), sum(minutes) / len(minutes))


def _gain_key(entry: Entry) -> str:
    """The key of the gain over the present champion; that of the gain over its own one where only this is known."""
    return "gain" if entry.get("gain_now") is None else "gain_now"


def _drawn_gain(entry: Entry, draw: Random) -> float:
    """A draw of the gain over the present champion: a regime that was promoted does not keep its gain over the last."""
    key = _gain_key(entry)
    mean, low, high = (entry.get(key + end) for end in ("", "_low", "_high"))
    if not (isinstance(mean, float) and isinstance(low, float) and isinstance(high, float)):
        return draw.gauss(0.0, NO_GAIN)
    return draw.gauss(mean, (high - low) / (2 * Z80))


def _per_minute(gain: float, minutes: float) -> float:
    """Gain per robot-minute; a loss is not made smaller by a long time."""
    return gain / minutes if gain > 0 else gain


def _minutes(entry: Entry) -> float:
    used = entry.get("robot_min")
    return max(LEAST_MIN, used if isinstance(used, float) else 0.0)


def _varied(known: Known, name: str, draw: Random) -> RegimeStep:
    """A branch from the champion: the settings of the regime's best branch, with one or two moved."""
    if not known.space(name):
        return RegimeStep(regime=name, kind="draft", why=f"{name} as it is, from the champion", changes={})
    own = [entry for entry in known.sources if entry["regime"] == name and entry["settings"]]
    usable = [entry for entry in own if not str(entry["why"]).startswith(TWIN)]
    best = max(usable, key=merit, default=None)
    return _moved(known, name, best, draw, continues="")


def _continued(known: Known, name: str, parent: Entry, draw: Random) -> RegimeStep:
    """A branch that starts from the newest version of another one, with the same regime or another one."""
    same = name == parent["regime"]
    source = f"the newest version of experiment {str(parent['experiment_id'])[-6:]} ({parent['regime']})"
    if not same or draw.random() < UNCHANGED or not known.space(name):
        changes = known.changes(parent) if same else {}
        step = RegimeStep(regime=name, kind="improve", why=name, changes=changes)
    else:
        step = _moved(known, name, parent, draw, continues=str(parent["experiment_id"]))
    sources = tuple({str(one["experiment_id"]): one for one in (parent, *step.sources)}.values())
    return RegimeStep(
        regime=name, kind=step.kind, why=f"{step.why}, from {source}", changes=step.changes,
        parent_experiment=str(parent["experiment_id"]), sources=sources,
    )  # fmt: skip


def _moved(known: Known, name: str, base: Entry | None, draw: Random, continues: str) -> RegimeStep:
    """Settings near those of a branch, sometimes with settings of another branch of the same learner.

    Args:
        known: what the session knows.
        name: of the regime.
        base: the branch.
        draw: the random stream.
        continues: the experiment that the new branch continues; empty: it starts from the champion.
    """
    space, original = known.space(name), cast("Mapping[str, Plain]", known.regimes[name]["settings"])
    settings = {**original, **(known.changes(base) if base else {})}
    sources, with_other = [base] if base else [], ""
    others = [
        entry for entry in known.sources
        if entry is not base and entry["settings"] and known.changes(entry) and merit(entry) > 0
        and known.learner(entry) == known.regimes[name]["learner"]
    ]  # fmt: skip
    if others and draw.random() < RECOMBINE:
        other = max(others, key=merit)
        settings |= {
            key: value for key, value in known.changes(other).items() if key in space and space[key].holds(value)
        }
        sources.append(other)
        with_other = f", with settings of experiment {str(other['experiment_id'])[-6:]} ({other['regime']})"
    names = sorted(space.keys() - _without_effect(known, name, continues)) or sorted(space)
    names = draw.sample(names, k=min(len(names), draw.randint(1, MOST_CHANGED)))
    settings |= {one: moved(space[one], settings[one], draw) for one in names}
    changes = {key: settings[key] for key in space if settings[key] != original[key]}
    why = f"{name} with another {' and '.join(names)}{with_other}"
    kind = "merge" if with_other else "improve"
    return RegimeStep(regime=name, kind=kind, why=why, changes=changes, sources=tuple(sources))


def _without_effect(known: Known, name: str, continues: str) -> set[str]:
    """Settings of a regime without effect: two branches that differed in these alone acted exactly alike.

    A setting may matter elsewhere: how a search follows a parent, only where there is one. So it counts for branches
    that begin alike, from the present champion or from the version of the same experiment.
    """
    found: set[str] = set()
    by_id = {str(entry["experiment_id"]): entry for entry in known.entries}
    for entry in known.entries:
        why = str(entry["why"])
        other = by_id.get(why.removeprefix(TWIN)) if why.startswith(TWIN) else None
        began_alike = entry.get("is_over_champion", True) and entry["parent_experiment"] == continues
        if other is not None and entry["regime"] == other["regime"] == name and began_alike:
            mine, theirs = known.changes(entry), known.changes(other)
            found |= {key for key in {*mine, *theirs} if mine.get(key) != theirs.get(key)}
    return found


def may_be_built_on(entry: Entry) -> bool:
    """Whether the lab lets another experiment adopt it: not while a tripwire holds it (`brief.RULES`)."""
    return bool(entry.get("may_be_built_on", True))


def merit(entry: Entry) -> float:
    """The gain of a branch over the present champion; a kept one is better than all others."""
    gain = entry.get(_gain_key(entry))
    return (1.0 if entry["decision"] == "keep" else 0.0) + (gain if isinstance(gain, float) else -1.0)
