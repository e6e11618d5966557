"""Operators that change a recipe: perturb, ablate, recombine, switch. Pure functions of a random stream."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from enpire.campaign.search_space import Axis, Choice, Plain, Range

LEAST_STEP, STEP = 0.1, 0.25
"""Shortest step, and standard deviation of the length added to it, as shares of an axis."""

TRIES = 16
"""Draws after which a step goes to an end of the axis."""

Settings = Mapping[str, object]
Changes = dict[str, Plain]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """A decided experiment, as the operators use it."""

    hypothesis_id: str
    experiment_id: str
    lane: str
    changes: Mapping[str, Plain]
    decision: str
    delta: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """Search space, recipes and decided experiments, as recorded in the ledger."""

    space: Mapping[str, Axis]
    settings: Settings
    """Settings of the recipe in force."""
    original: Settings
    """Settings of the campaign's own recipe."""
    tried: Sequence[Tried] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A proposed change with its reason."""

    operator: str
    kind: str
    changes: Changes
    why: str
    parents: tuple[str, ...] = ()
    adopted: str = ""
    """experiment_id of another agent session that the step builds on; empty if none."""


def perturb(known: Known, draw: Random) -> Step | None:
    """Move one or two settings by a step."""
    if not known.space:
        return None
    names = draw.sample(sorted(known.space), k=min(len(known.space), draw.choice((1, 1, 2))))
    changes = {name: moved(known.space[name], known.settings[name], draw) for name in names}
    listed = " and ".join(names)
    return Step(operator="perturb", kind="improve", changes=changes, why=f"a step in {listed}", parents=_last(known))


def ablate(known: Known, draw: Random) -> Step | None:
    """Set one changed setting back to its value in the campaign's own recipe."""
    differing = [
        name for name, axis in sorted(known.space.items())
        if known.settings[name] != known.original[name] and axis.holds(known.original[name])
    ]  # fmt: skip
    if not differing:
        return None
    name = draw.choice(differing)
    value = known.original[name]
    assert isinstance(value, bool | int | float | str)
    return Step(
        operator="ablate", kind="ablate", changes={name: value}, why=f"whether {name} mattered", parents=_last(known)
    )  # fmt: skip


def recombine(known: Known, draw: Random) -> Step | None:
    """Combine the changes of the two best experiments that were not kept; the better one wins conflicts."""
    promising = sorted(
        (item for item in known.tried if item.decision != "keep" and item.delta > 0), key=lambda one: one.delta
    )
    if len(promising) < 2:
        return None
    second, first = promising[-2], promising[-1]
    parents = (first.hypothesis_id, second.hypothesis_id)
    return Step(
        operator="recombine", kind="merge", changes={**second.changes, **first.changes}, parents=parents,
        why="two changes that each looked better together", adopted=first.experiment_id,
    )  # fmt: skip


def switch(known: Known, draw: Random) -> Step | None:
    """Draw new values for half of the settings, anywhere on their axes."""
    if not known.space:
        return None
    names = draw.sample(sorted(known.space), k=math.ceil(len(known.space) / 2))
    changes = {name: anywhere(known.space[name], draw) for name in names}
    return Step(operator="switch", kind="draft", changes=changes, why=f"another regime of {', '.join(names)}")


OPERATORS = (perturb, switch, ablate, recombine)


def moved(axis: Axis, value: object, draw: Random) -> Plain:
    """A value near `value`; a different one wherever the axis has one."""
    if isinstance(axis, Choice):
        others = [option for option in axis.options if option != value]
        return draw.choice(others or list(axis.options))
    at = min(1.0, max(0.0, _share(axis, value)))
    for _ in range(TRIES):
        step = draw.choice((-1, 1)) * (LEAST_STEP + abs(draw.gauss(0.0, STEP)))
        to = at + step if 0.0 <= at + step <= 1.0 else at - step  # away from an end that is too near
        near = _value(axis, min(1.0, max(0.0, to)))
        if near != value:
            return near
    return draw.choice([end for end in (axis.low, axis.high) if end != value])


def anywhere(axis: Axis, draw: Random) -> Plain:
    """A random value of an axis."""
    if isinstance(axis, Choice):
        return draw.choice(axis.options)
    return _value(axis, draw.random())


def _share(axis: Range, value: object) -> float:
    number = float(value) if isinstance(value, int | float) else axis.low
    if axis.scale == "log":
        return math.log(max(number, axis.low) / axis.low) / math.log(axis.high / axis.low)
    return (number - axis.low) / (axis.high - axis.low)


def _value(axis: Range, share: float) -> float | int:
    if axis.scale == "log":
        number = axis.low * (axis.high / axis.low) ** share
    else:
        number = axis.low + share * (axis.high - axis.low)
    if axis.whole:
        return min(int(axis.high), max(int(axis.low), round(number)))
    return min(axis.high, max(axis.low, float(f"{number:.4g}")))


def _last(known: Known) -> tuple[str, ...]:
    kept = [item.hypothesis_id for item in known.tried if item.decision == "keep"]
    return tuple(kept[-1:])
