"""Whether the records of a home are whole: the ledger, and the recorded files of its episodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from enpire.errors import LedgerProblem
from enpire.queries.campaigns import Records
from enpire.store.head import Head, parse_head
from enpire.wording import counted


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsAudit:
    """What a check of the records of a home found. A ledger that does not verify gives a LedgerProblem instead."""

    head: str
    """SEQUENCE:HASH of the last event."""
    chain: str = "intact"
    events: int
    orders: int
    signature: str
    """What the HMAC of the head shows, in one or two sentences."""
    expected: str
    """How the head relates to the expected one, in one sentence; empty where none was given."""
    recordings: int | None
    """Number of episodes whose files were compared with their hashes; None where they were left out."""
    files: str
    """How the files differ from the ledger, in one sentence; empty where they agree."""

    @property
    def sound(self) -> bool:
        """Whether every recording is there and unchanged. Files that no order names do not count."""
        return not self.files

    def sentences(self) -> tuple[str, ...]:
        """The result for a person."""
        orders = "1 order equals its events" if self.orders == 1 else f"{self.orders} orders equal their events"
        files = "The files of the episodes were not checked."
        if self.recordings is not None:
            files = f"The files of {counted(self.recordings, 'episode')} have their hashes."
        found = (
            f"The chain over {counted(self.events, 'event')} is intact, and {orders}.",
            self.signature, self.expected, self.files or files, f"Head of the ledger: {self.head}",
        )  # fmt: skip
        return tuple(filter(None, found))


def audit_records(
    records: Records,
    campaign_id: str = "",
    *,
    expect: str = "",
    files: bool = True,
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> RecordsAudit:
    """Verify the ledger of a home, and compare the files of its episodes with their hashes.

    Args:
        records: of the home.
        campaign_id: whose files to compare; empty for those of all campaigns.
        expect: a head that was noted earlier, SEQUENCE:HASH; the ledger must contain it.
        files: whether to read the files of the episodes.
        progress: receives what is checked, how many of it are checked, and how many there are.

    Raises:
        LedgerProblem: the ledger does not verify, or does not contain the expected head.
        UsageError: `expect` is no head.
    """
    wanted = parse_head(expect) if expect else None
    ledger = records.ledger
    verified = ledger.examine(lambda done, total: progress("events", done, total))
    expected = "" if wanted is None else compare_heads(wanted, verified.head, ledger.hash_at(wanted.seq))
    count, differences = None, ""
    if files:
        count, differences = _compare_files(records, campaign_id, lambda done, all_: progress("episodes", done, all_))
    return RecordsAudit(
        head=str(verified.head), events=verified.head.seq, orders=verified.orders, signature=verified.signature,
        expected=expected, recordings=count, files=differences,
    )  # fmt: skip


def _compare_files(records: Records, campaign_id: str, progress: Callable[[int, int], None]) -> tuple[int, str]:
    """Number of episodes whose files have their hashes, and how the others differ."""
    # Imported here because they load numpy, which a check of the ledger alone does not need.
    from enpire.store.episodes import FolderStore
    from enpire.store.reconcile import compare

    store = FolderStore(records.home / "episodes")
    found = compare(records.reading, store, deep=True, campaign_id=campaign_id, progress=progress)
    sound = len(records.reading.recorded(campaign_id)) - len(found.missing) - len(found.altered)
    return sound, found.sentence() if found.missing or found.altered else ""


def compare_heads(expected: Head, head: Head, hash_there: str) -> str:
    """How a ledger that ends with `head` relates to an expected head, in one sentence.

    Args:
        expected: as it was noted earlier.
        head: of the ledger.
        hash_there: of the ledger's event with the number of the expected one; empty if there is none.

    Raises:
        LedgerProblem: the ledger does not contain the expected head.
    """
    if expected.seq > head.seq:
        raise LedgerProblem(
            f"The ledger is older than the expected head: it ends with event {head.seq}, the expected one is event "
            f"{expected.seq}. {expected.seq - head.seq} events were removed, or this is an older copy."
        )
    if hash_there != expected.hash:
        raise LedgerProblem(
            f"The ledger is another one than expected: its event {expected.seq} has the hash {hash_there}, expected is "
            f"{expected.hash}. Its history was rewritten, or it is the ledger of another home."
        )
    if expected.seq == head.seq:
        return "It ends with the expected head."
    return f"It contains the expected head, event {expected.seq}, and {head.seq - expected.seq} newer events."
