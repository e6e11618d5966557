"""The campaign report: one HTML file without external resources, computed from the ledger."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from enpire import plugins
from enpire.campaign.agent_events import HypothesisMarked
from enpire.campaign.command_events import CommandAccepted
from enpire.campaign.events import kinds_of
from enpire.campaign.gate_events import RolledBack
from enpire.campaign.quarantine_events import ExperimentCleared, ExperimentQuarantined
from enpire.campaign.session_events import CampaignContinued, CampaignPaused, LimitsChanged
from enpire.datasets.episode_images import replay_or_reason
from enpire.errors import EnpireError, FileProblem, LedgerProblem
from enpire.gate.reasons import reason_text
from enpire.home import Home as Folder
from enpire.ids import file_name
from enpire.monitor.event_lines import line_of
from enpire.parts import TASKS
from enpire.queries import branch_texts, campaigns, hypotheses, spending_texts, texts
from enpire.queries.campaign_history import History
from enpire.queries.campaigns import Records
from enpire.queries.decision_audit import Check, recompute
from enpire.queries.failure_clusters import ending
from enpire.queries.models import CampaignView, EpisodeView
from enpire.queries.records_audit import audit_records
from enpire.report import branch_charts, charts, hypothesis_charts
from enpire.store import durable, reset_accuracy
from enpire.store.arrays import unpack
from enpire.store.order_page import Page
from enpire.store.start_rows import Selection, start_rows
from enpire.types import OUTCOME_KINDS
from enpire.wording import at_most, goal_share, within

SUM = "sum of orders"
"""The check that belongs to a campaign and not to one event."""
BRANCH_FILTERS: Mapping[str, Callable[..., str]] = {
    "minutes": branch_texts.minutes, "branch_state": branch_texts.state, "branch_lineage": branch_texts.lineage,
    "branch_arm": branch_texts.arm,
    "branch_data": branch_texts.learned_from, "branch_search": branch_texts.search, "branch_gain": branch_texts.gain,
    "branch_gate": branch_texts.gate, "branch_spent": branch_texts.spent, "branch_per_hour": branch_texts.per_hour,
}  # fmt: skip
"""Cells of the table of branches."""
INCIDENTS = 500
"""Most incidents that the report lists."""
INCIDENT_KINDS = kinds_of(
    CommandAccepted, CampaignPaused, CampaignContinued, LimitsChanged, RolledBack, ExperimentQuarantined,
    ExperimentCleared, HypothesisMarked,
)  # fmt: skip
LOOKED_AT = 2000
"""Most failures, the newest, among which the worst one is chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clip:
    """One episode with its camera images."""

    title: str
    why: str
    how: str
    """How its last state differs from that of successes; empty where that is not known."""
    view: EpisodeView
    pictures: Markup
    note: str
    """Why there are no camera images; empty when there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The orders by outcome, and whether they add up to the started ones."""

    started: int
    parts: str
    adds_up: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """The checks of the records: the ledger, the files of the episodes, and every decision recomputed."""

    sentences: tuple[str, ...]
    intact: bool
    checks: tuple[Check, ...]

    @property
    def different(self) -> tuple[Check, ...]:
        """Decisions whose recomputation differs from the records."""
        return tuple(check for check in self.checks if not check.equal)


def write_report(home: Path, campaign: str = "", output: Path | None = None) -> Path:
    """Write the report of a campaign (the latest when none is named); returns its path.

    Raises:
        FileProblem: `output` is a folder, a device or a pipe, or cannot be written.
    """
    if output is not None and os.path.lexists(output) and not output.is_file():
        raise FileProblem(f"{output} is no file, so the report cannot replace it; give the path of an HTML file.")
    with campaigns.open_records(home) as records:
        campaign_id = campaigns.find_campaign(records, campaign)
        page = render(records, campaign_id)
    path = output or home / "reports" / f"{file_name(campaign_id, 'a campaign')}.html"
    durable.make_folder(path.parent)
    durable.write(path, page.encode("utf-8"))
    return path


