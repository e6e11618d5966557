"""Documents about campaigns, versions, stations and episodes, computed from a read-only ledger.

None of them is stored: the command line, the report and the pages compute the same documents from the same events.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

from enpire import plugins
from enpire.campaign.events import LedgerEntry, kinds_of
from enpire.campaign.session_events import CampaignResumed, CampaignStarted
from enpire.campaign.training_events import VersionMade
from enpire.errors import UnknownName, UsageError
from enpire.ids import file_name
from enpire.queries.branches import branches_of, compared, searches
from enpire.queries.campaign_history import KINDS, MARKS, History
from enpire.queries.episodes_used import rollouts_used, speed_of
from enpire.queries.gain import gain_of
from enpire.queries.gates import budget_of, confirm_view, counts_of, gate_decision, gate_view, rounds_of, success
from enpire.queries.hypotheses import ideas_of
from enpire.queries.independence import independence_of
from enpire.queries.kept_points import kept_points
from enpire.queries.metrics import robot_time
from enpire.queries.models import (
    CampaignLine,
    CampaignView,
    Deployment,
    EpisodeLine,
    EpisodePage,
    EpisodeView,
    GoalView,
    Tokens,
    VersionView,
)
from enpire.queries.pass_at import pass_at_of
from enpire.queries.raised import raised
from enpire.queries.stations import robot_seconds, station_views
from enpire.queries.success_models import Success
from enpire.queries.wrong_verdicts import early_stops_of, labels_of
from enpire.store.ledger import SqliteLedger, open_to_read
from enpire.store.order_page import ENDED, OPEN, RAN, RELEASED, Page
from enpire.store.pictures import shown
from enpire.store.reading import Ends, Reading
from enpire.store.rows import OrderRow
from enpire.types import HIDDEN, OUTCOME_KINDS, Purpose, never_began


@dataclass(frozen=True, slots=True)
class Records:
    """A home that is open for reading."""

    home: Path
    ledger: SqliteLedger
    reading: Reading


@contextmanager
def open_records(home: Path) -> Generator[Records]:
    """Open a home's ledger for reading, also while an orchestrator writes it; LedgerProblem when it cannot be read."""
    ledger = open_to_read(home / "ledger.db")
    try:
        yield Records(home, ledger, Reading.of(ledger))
    finally:
        ledger.close()


def campaigns(records: Records) -> tuple[CampaignLine, ...]:
    """Every campaign of the home, newest first."""
    return tuple(_line(records, history(records, span.campaign_id, MARKS)) for span in records.reading.campaigns())


def find_campaign(records: Records, wanted: str) -> str:
    """The id of the campaign with this id, beginning of an id, or name; the latest campaign if `wanted` is empty.

    Raises:
        UnknownName: there is no such campaign, or none at all.
    """
    known = campaigns(records)
    if not known:
        raise UnknownName(f"There is no campaign in {records.home}; start one with `enpire run`.")
    if not wanted:
        return known[0].id
    found = [line.id for line in known if line.id.startswith(wanted)] or [
        line.id for line in known if line.name == wanted
    ]
    if not found:
        listed = ", ".join(f"{line.id} ({line.name})" for line in known[:5])
        raise UnknownName(f"There is no campaign {wanted!r} in {records.home}; the latest are: {listed}.")
    return found[0]


def history(records: Records, campaign_id: str, kinds: Sequence[str] = KINDS) -> History:
    """The history of one campaign, from its events of these kinds."""
    past, after = History(campaign_id=campaign_id), 0
    while page := records.reading.events(after, campaign_id, kinds):
        for entry in page:
            past.apply(entry)
        after = page[-1].seq
    return past


def campaign_view(records: Records, campaign_id: str) -> CampaignView:
    """The state of one campaign."""
    past = history(records, campaign_id)
    champion = _hidden(records, past, past.champion) if past.champion else None
    seconds = robot_seconds(past)
    used = robot_time(seconds, past.wall_s) if seconds and past.wall_s > 0 else None
    started, searched = past.started, searches(records.reading, past)
    ends, branches = records.reading.ends(campaign_id), branches_of(records.reading, past, searched)
    robot_h = past.robot_s() / 3600
    return CampaignView(
        id=campaign_id,
        name=past.name,
        task=past.task,
        state=_state(records, past),
        reason=past.ended.reason if past.ended else "",
        began=_utc(past.began_ns),
        seed=started.seed if started else 0,
        code=started.code if started else "",
        goal=_goal(past),
        rounds=rounds_of(records.reading, past),
        gates=tuple(gate_view(records.reading, past, gate) for gate in past.gates.values()),
        deployments=tuple(Deployment(at_s=at_s, id=policy_id) for at_s, policy_id in past.champions),
        base=_base(past),
        champion=champion,
        confirm=confirm_view(records.reading, past),
        episodes=_episodes(ends),
        released=ends.released,
        worst_case=_hidden(records, past, past.champion, worst=True) if past.champion else None,
        refused=past.refused,
        mru=used.mru if used else None,
        motion=used.motion if used else None,
        real_time_factor=speed_of(records.reading, past),
        rollouts_used=rollouts_used(records.reading, past, compared(past, searched)),
        robot_time={str(phase): value for phase, value in used.seconds.items()} if used else {},
        robot_h=robot_h,
        wall_s=past.wall_s,
        time_to_goal_s=past.goal_s,
        robot_h_to_goal=None if past.goal_robot_s is None else past.goal_robot_s / 3600,
        tokens=Tokens(**past.tokens, to_goal=past.goal_tokens),
        spending=past.spendings.view(started.campaign if started else {}),
        search_gate_gap=_gap(records, past, champion),
        stations=station_views(past),
        ideas=ideas_of(past.proposals, past.proposed_s),
        early_stops=early_stops_of(records.reading, campaign_id),
        labels=labels_of(records.reading, past),
        simulator_truth=plugins.is_simulator_truth(past.task),
        paused_why=past.paused_why,
        budget=budget_of(past),
        pass_at=pass_at_of(records.reading, past),
        gain=gain_of(_hidden(records, past, past.base.policy_id) if past.base else None, champion, robot_h),
        independence=independence_of(records.reading, past),
        branches=branches,
        versions=_versions(records, past),
        raised=raised(past),
        kept_points=kept_points(records.reading, past),
        task_approval=started.approved if started else "",
        quarantine=past.quarantines.views(),
    )


