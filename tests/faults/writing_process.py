"""Writes to a home folder in every way once: `python -m tests.faults.writing_process FOLDER`.

It prints each acknowledgement on stdout in one system call: no crash may lose the acknowledged data. An EnpireError
ends it with one sentence and exit code 1.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from enpire.errors import EnpireError
from enpire.station.spool import Spool
from enpire.store import durable
from enpire.store.episodes import FolderStore, Recording
from enpire.store.ledger import SqliteLedger
from enpire.types import Episode
from enpire.wire.messages import Parcel
from tests.enpire.store.store_samples import a_recording, an_order, ended, issued
from tests.fakes.sample_events import append

Entry = tuple[str, Mapping[str, object]]
SEEN = b"what the cameras saw" * 70


def say(*words: object) -> None:
    os.writev(1, [(" ".join(map(str, words)) + "\n").encode()])


class Life:
    """Ledger, episode store and spool of one folder."""

    def __init__(self, home: Path) -> None:
        self.ledger = SqliteLedger(home / "ledger.db")
        self.store, self.spool = FolderStore(home / "episodes"), Spool(home / "spool", 0)

    def append(self, *entries: Entry) -> None:
        last = append(self.ledger, entries)[-1]
        say("ledger", last.seq, last.hash)

    def put(self, *episodes: tuple[Episode, bytes]) -> None:
        self.store.put_many(
            Recording(episode=episode, arrays_file=data, pictures=self._come(episode)) for episode, data in episodes
        )
        for episode, _ in episodes:
            say("store", episode.order.order_id)

    def _come(self, episode: Episode) -> Path | None:
        """The images of an episode, in two parts."""
        if not episode.pictures_sha256:
            return None
        path = self.store.root / ".incoming" / episode.order.order_id
        durable.make_folder(path.parent)
        for part in (SEEN[:900], SEEN[900:]):
            durable.append(path, part)
        return path

    def stage(self, *episodes: tuple[Episode, bytes]) -> None:
        for episode, _ in episodes:
            if episode.pictures_sha256:
                durable.write(self.spool.pictures(episode.order.order_id), SEEN)
        self.spool.put(*(Parcel(episode=episode, arrays_file=data) for episode, data in episodes))
        for episode, _ in episodes:
            say("spool", episode.order.order_id)

    def forget(self, episode: Episode) -> None:
        say("forget", episode.order.order_id)
        self.spool.delete(episode.order.order_id)


def transactions(episodes: Sequence[Episode]) -> Mapping[str, Sequence[Entry]]:
    """Every kind of transaction that changes a table, and one that changes none, in a valid order."""
    first, second, third = episodes
    unknown = replace(second, outcome="unknown", cause="away", sha256="", ran_policy_id="", ticks=0)
    judged = {"campaign_id": "c1", "order_id": first.order.order_id, "outcome": "failure"}
    return {
        "tell": [("campaign started", {"campaign_id": "c1", "name": "life"})],
        "issue": [issued(*(episode.order for episode in episodes))],
        "end": [ended(first)],
        "end as unknown": [ended(unknown)],
        "find": [("orders found", ended(second)[1])],
        "judge": [("person judged", judged)],
        "several at once": [ended(third), ("gate decided", {"campaign_id": "c1", "why": "x" * 9000})],
    }


def live(home: Path) -> None:
    life = Life(home)
    pairs = [a_recording(an_order(), seed=seed) for seed in range(3)]
    pairs[2] = replace(pairs[2][0], pictures_sha256=hashlib.sha256(SEEN).hexdigest()), pairs[2][1]
    steps = transactions([episode for episode, _ in pairs])
    life.append(*steps["tell"])
    life.append(*steps["issue"])
    life.stage(pairs[0])
    life.put(pairs[0])
    life.append(*steps["end"])
    life.forget(pairs[0][0])
    life.stage(*pairs[1:])
    life.append(*steps["end as unknown"])
    life.put(*pairs[1:])
    life.append(*steps["find"])
    life.append(*steps["judge"])
    life.append(*steps["several at once"])
    life.ledger.close()
    life.spool.close()
    say("all done")


if __name__ == "__main__":
    try:
        live(Path(sys.argv[1]))
    except EnpireError as refused:
        print(refused, file=sys.stderr)
        sys.exit(1)
