"""Reads a home for the page: its ledger and the files of its episodes, with one read-only connection per query.

Every method may be called from any thread and may take milliseconds; routes call them outside the event loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from enpire.campaign.events import LedgerEntry
from enpire.errors import UnknownName, UsageError
from enpire.home import Home
from enpire.ids import file_name
from enpire.queries.models import CampaignLine, CampaignView, EpisodeLine, EpisodePage, EpisodeView, VersionView
from enpire.service import reading
from enpire.service.code import CodeDiff, diff_of
from enpire.service.decisions import Stake, stake
from enpire.service.failures import Selection, WhereItFails
from enpire.service.offline import Attribution, kept_attribution
from enpire.service.reading import GatePair, Page
from enpire.service.recordings import Pictures, shown
from enpire.types import OutcomeKind
from web_ui.authored_tasks import AuthoredTaskLine, task_lines
from web_ui.failure_maps import FailureMaps
from web_ui.image_strip import image_strip
from web_ui.problems import Problem
from web_ui.recording_facts import Intervened, Predicted, RecordingFacts
from web_ui.reports import ExportForm, export_in_process, read_report, replay_in_process, videos_in_process, videos_of
from web_ui.series import Series, read_series

CHAMPION = "champion"
"""Selects the champion in place of the id of a version."""


class Archive:
    """The records of one home. Thread-safe."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._maps = FailureMaps()
        self._facts = RecordingFacts(home)

    def authored_tasks(self) -> list[AuthoredTaskLine]:
        """The tasks that agents wrote, oldest first."""
        return task_lines(self._home)

    def newest_seq(self) -> int:
        """Number of the newest event; 0 without a ledger."""
        if self._is_empty():
            return 0
        with reading.open_records(self._home) as records:
            newest = records.reading.tail(1)
            return newest[0].seq if newest else 0

    def head(self) -> tuple[str, int]:
        """(SEQUENCE:HASH of the newest event, number of events); ("0:", 0) without a ledger."""
        if self._is_empty():
            return "0:", 0
        with reading.open_records(self._home) as records:
            head = records.ledger.head
        return str(head), head.seq

    def campaigns(self) -> tuple[CampaignLine, ...]:
        """Every campaign, newest first."""
        if self._is_empty():
            return ()
        with reading.open_records(self._home) as records:
            return reading.campaigns(records)

    def campaign(self, campaign_id: str) -> CampaignView:
        """One campaign; UnknownName when there is none with that id."""
        with reading.open_records(self._home) as records:
            return reading.campaign_view(records, self._known(records, campaign_id))

    def report(self, campaign_id: str) -> bytes:
        """The report of a campaign as HTML; UnknownName when there is none with that id."""
        with reading.open_records(self._home) as records:
            known = self._known(records, campaign_id)
            newest = records.reading.tail(1, known)
        return read_report(self._home, known, newest[0].stamp_ns * 1e-9)

    def code(self, commit: str) -> CodeDiff:
        """The changes of a code candidate; UnknownName when the home has no such commit."""
        try:
            return diff_of(self._home, commit)
        except UsageError as problem:
            raise UnknownName(f"There is no code candidate {commit[:12]} in this home.") from problem

    def attribution(self, campaign_id: str) -> Attribution | None:
        """What each kept change contributed, as it was measured last; UnknownName for another campaign."""
        with reading.open_records(self._home) as records:
            return kept_attribution(Home(self._home), self._known(records, campaign_id))

    def versions(self, campaign_id: str) -> tuple[VersionView, ...]:
        """The policy versions of a campaign, oldest first."""
        with reading.open_records(self._home) as records:
            return reading.versions(records, self._known(records, campaign_id))

    def where_it_fails(self, wanted: Selection, axes: tuple[int, int] | None = None) -> WhereItFails:
        """Success by start, station and version, and clusters of failures; at most a minute old.

        The policy id `champion` selects the champion of the campaign.
        """
        with reading.open_records(self._home) as records:
            known = self._known(records, wanted.campaign_id)
            if wanted.policy_id == CHAMPION:
                wanted = replace(wanted, policy_id=reading.history(records, known).champion)
            return self._maps.get(records, wanted, axes)

    def episodes(
        self, page: Page, cluster: int | None = None, recorded: tuple[Predicted, Intervened] = ("", "")
    ) -> EpisodePage:
        """One page of episodes, newest first; of the latest campaign when none is named; of a failure cluster of it.

        Args:
            page: filters of the ledger.
            cluster: number of a failure cluster.
            recorded: filters of the recordings: p_v at the start, interventions.
        """
        if self._is_empty():
            return EpisodePage(rows=(), next=None)
        with reading.open_records(self._home) as records:
            if not page.campaign_id:
                known = reading.campaigns(records)
                if not known:
                    return EpisodePage(rows=(), next=None)
                page = replace(page, campaign_id=known[0].id)
            if page.before and records.reading.order(page.before) is None:
                raise Problem(400, f"The cursor {page.before[:40]!r} is not from this ledger; start again without it.")
            if cluster is not None:
                page = replace(page, among=self._cluster(records, page, cluster))
            if any(recorded):
                page = replace(page, among=self._facts.among(records, page, *recorded))
            return reading.episodes(records, page)

    def export(self, order_ids: Sequence[str], form: ExportForm) -> TemporaryDirectory[str]:
        """A temporary folder with some episodes of one campaign in a zip file, `exported_name(form)`.

        Raises:
            UnknownName: there is no such episode.
            Problem: they cannot be exported; the sentence says why.
        """
        with reading.open_records(self._home) as records:
            rows = [records.reading.order(order_id) for order_id in order_ids]
        if unknown := [name for name, row in zip(order_ids, rows, strict=True) if row is None]:
            raise UnknownName(f"There is no episode {unknown[0]}; `GET /api/v1/episodes` lists them.")
        found = {row.order.campaign_id for row in rows if row is not None}
        if len(found) > 1:
            raise Problem(400, "The episodes are of several campaigns; export those of one campaign at a time.")
        return export_in_process(self._home, found.pop(), order_ids, form)

    def episode(self, order_id: str) -> EpisodeView:
        """One episode, without the path of its folder."""
        with reading.open_records(self._home) as records:
            return replace(reading.episode(records, order_id), folder="")

    def same_start(self, order_id: str) -> tuple[EpisodeLine, ...]:
        """Other episodes from the start of an episode, newest first."""
        with reading.open_records(self._home) as records:
            return reading.same_start(records, order_id)

    def gate_pairs(self, gate_id: str) -> tuple[GatePair, ...]:
        """The finished pairs of a gate with the episodes of both sides."""
        with reading.open_records(self._home) as records:
            return reading.gate_pairs(records, gate_id)

    def series(self, order_id: str, points: int) -> Series:
        """States, actions and critic outputs of one episode, at most `points` frames."""
        with reading.open_records(self._home) as records:
            row = records.reading.order(order_id)
        if row is None:
            raise UnknownName(f"There is no episode {order_id[:40]!r}; `GET /api/v1/episodes` lists them.")
        return read_series(self._folder(row.order.campaign_id, order_id), row, points)

    def stake(self, order_id: str, outcome: OutcomeKind) -> Stake:
        """The decision that counted an episode, and the decision if the episode had another outcome."""
        with reading.open_records(self._home) as records:
            row = records.reading.order(order_id)
            if row is None:
                raise UnknownName(f"There is no episode {order_id[:40]!r}; `GET /api/v1/episodes` lists them.")
            return stake(records.reading, reading.history(records, row.order.campaign_id), row, outcome)

    def replay(self, order_id: str) -> str:
        """Make the camera images of an episode of a simulated station; returns why there are none, or an empty text."""
        with reading.open_records(self._home) as records:
            if records.reading.order(order_id) is None:
                raise UnknownName(f"There is no episode {order_id[:40]!r}; `GET /api/v1/episodes` lists them.")
        return replay_in_process(self._home, order_id)

    def make_videos(self, order_id: str) -> tuple[tuple[str, ...], str]:
        """(cameras with a video of an episode, why there are none)."""
        with reading.open_records(self._home) as records:
            if records.reading.order(order_id) is None:
                raise UnknownName(f"There is no episode {order_id[:40]!r}; `GET /api/v1/episodes` lists them.")
        why = videos_in_process(self._home, order_id)
        return tuple(sorted(one.stem for one in videos_of(self._home, order_id).glob("*.webm"))), why

    def video(self, order_id: str, camera: str) -> Path:
        """The WebM file of one camera; UnknownName when it was not made."""
        path = videos_of(self._home, order_id) / f"{camera}.webm"
        if camera not in {one.stem for one in path.parent.glob("*.webm")}:
            raise UnknownName(f"Episode {order_id[:40]!r} has no video of {camera[:60]!r}; make its videos first.")
        return path

    def strip(self, order_id: str, count: int) -> bytes | None:
        """At most `count` camera images of an episode side by side, as JPEG; None when there are none."""
        found = self._images(order_id)
        return image_strip(found, count) if found is not None else None

    def picture(self, order_id: str, name: str) -> bytes:
        """One camera image, JPEG or PNG; UnknownName when there is none."""
        found = self._images(order_id)
        if found is None or name not in found.names:
            raise UnknownName(f"Episode {order_id[:40]!r} has no image {name[:60]!r}; see `pictures` of the episode.")
        return found.bytes_of(name)

    def events(self, after: int, campaign_id: str, limit: int, kinds: Sequence[str] = ()) -> list[LedgerEntry]:
        """Events with a number above `after`, in order; of all kinds when none is given."""
        if self._is_empty():
            return []
        with reading.open_records(self._home) as records:
            return records.reading.events(after, campaign_id, kinds, limit)

    def _cluster(self, records: reading.Records, page: Page, number: int) -> tuple[str, ...]:
        wanted = Selection(
            campaign_id=self._known(records, page.campaign_id), starts=page.starts, policy_id=page.policy_id,
            station=page.station,
        )  # fmt: skip
        found = self._maps.clusters(records, wanted)
        for one in found:
            if one.number == number:
                return one.order_ids
        raise UnknownName(f"There is no failure cluster {number} in this selection; it has {len(found)}.")

    def _known(self, records: reading.Records, campaign_id: str) -> str:
        if not records.reading.events(campaign_id=campaign_id, limit=1):
            raise UnknownName(f"There is no campaign {campaign_id[:40]!r} here; `GET /api/v1/campaigns` lists all.")
        return campaign_id

    def _images(self, order_id: str) -> Pictures | None:
        with reading.open_records(self._home) as records:
            row = records.reading.order(order_id)
        return shown(self._folder(row.order.campaign_id, order_id)) if row is not None else None

    def _folder(self, campaign_id: str, order_id: str) -> Path:
        return self._home / "episodes" / file_name(campaign_id, "a campaign") / file_name(order_id, "an episode")

    def _is_empty(self) -> bool:
        return not (self._home / "ledger.db").is_file()