def _goal(past: History) -> GoalView:
    return GoalView(
        success=past.goal, by=past.goal_by, confirm_starts=past.confirm_starts, commands=past.goal_commands,
        limit_ticks=past.limit_ticks,
    )  # fmt: skip


def versions(records: Records, campaign_id: str) -> tuple[VersionView, ...]:
    """Every version of a campaign in the order in which they were made, with lineage and evidence."""
    return _versions(records, history(records, campaign_id))


def _versions(records: Records, past: History) -> tuple[VersionView, ...]:
    return tuple(_version(records, past, made) for made in past.versions.values())


def find_version(records: Records, campaign_id: str, wanted: str) -> VersionView:
    """The version whose id begins with `wanted`; UnknownName if there is none or more than one."""
    known = versions(records, campaign_id)
    found = [item for item in known if item.id.startswith(wanted)]
    if len(found) != 1:
        listed = ", ".join(item.id[:12] for item in known) or "none yet"
        many = "more than one version begins" if found else "no version begins"
        raise UnknownName(f"In campaign {campaign_id} {many} with {wanted!r}; its versions are: {listed}.")
    return found[0]


def episodes(records: Records, page: Page) -> EpisodePage:
    """One page of orders, newest first; UsageError when a filter has an unknown outcome or purpose."""
    for value, allowed in (
        (page.outcome, (*OUTCOME_KINDS, OPEN, ENDED, RAN, RELEASED)),
        (page.purpose, get_args(Purpose)),
    ):
        if value and value not in allowed:
            raise UsageError(f"Episodes cannot be filtered by {value!r}; allowed are: {', '.join(allowed)}.")
    rows = records.reading.episodes(page)
    following = rows[-1].order.order_id if len(rows) == page.limit else None
    return EpisodePage(rows=_episode_lines(records, rows), next=following)


def _episode_lines(records: Records, rows: Sequence[OrderRow]) -> tuple[EpisodeLine, ...]:
    stamps = records.reading.stamps([row.ended_seq for row in rows if row.ended_seq is not None])
    return tuple(_episode_line(row, stamps) for row in rows)


def _episode_line(row: OrderRow, stamps: Mapping[int, int]) -> EpisodeLine:
    order, end = row.order, row.episode
    ended_ns = stamps.get(row.ended_seq) if row.ended_seq is not None else None
    return EpisodeLine(
        order_id=order.order_id,
        campaign_id=order.campaign_id,
        outcome=end.outcome if end else OPEN,
        cause=end.cause if end else "",
        person_outcome=row.person_outcome,
        purpose=order.purpose,
        round=order.round,
        station=order.station,
        policy_id=order.policy_id,
        gate_id=order.gate_id,
        pair=order.pair,
        side=order.side,
        ticks=end.ticks if end else 0,
        confidence=end.confidence if end else 0.0,
        ended_ms=ended_ns // 1_000_000 if ended_ns is not None else None,
    )


def episode(records: Records, order_id: str) -> EpisodeView:
    """One order with its episode and files; UnknownName when it was never issued."""
    row = records.reading.order(order_id)
    if row is None:
        raise UnknownName(
            f"There is no episode {order_id!r} in {records.home}; `enpire episodes list` shows the episodes."
        )
    order, end = row.order, row.episode
    folder = records.home / "episodes" / file_name(order.campaign_id, "a campaign") / file_name(order_id, "an episode")
    return EpisodeView(
        episode=_episode_lines(records, [row])[0],
        start_split=order.start.split,
        start_index=order.start.index,
        ran_policy_id=end.ran_policy_id if end else "",
        seconds=end.ended_s - end.began_s if end else 0.0,
        reset_attempts=end.reset_attempts if end else 0,
        clipped=end.clipped if end else 0,
        sha256=end.sha256 if end else "",
        folder=str(folder) if folder.is_dir() else "",
        pictures=found.names if (found := shown(folder)) is not None else (),
    )


