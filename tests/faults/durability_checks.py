"""Checks of a home folder after a crash: all data that `writing_process` reported as acknowledged must be there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path

from enpire.errors import EnpireError
from enpire.station.spool import Spool
from enpire.store.episodes import FolderStore
from enpire.store.ledger import SqliteLedger
from enpire.store.reading import Reading
from enpire.store.reconcile import Differences, _sha256, compare


def broken(home: Path, said: Sequence[str]) -> list[str]:
    """Open the folder as the software does at its next start; returns its faults in words."""
    words = [line.split() for line in said]
    try:
        problems = _ledger(home, words)
        return problems + list(_spool(home, words))
    except EnpireError as refused:
        return [f"{type(refused).__name__}: {refused}"]


def _ledger(home: Path, words: Iterable[Sequence[str]]) -> list[str]:
    found: list[str] = []
    store = FolderStore(home / "episodes")
    store.sweep()
    with closing(SqliteLedger(home / "ledger.db")) as ledger:
        there = ledger.verify()
        hashes = {event.seq: event.hash for event in ledger.events()}
        for what, *rest in words:
            if what == "ledger" and hashes.get(int(rest[0])) != rest[1]:
                found.append(f"event {rest[0]} was acknowledged and is not there ({there} events are)")
            if what == "store" and rest[0] not in set(store.ids()):
                found.append(f"episode {rest[0]} was acknowledged and is not in the store")
        for order_id in store.ids():
            store.get(order_id)
        different = compare(Reading(ledger.database), store, deep=True)
        if different != Differences(unrecorded=different.unrecorded):
            found.append(different.sentence())
    return found


def _spool(home: Path, words: Iterable[Sequence[str]]) -> Iterable[str]:
    promised = [rest[0] for what, *rest in words if what == "spool"]
    gone = {rest[0] for what, *rest in words if what == "forget"}
    with closing(Spool(home / "spool", 0)) as spool:
        for order_id in promised:
            if order_id not in gone and order_id not in spool:
                yield f"episode {order_id} was spooled and is gone"
        for order_id in spool.ids():
            parcel = spool.get(order_id)
            if parcel is None:
                yield f"episode {order_id} lies in the spool in pieces"
            elif parcel.episode.pictures_sha256 not in ("", _sha256(spool.pictures(order_id))):
                yield f"the pictures of episode {order_id} are not in the spool"
