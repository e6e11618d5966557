"""Branches as text for the terminal: a few short lines for each, so that they fit narrow terminals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from enpire.gate.reasons import reason_text
from enpire.queries.branch_models import ArmView, BranchesView, BranchView
from enpire.wording import counted

USES: Mapping[str, str] = {
    "branches": "branches", "champion": "champion on the same train starts", "collection": "data collection",
    "gates": "gates", "measurement": "measurement of the champion",
    "confirmation": "confirmation", "base": "base measurement", "demonstrations": "demonstrations",
}  # fmt: skip
"""Keys of `BranchesView.robot_time`, as text."""


def branches(view: BranchesView) -> str:
    """The branches of a campaign, a few short lines for each."""
    spent = [f"     {USES[use]} {minutes(view.robot_time[use])}" for use in USES if view.robot_time.get(use)]
    named = numbers(view.branches)
    lines = [f"branches: robots act for {view.acting} of {len(view.branches)}; robot time of the campaign:", *spent]
    return "\n".join([*lines, *map(arm, view.arms), *(_block(one, named) for one in view.branches)])


def arm(one: ArmView) -> str:
    """One arm: its sessions, and what its best version gained over the base."""
    name = f"{', '.join(one.lanes)} ({counted(one.branches, 'branch', 'branches')}, robot {minutes(one.robot_s)})"
    if one.success is None or one.low is None or one.high is None:
        return f"arm {name}: no version has enough train starts in common with the base"
    found = f"arm {name}: best {one.version[:12]}, {_points(one.success, one.low, one.high)} points over the base"
    found += f" on {one.n} train starts"
    if one.per_robot_h is None or one.per_robot_h_low is None or one.per_robot_h_high is None:
        return found
    return f"{found}, {_points(one.per_robot_h, one.per_robot_h_low, one.per_robot_h_high)} per robot-hour"


def _points(mean: float, low: float, high: float) -> str:
    return f"{100 * mean:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]"


def numbers(views: Sequence[BranchView]) -> Mapping[str, int]:
    """Experiment -> number of its branch."""
    return {one.id: one.number for one in views}


def state(one: BranchView) -> str:
    """The phase of a branch, or its decision and why."""
    reason = reason_text(one.why)
    if one.phase != "over":
        return one.phase + (f", share {one.share:.0%}" if one.share else "")
    return f"{one.decision} ({reason})" if one.decision and reason else one.decision or reason or one.phase


def search(one: BranchView) -> str:
    """Success and median commands of the newest version on train starts."""
    found = one.search
    if found.success is None:
        return "-"
    median = f", median {one.median:g}" if one.median is not None else ""
    return f"{found.success:.1%} [{found.low:.1%}, {found.high:.1%}] of {found.n}{median}"


def gain(one: BranchView) -> str:
    """Gain in score over the champion, with its interval."""
    found = one.gain
    return "-" if found is None else f"{found.mean:+.3f} [{found.low:+.3f}, {found.high:+.3f}]"


def gate(one: BranchView) -> str:
    """The decision of the gate, with the success on hidden starts."""
    found = one.gate
    if found is None:
        return "-"
    if found.success.success is None:
        return "deciding" if found.decision == "open" else found.decision
    rate = found.success
    return f"{found.decision}: {rate.success:.1%} [{rate.low:.1%}, {rate.high:.1%}] of {rate.n}"


def learned_from(one: BranchView) -> str:
    """The episodes of the last training run by source."""
    if one.episodes is None:
        return "not trained yet"
    learned = f"learned from {counted(one.episodes, 'episode')}"
    found = one.sources
    if found is None:
        return learned
    parts = {
        counted(found.demonstrations, "demonstration"): found.demonstrations, f"{found.own} of its own": found.own,
        f"{found.ancestors} of its ancestors": found.ancestors, f"{found.others} of others": found.others,
    }  # fmt: skip
    return ": ".join(filter(None, (learned, ", ".join(text for text, n in parts.items() if n))))


def per_hour(one: BranchView) -> str:
    """Gain in success per robot-hour of its search and its gates, in percentage points, with its interval."""
    found = one.gain_per_robot_h
    return "-" if found is None else _points(found.success, found.low, found.high)


def spent(one: BranchView) -> str:
    """Tokens and money that its session used for it; empty without any."""
    if not (one.tokens or one.money or one.calls_of_unknown_cost):
        return ""
    money = [f"{amount:.4f} {currency}" for currency, amount in one.money.items()]
    unknown = [f"{counted(one.calls_of_unknown_cost, 'call')} of unknown cost"] if one.calls_of_unknown_cost else []
    return ", ".join([f"{one.tokens} tokens", *money, *unknown])


def lineage(one: BranchView, numbers: Mapping[str, int]) -> str:
    """The branch that it continues, or the version that it starts from, or whose rollouts alone it learns from."""
    if one.rollouts_alone:
        source = f"branch {numbers.get(one.continues, '?')}" if one.continues else one.parent[:12]
        return f"learns from the rollouts of {source}"
    if one.continues:
        return f"continues branch {numbers.get(one.continues, '?')}"
    return f"starts from {one.parent[:12]}" if one.parent else "starts without a version"


def minutes(seconds: float) -> str:
    """Seconds in minutes."""
    return f"{seconds / 60:.1f} min"


def _block(one: BranchView, named: Mapping[str, int]) -> str:
    lines = [
        f"{one.number:>3}  {one.regime}, {one.lane}: {state(one)}",
        f"{lineage(one, named)}; {counted(one.turns, 'turn')}",
        learned_from(one),
        f"robot {minutes(one.robot_s)}, gates {minutes(one.gate_s)}, learner {minutes(one.learner_s)}",
        f"search {search(one)}",
    ]
    if one.gain is not None:
        lines.append(f"gain {gain(one)} on {one.gain.n} starts")
    if one.gate is not None:
        lines.append(f"gate {gate(one)}")
    if one.gain_per_robot_h is not None:
        lines.append(f"{per_hour(one)} points of success per robot-hour of search and gates")
    if found := spent(one):
        lines.append(f"language models {found}")
    return "\n     ".join(lines)