def same_start(records: Records, order_id: str) -> tuple[EpisodeLine, ...]:
    """Other episodes from the start of an episode, newest first; UnknownName when it was never issued."""
    row = records.reading.order(order_id)
    if row is None:
        raise UnknownName(f"There is no episode {order_id!r} in {records.home}.")
    return _episode_lines(records, records.reading.same_start(row))


def last_events(records: Records, number_of: int) -> tuple[LedgerEntry, ...]:
    """The last events of the ledger, oldest first."""
    return tuple(records.reading.tail(number_of))


def events_after(records: Records, seq: int) -> tuple[LedgerEntry, ...]:
    """Events with a number above `seq`, oldest first."""
    return tuple(records.ledger.events(after=seq))


def unchecked(records: Records, campaign_id: str, count: int) -> tuple[EpisodeLine, ...]:
    """At most `count` recorded successes without a label, drawn at random, for an operator to label."""
    return _episode_lines(records, records.reading.unchecked(campaign_id, count))


def _line(records: Records, past: History) -> CampaignLine:
    return CampaignLine(
        id=past.campaign_id,
        name=past.name,
        task=past.task,
        state=_state(records, past),
        began=_utc(past.began_ns),
    )


def _state(records: Records, past: History) -> str:
    if past.ended is not None:
        return "reached" if past.ended.reached else "ended"
    if not is_driven(records.home):
        return "interrupted"
    return "paused" if past.paused else "running"


def latest_begun(records: Records) -> str:
    """The campaign that was started or resumed last, which is the running one if one runs; empty if there is none."""
    begun = records.ledger.events(kinds=kinds_of(CampaignStarted, CampaignResumed))
    return next((entry.campaign_id for entry in reversed(list(begun))), "")


def is_driven(home: Path) -> bool:
    """Whether an orchestrator holds the ledger's lock. Reads the table of locks, so it never blocks an orchestrator."""
    lock, table = home / "ledger.lock", Path("/proc/locks")
    if not lock.exists() or not table.exists():
        return lock.exists()
    inode = f":{lock.stat().st_ino} "
    return any(inode in line for line in table.read_text(encoding="ascii").splitlines())


def _utc(stamp_ns: int) -> str:
    return datetime.fromtimestamp(stamp_ns // 1_000_000_000, UTC).isoformat() if stamp_ns else ""


def _base(past: History) -> Success | None:
    if past.base is None:
        return None
    return success(past.base.policy_id, past.base.successes, past.base.n)


def _hidden(records: Records, past: History, policy_id: str, *, worst: bool = False) -> Success:
    """Success on hidden starts; `worst` counts each order without a verdict as a failure, unless it never began."""
    counts = counts_of(records.reading, past.campaign_id, HIDDEN, policy_id=policy_id)
    n = counts.n_all - _released(records, past, policy_id) if worst else counts.n_ended
    return success(policy_id, counts.successes, n)


def _released(records: Records, past: History, policy_id: str) -> int:
    """Number of gate orders for a version that were released or refused before they began, and so were reissued."""
    sides = (
        (version, side, gate_id)
        for gate_id, gate in past.gates.items()
        for side, version in (("champion", gate.opened.champion), ("candidate", gate.opened.candidate))
    )
    return sum(
        trial.side == side and never_began(trial.outcome, trial.cause)
        for ran, side, gate_id in sides
        if ran == policy_id
        for trial in records.reading.gate_trials(gate_id)
    )


def _gap(records: Records, past: History, champion: Success | None) -> float | None:
    if champion is None or champion.success is None:
        return None
    search = records.reading.uniform_success(past.campaign_id, champion.id)
    return None if search is None else search - champion.success


def _episodes(ends: Ends) -> Mapping[str, int]:
    return {kind: int(getattr(ends, kind)) for kind in (*OUTCOME_KINDS, OPEN)} | {"total": ends.started}


def _version(records: Records, past: History, made: VersionMade) -> VersionView:
    policy_id = made.policy_id
    return VersionView(
        id=policy_id,
        kind=made.policy_kind,
        parent=made.parent,
        round=made.round,
        recipe_hash=made.recipe_hash,
        data_hash=made.data_hash,
        state=_version_state(past, policy_id),
        made_s=past.made_s[policy_id],
        hidden=_hidden(records, past, policy_id),
        branch=next((one.number for one in past.branches.by_experiment.values() if policy_id in one.versions), 0),
        why=past.rolled_back.get(policy_id, ""),
        origin=past.origins[policy_id].source if policy_id in past.origins else "",
    )


def _version_state(past: History, policy_id: str) -> str:
    if policy_id == past.champion:
        return "champion"
    if policy_id in past.rolled_back:
        return "rolled back"
    if any(policy_id == deployed for _, deployed in past.champions):
        return "former champion"
    gates = [gate_decision(gate, past)[0] for gate in past.gates.values() if gate.opened.candidate == policy_id]
    return {"reject": "rejected", "hold": "held", "open": "in the gate"}.get(["", *gates][-1], "candidate")
