"""Search in a few hundred texts, ranked by BM25; every query builds a full-text index of SQLite in memory."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import closing

from enpire.errors import UsageError
from enpire.store.connection import run, scratch


def ranked(texts: Sequence[str], words: str, most: int) -> list[int]:
    """Indices of the texts that contain any of the words, best match first.

    Raises:
        UsageError: `words` contains no word.
    """
    wanted = list(dict.fromkeys(re.findall(r"\w+", words.lower())))
    if not wanted:
        raise UsageError("`words` contains no word; give at least one.")
    with closing(scratch()) as database:
        run(database, "CREATE VIRTUAL TABLE texts USING fts5(text, tokenize = 'porter unicode61')")
        database.executemany("INSERT INTO texts (rowid, text) VALUES (?, ?)", enumerate(texts))
        sought = " OR ".join(f'"{word}"' for word in wanted)
        found = run(database, "SELECT rowid FROM texts WHERE texts MATCH ? ORDER BY rank LIMIT ?", (sought, most))
        return [int(row[0]) for row in found]
