"""Documents as text for the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from enpire.gate.reasons import reason_text
from enpire.plugins import is_simulator_truth
from enpire.queries import branch_texts, spending_texts
from enpire.queries.data_models import AskedOf
from enpire.queries.gain import Gain
from enpire.queries.hypotheses import changes_text, outcome
from enpire.queries.models import (
    CampaignView,
    Confirm,
    DataView,
    EpisodeView,
    GateView,
    GoalView,
    IdeaView,
    PassAt,
    RolloutsUsed,
    RoundView,
    VersionView,
    weighed,
)
from enpire.queries.quarantines import quarantine_text
from enpire.queries.success_models import Success
from enpire.wording import at_most, counted, goal_share, median_text, within

if TYPE_CHECKING:
    from enpire.campaign.events import LedgerEntry
    from enpire.gate.gate import Decision

HASH = 64
SHORT = 12
"""Characters of a whole hash, and of a shortened one."""
ONE_ASKED: Mapping[AskedOf, str] = {
    "successes": "success", "demonstrations": "demonstration", "rollouts": "rollout",
}  # fmt: skip


def short(policy_id: str) -> str:
    """The first SHORT characters of a hash; other ids unchanged."""
    return policy_id[:SHORT] if len(policy_id) == HASH else policy_id


def rate(figure: Success | Confirm | None) -> str:
    """A rate with interval and n, or `-` without trials."""
    if figure is None or figure.success is None:
        return "-"
    line = f"{figure.success:.1%} [{figure.low:.1%}, {figure.high:.1%}] of {figure.n}"
    if isinstance(figure, Confirm):
        line += f"{within(figure.limit_ticks)}, at least {figure.bound:.1%}"
        if speed := median_text(figure.median, figure.median_low, figure.median_high):
            line += f", {speed}"
    return line


def goal(view: GoalView) -> str:
    """The goal of a campaign: by rate or by lower bound, the time limit of a success, and its speed."""
    how = " by the exact 95 % lower bound" if view.by == "bound" else ""
    starts = f"on {view.confirm_starts} fresh starts{how}"
    return f"{goal_share(view.success, view.by)}{within(view.limit_ticks)} {starts}{at_most(view.commands)}"


def duration(seconds: float | None) -> str:
    """Seconds as hours, minutes and seconds."""
    if seconds is None:
        return "-"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s" if minutes else f"{rest} s"


SIMULATOR_TRUTH = "success is simulator truth, not the verdict of a verifier of sensors"


def truth(task: str) -> str:
    """What stands beside a success rate of a task whose simulation itself judges; empty for other tasks."""
    return ", simulator truth" if is_simulator_truth(task) else ""


def _verifier(view: CampaignView) -> str:
    labels = view.labels.sentence if view.labels else "no episode is labelled yet: enpire episodes audit"
    return f"{SIMULATOR_TRUTH}; {labels}" if view.simulator_truth else labels


def campaign(view: CampaignView, *, study: bool = False) -> str:
    """One campaign, or the trials of a study, on one screen."""
    counts = {kind: n for kind, n in view.episodes.items() if n and kind != "total"}
    released = f" ({view.released} released before they began)" if view.released else ""
    ends = ", ".join(f"{kind} {n}{released if kind == 'aborted' else ''}" for kind, n in counts.items())
    stack = ", ".join(f"{phase} {duration(seconds)}" for phase, seconds in view.robot_time.items() if seconds >= 0.5)
    lines = [
        ("campaign", f"{view.id}  {view.name}  ({view.task})"),
        *([("task", view.task_approval)] if view.task_approval else []),
        ("state", view.state + (f": {view.reason or view.paused_why}" if view.reason or view.paused_why else "")),
        ("goal", f"compare versions; the result: enpire study report {view.name}" if study else goal(view.goal)),
        ("base", rate(view.base)),
        ("champion", rate(view.champion) + (f"  {short(view.champion.id)}" if view.champion else "")),
        ("confirmed", _confirmed(view.confirm)),
        ("episodes", f"{view.episodes.get('total', 0)}: {ends or 'none yet'}"),
        ("stations", f"utilisation {_percent(view.mru)}; their time: {stack or 'none recorded yet'}"),
        ("in motion", f"{_percent(view.motion)}; real-time factor {_factor(view.real_time_factor)}"),
        ("rollouts used", used(view.rollouts_used)),
        *([("early stops", view.early_stops.sentence)] if view.early_stops else []),
        ("wall clock", f"{duration(view.wall_s)}; to the goal {duration(view.time_to_goal_s)}"),
        (
            "robot-hours",
            f"{view.robot_h:.2f}, every lane of a station is a robot; to the goal {_number(view.robot_h_to_goal)}",
        ),
        ("gain", gained(view.gain)),
        ("tokens", f"fresh {view.tokens.fresh}, cached {view.tokens.cached}, output {view.tokens.output}"),
        *([("money", spending_texts.money(view.spending.total))] if view.spending else []),
        ("search - gate", _points(view.search_gate_gap)),
        *([("pairs", view.independence.sentence)] if view.independence else []),
        ("verifier", _verifier(view)),
    ]
    parts = [_pairs(lines), _rounds(view.rounds), _data(view.rounds)]
    if view.pass_at:
        parts.append(_pass_at(view.pass_at))
    if view.branches:
        parts.append(branch_texts.branches(view.branches))
    if view.spending:
        parts.append(spending_texts.spending(view.spending))
    if view.kept_points:
        parts.append(spending_texts.kept_points(view.kept_points))
    if view.quarantine:
        parts.append(quarantine_text(view.quarantine))
    if view.ideas:
        parts.append(_ideas(view.ideas))
    return "\n\n".join(parts)


def version(view: VersionView) -> str:
    """One version with its lineage."""
    made_by = f"branch {view.branch}" if view.branch else f"round {view.round}"
    imported = [("imported from", view.origin)] if view.origin else []
    return _pairs(
        [
            ("version", view.id), ("state", view.state), ("kind", view.kind), ("parent", view.parent or "- (a base)"),
            *imported, ("made by", made_by), ("recipe", view.recipe_hash or "-"), ("data", view.data_hash or "-"),
            ("made after", duration(view.made_s)), ("hidden starts", rate(view.hidden)),
        ]
    )  # fmt: skip


def episode(view: EpisodeView) -> str:
    """One episode."""
    line = view.episode
    gate = f"{line.gate_id}, pair {line.pair}, {line.side}" if line.gate_id else "-"
    return _pairs(
        [
            ("episode", line.order_id), ("outcome", line.outcome + (f": {line.cause}" if line.cause else "")),
            ("purpose", f"{line.purpose}, round {line.round}"), ("gate", gate), ("station", line.station),
            ("ordered", line.policy_id), ("ran", view.ran_policy_id or "-"),
            ("start", f"{view.start_split} {view.start_index}"),
            ("took", f"{line.ticks} periods, {view.seconds:.1f} s"),
            ("commands clipped", str(view.clipped)), ("files", view.folder or "nothing was recorded"),
        ]
    )  # fmt: skip


def event(item: LedgerEntry) -> str:
    """One event on one line."""
    when = datetime.fromtimestamp(item.stamp_ns * 1e-9, UTC).strftime("%Y-%m-%d %H:%M:%S")
    return f"{item.seq:>6}  {when}  {item.kind:<18}  {_facts(item)}"


def decision(item: Decision) -> str:
    """The decision of one comparison."""
    tally = item.tally
    return _pairs(
        [
            ("decision", f"{item.kind} ({reason_text(item.reason)})"),
            ("pairs", f"{tally.pairs}: both {tally.both}, neither {tally.neither}"),
            ("only candidate", str(tally.wins)), ("only champion", str(tally.losses)),
            ("faster / slower", f"{tally.faster} / {tally.slower} where both succeed"),
            ("difference", f"between {100 * item.low:+.1f} and {100 * item.high:+.1f} points"),
            ("log evidence", _evidence(getattr(item, weighed(item.reason)), item.log_need, item.reason)),
        ]
    )  # fmt: skip


def used(figure: RolloutsUsed) -> str:
    """The share of rollouts that a training run or a decision used."""
    return f"{_percent(figure.share)}: {figure.used} of {figure.n} by training runs, gates, measurements, confirmations"


def data(figure: DataView) -> str:
    """Episodes of a round: asked for, used and how these ended, collected."""
    asked = counted(figure.asked, ONE_ASKED[figure.asked_of], figure.asked_of)
    ends = f" ({figure.succeeded} succeeded{f', {figure.stopped} stopped early' if figure.stopped else ''})"
    taken = "-" if figure.used is None else f"{figure.used}{ends}"
    total = "" if figure.all_used is None else f", {figure.all_used} in all"
    return f"asked {asked}, used {taken} of {figure.collected} collected{total}"


def gained(gain: Gain | None) -> str:
    """Success gained over the base, in points, in all and per robot-hour, with 95 % intervals."""
    if gain is None:
        return "-"
    total = f"{100 * gain.delta:+.1f} points [{100 * gain.low:+.1f}, {100 * gain.high:+.1f}] over the base"
    interval = f"[{100 * gain.per_robot_h_low:+.3g}, {100 * gain.per_robot_h_high:+.3g}]"
    return f"{total}; {100 * gain.per_robot_h:+.3g} {interval} points per robot-hour"


def _factor(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g} (seconds of robot time in one second of a rollout)"


def _confirmed(confirm: Confirm | None) -> str:
    if confirm is None:
        return "-"
    verdict = {True: "passed", False: "not passed", None: f"running, {confirm.announced} announced"}[confirm.passed]
    return f"{rate(confirm)}: {verdict}"


def _evidence(log_e: float, log_need: float, reason: str) -> str:
    """Log evidence with its threshold. A rejection as worse has a lower threshold than the promotion shown."""
    return f"{log_e:.2f} ({'threshold to promote' if reason == 'worse' else 'threshold'} {log_need:.2f})"


def _between(gate: GateView) -> str:
    if gate.difference_low is None or gate.difference_high is None:
        return ""
    return f", {100 * gate.difference_low:+.1f} to {100 * gate.difference_high:+.1f} points"


def _rounds(rounds: Iterable[RoundView]) -> str:
    lines = ["round  success in collection                gate"]
    for item in rounds:
        gate = item.gate
        lines.append(f"{item.round:>5}  {rate(item.collection):<35}  {_gate(gate) if gate else '-'}")
    return "\n".join(lines)


def _data(rounds: Iterable[RoundView]) -> str:
    return "\n".join(["round  episodes", *(f"{item.round:>5}  {data(item.data)}" for item in rounds)])


def _gate(gate: GateView) -> str:
    if gate.decision == "open":
        return f"deciding: +{gate.wins} -{gate.losses} in {gate.pairs} pairs"
    if gate.decision == "dropped":
        return f"dropped after {counted(gate.pairs, 'pair')} ({gate.reason})"
    return (
        f"{gate.decision} ({reason_text(gate.reason)}): +{gate.wins} -{gate.losses} in {gate.pairs} pairs, "
        f"log evidence {_evidence(gate.log_e, gate.log_need, gate.reason)}{_between(gate)}"
    )


def _pass_at(versions: Iterable[PassAt]) -> str:
    lines = ["success within the first k attempts of a trial on hidden starts"]
    for version in versions:
        rates = "  ".join(f"pass@{k} {_interval(one)}" for k, one in enumerate(version.rates, start=1))
        lines.append(f"{version.round:>5}  {short(version.id)}  {rates}  of {version.rates[0].n}")
    return "\n".join(lines)


def _interval(figure: Success) -> str:
    return f"{figure.success:.1%} [{figure.low:.1%}, {figure.high:.1%}]"


def _ideas(ideas: Sequence[IdeaView]) -> str:
    lines = ["ideas of agents"]
    for idea in ideas:
        lines.append(f"{'  ' * idea.depth}- {idea.statement}  ({idea.kind}, {idea.lane})")
        for item in idea.experiments:
            after = f" after {item.continues[:12]}" if item.continues else ""
            code = f"code {item.commit[:12]}{after}, sandbox {item.sandbox}" if item.commit else ""
            what = code or changes_text(item.changes) or "no change"
            lines.append(f"{'  ' * idea.depth}    {what}: {outcome(item)}")
    return "\n".join(lines)


def _facts(item: LedgerEntry) -> str:
    facts: list[str] = []
    for key, value in item.body.items():
        if key == "campaign_id" or isinstance(value, dict):
            continue
        if isinstance(value, list):
            facts.append(counted(len(value), key.removesuffix("s"), key))  # pyright: ignore[reportUnknownArgumentType]
        elif isinstance(value, float):
            facts.append(f"{key}={value:.4g}")
        else:
            facts.append(f"{key}={short(value) if isinstance(value, str) and len(value) > 40 else value}")
    return " ".join(facts)[:160]


def _pairs(lines: Sequence[tuple[str, str]]) -> str:
    width = max(len(name) for name, _ in lines)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in lines)


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _points(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:+.1f} points"