def render(records: Records, campaign_id: str) -> str:
    """The report as HTML."""
    view = campaigns.campaign_view(records, campaign_id)
    environment = Environment(loader=PackageLoader("enpire.report"), autoescape=True, undefined=StrictUndefined)
    environment.filters.update(rate=texts.rate, goal=texts.goal, duration=texts.duration, data=texts.data)  # pyright: ignore[reportUnknownMemberType]
    environment.filters.update(short=texts.short, percent=_percent, gained=texts.gained, money=spending_texts.money)  # pyright: ignore[reportUnknownMemberType]
    environment.filters.update(changes=hypotheses.changes_text, points=hypotheses.points)  # pyright: ignore[reportUnknownMemberType]
    environment.filters.update(reason=reason_text, mark=hypothesis_charts.mark, interval=hypothesis_charts.interval)  # pyright: ignore[reportUnknownMemberType]
    environment.filters.update(per_point=spending_texts.per_point, money_per_point=spending_texts.money_per_point)  # pyright: ignore[reportUnknownMemberType]
    environment.filters.update(BRANCH_FILTERS)  # pyright: ignore[reportUnknownMemberType]
    reach = hypothesis_charts.reach(view.ideas)
    return environment.get_template("report.html.j2").render(
        view=view,
        versions=view.versions,
        reach=reach,
        scale=hypothesis_charts.scale(reach),
        difference_width=hypothesis_charts.WIDTH,
        headline=headline(view),
        curve=charts.learning_curve(view),
        branch_gains=branch_charts.gains(view.branches) if view.branches else "",
        branch_legend=branch_charts.legend(view.branches.branches) if view.branches else "",
        branch_numbers=branch_texts.numbers(view.branches.branches) if view.branches else {},
        uses=branch_texts.USES,
        stack=charts.stack(view.robot_time, "Robot time of all stations"),
        legend=charts.legend(view.robot_time),
        stations=charts.utilisation(view.stations),
        lineage=charts.lineage(view.versions),
        recipes=recipes(campaigns.history(records, campaign_id)),
        changes={test.policy_id: test.changes for idea in view.ideas for test in idea.experiments if test.policy_id},
        clips=tuple(clips(records, view)),
        resets=reset_line(records, view),
        incidents=incidents(records, campaign_id),
        account=account(view),
        trust=trust(records, campaign_id),
        written=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    )


