"""An attribution as text for the terminal."""

from __future__ import annotations

from enpire.offline.attribute import Attribution, Change, TriedSet
from enpire.offline.attribution import Effect
from enpire.queries.hypotheses import changes_text
from enpire.queries.texts import short
from enpire.wording import counted


def attribution_text(found: Attribution) -> str:
    """Each change with its leave-one-out and its Shapley value, then the success of every set that was tried."""
    last = found.first_start + found.starts - 1
    lines = [
        f"campaign {found.campaign}, from the base {short(found.base)}, {counted(found.episodes, 'episode')} each",
        f"tried on the train starts {found.first_start} to {last}; seed {found.seed}, one training run for each set",
        "",
        "change  leave-one-out                    Shapley value                    settings",
    ]
    for number, change in enumerate(found.changes, start=1):
        one, other = _points(change.effects.leave_one_out), _points(change.effects.shapley)
        lines.append(f"{number:>6}  {one:<31}  {other:<31}  {_name(change)}  ({change.experiment})")
    if any(change.version for change in found.changes):
        lines.append("A change of regime counts with its promoted version, in each set in which it was kept last.")
    if not found.exact:
        orders = "; ".join(" ".join(str(player + 1) for player in order) for order in found.orders)
        lines.append(f"The Shapley values are estimated from {counted(len(found.orders), 'order')}: {orders}")
    lines += ["", "changes            success", *map(_set, found.sets)]
    return "\n".join([*lines, *(f"Left out: {sentence}." for sentence in found.left_out)])


def _name(change: Change) -> str:
    if not change.version:
        return changes_text(change.changes)
    return " ".join(
        filter(None, (f"regime {change.regime}, version {short(change.version)}", changes_text(change.changes)))
    )


def _points(effect: Effect) -> str:
    return f"{100 * effect.delta:+.1f} points [{100 * effect.low:+.1f}, {100 * effect.high:+.1f}]"


def _set(one: TriedSet) -> str:
    names = " ".join(str(change + 1) for change in one.changes) or "none"
    return f"{names:<17}  {one.successes / one.n:.1%} [{one.low:.1%}, {one.high:.1%}] of {one.n}"
