"""The evidence of a study in one file, and what the files of several sites show together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from enpire import __version__
from enpire.campaign.events import kinds_of
from enpire.campaign.session_events import CampaignStarted
from enpire.campaign.study_events import StudyUnblinded
from enpire.errors import LedgerProblem, UsageError
from enpire.home import Home
from enpire.queries.campaigns import Records, open_records
from enpire.queries.records_audit import audit_records
from enpire.service.studies import require_study, write_beside
from enpire.store.evidence_file import Manifest, opened_evidence, require_new, write_evidence
from enpire.study.pool import PooledStudy, Site, pool
from enpire.study.results import unblinded_record

__all__ = ["PooledStudy", "export_study", "pool_files", "read_site"]


def export_study(home: Home, wanted: str, path: Path, by: str) -> Manifest:
    """Write the evidence of a study that has ended. The ledger then also says which arm ran in each trial.

    Raises:
        UsageError: the home has no such study, it has not ended, a campaign runs in the home, or the file exists.
        LedgerProblem, FileProblem, StorageFull: as `write_evidence`.
    """
    found = require_study(home, wanted)
    if not found.ended:
        raise UsageError(
            f"The study {wanted[:80]!r} has not ended, so its arms stay hidden; let it end, or end it with "
            "`enpire campaign stop`, then export it."
        )
    require_new(path)
    with open_records(home.root) as records:
        known = unblinded_record(records.ledger, found.campaign_id) is not None
    if not known:
        write_beside(home, found, StudyUnblinded(by=by, arms=dict(found.trials.arms)))
    with open_records(home.root) as records:
        return write_evidence(records.ledger, found.campaign_id, path, __version__)


def pool_files(files: Sequence[Path]) -> PooledStudy:
    """What the studies in several evidence files show together. Each file's records are checked first.

    Raises:
        FileProblem: a file is no evidence file.
        LedgerProblem: the records in it were changed.
        UsageError: it holds no study that was exported, or the studies do not ask the same question.
    """
    return pool([read_site(path) for path in files])


def read_site(path: Path) -> Site:
    """The study in an evidence file, after its records were checked; errors as of `pool_files`."""
    with opened_evidence(path) as (folder, manifest), open_records(folder) as records:
        audit = audit_records(records, expect=manifest.head, files=False)
        if not audit.sound:
            raise LedgerProblem(f"The records in {path} do not hold: `enpire ledger verify {path}` says why.")
        record = unblinded_record(records.ledger, manifest.campaign)
        if record is None:
            raise UsageError(
                f"{path} does not say which arm ran in each trial; write it again at its site with "
                "`enpire study export NAME FILE`."
            )
        began = _began(records, manifest.campaign)
        return Site(
            file=str(path), head=manifest.head, verifier=began.verifier, limit_ticks=began.limit_ticks, record=record
        )


def _began(records: Records, campaign_id: str) -> CampaignStarted:
    for entry in records.reading.events(0, campaign_id, kinds_of(CampaignStarted), limit=1):
        if isinstance(entry.event, CampaignStarted):
            return entry.event
    raise LedgerProblem(f"The ledger has no first event of campaign {campaign_id}.")