def incidents(records: Records, campaign_id: str) -> tuple[tuple[str, str], ...]:
    """(time, sentence) of every stop, pause, rollback, quarantine and change of limits; the oldest INCIDENTS."""
    found: list[tuple[str, str]] = []
    for entry in records.reading.events(0, campaign_id, INCIDENT_KINDS, INCIDENTS):
        event = entry.event
        if isinstance(event, CommandAccepted) and event.command != "stop":
            continue
        at = datetime.fromtimestamp(entry.stamp_ns // 1_000_000_000, UTC).strftime("%Y-%m-%d %H:%M:%S")
        found.append((at, line_of(event)))
    return tuple(found)


def reset_line(records: Records, view: CampaignView) -> str:
    """The accuracy and time of resets, in sentences; empty when no reset was checked."""
    found = reset_accuracy.account(records.reading.resets(view.id), view.robot_time.get("reset", 0.0))
    # Loading a task outside of the installed packages would run its code.
    known = plugins.is_part("tasks", view.task)
    names = TASKS.make(view.task).spec.start_names if found and known else ()
    return found.sentence(names) if found else ""


def headline(view: CampaignView) -> str:
    """The result in one sentence; where the simulation itself judged, another one says so."""
    return f"{_result(view)} Here {texts.SIMULATOR_TRUTH}." if view.simulator_truth else _result(view)


def _result(view: CampaignView) -> str:
    if view.confirm is not None and view.confirm.passed:
        took = texts.duration(view.time_to_goal_s)
        return f"Goal reached after {took}: success on fresh starts {texts.rate(view.confirm)}."
    if view.champion is None or view.champion.success is None:
        return "No version has been tried on hidden starts yet."
    better = ""
    if view.base is not None and view.base.success is not None:
        better = f", base {view.base.success:.1%}"
    fast = f"{within(view.goal.limit_ticks)}{at_most(view.goal.commands)}"
    now, wanted = texts.rate(view.champion), f"{goal_share(view.goal.success, view.goal.by)}{fast}"
    if view.confirm is not None and view.confirm.n:
        now = f"{now}, on fresh starts {texts.rate(view.confirm)}"
    return f"Goal not reached: success of the champion on hidden starts {now}{better}, goal {wanted}."


def account(view: CampaignView) -> Account:
    """The started orders by outcome; each has exactly one outcome or is open."""
    kinds = [*OUTCOME_KINDS, "open"]
    parts = " + ".join(f"{view.episodes[kind]} {kind}" for kind in kinds if view.episodes[kind])
    total = view.episodes["total"]
    return Account(started=total, parts=parts or "0", adds_up=sum(view.episodes[kind] for kind in kinds) == total)


def recipes(past: History) -> Mapping[str, str]:
    """recipe_hash -> name of the recipe, for every training run."""
    runs = [run.started for run in past.learners.values()]
    return {started.recipe_hash: started.recipe.name for started in runs}


def trust(records: Records, campaign_id: str) -> Trust:
    """Verify the ledger and the files of this campaign's episodes, and recompute every decision of it."""
    try:
        found = audit_records(records, campaign_id)
        sentences, intact = found.sentences(), found.sound
    except LedgerProblem as problem:
        sentences, intact = (str(problem),), False
    checks = tuple(check for check in recompute(records.ledger) if _is_of(records, check, campaign_id))
    return Trust(sentences=sentences, intact=intact, checks=checks)


def _is_of(records: Records, check: Check, campaign_id: str) -> bool:
    if check.kind == SUM:
        return check.subject == campaign_id
    return records.reading.is_event_of(check.seq, campaign_id)


def clips(records: Records, view: CampaignView) -> Iterator[Clip]:
    """The first success and the worst failure of a policy."""
    if first := _first_success(records, view):
        yield _clip(records, first, "First success", "the earliest success of a trained policy")
    if worst := _worst_failure(records, view):
        why = "an unsafe episode, or else the champion's failure on hidden starts with the highest confidence"
        yield _clip(records, worst, "Worst failure", why, _ending(records, view, worst))


def _ending(records: Records, view: CampaignView, order_id: str) -> str:
    """Why an episode failed, as far as the records tell: the verifier's reason, and its last state."""
    if not plugins.is_part(TASKS.name, view.task):
        return ""
    rows = start_rows(records.reading, Selection(campaign_id=view.id))
    folder = records.home / "episodes" / file_name(view.id, "a campaign")
    how = ending(rows, order_id, folder, TASKS.make(view.task).spec.state)
    return f"The episode {how}." if how else ""


def _clip(records: Records, order_id: str, title: str, why: str, how: str = "") -> Clip:
    episode = campaigns.episode(records, order_id)
    pictures = charts.image_strip(episode.folder)
    note = ""
    if not pictures:
        note = replay_or_reason(Folder(records.home), records.ledger, order_id)
        pictures = charts.image_strip(episode.folder)
    if not pictures:
        pictures = _state_curves(episode)
        note += " The curves below show the recorded state." if pictures else ""
    return Clip(title=title, why=why, how=how, view=episode, pictures=pictures, note=note)


def _state_curves(episode: EpisodeView) -> Markup:
    path = Path(episode.folder) / "arrays.npz"
    if not episode.folder or not path.is_file():
        return Markup("")
    try:
        state = unpack(path.read_bytes()).state
    except EnpireError as problem:
        return Markup("<p>{}</p>").format(problem)
    shown = min(6, state.shape[1])
    return charts.state_curves(state[:, :shown].tolist(), [f"state {index}" for index in range(shown)])


def _first_success(records: Records, view: CampaignView) -> str:
    for purpose in ("base", "collect"):
        for round_ in [item.round for item in view.rounds]:
            before = found = ""
            while rows := records.reading.episodes(
                Page(campaign_id=view.id, purpose=purpose, outcome="success", round=round_, before=before, limit=1000)
            ):
                before = found = rows[-1].order.order_id
            if found:
                return found
    return ""


def _worst_failure(records: Records, view: CampaignView) -> str:
    champion = view.champion.id if view.champion else ""
    for outcome, policy_id in (("unsafe", ""), ("failure", champion), ("failure", "")):
        page = Page(campaign_id=view.id, outcome=outcome, policy_id=policy_id, limit=LOOKED_AT)
        rows = [row for row in records.reading.episodes(page) if row.order.purpose != "demonstrate" and row.episode]
        if rows:
            hidden = [row for row in rows if row.order.start.split != "train"] or rows
            worst = max(hidden, key=lambda row: row.episode.confidence if row.episode else 0.0)
            return worst.order.order_id
    return ""


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"
