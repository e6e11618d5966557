"""Conversion between a row of the ledger's events table and a typed LedgerEntry."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import cast

from enpire.campaign.events import Event, LedgerEntry, UnknownEvent, read_event
from enpire.errors import FileProblem, LedgerProblem
from enpire.files import is_json_object
from enpire.types import Json

COLUMNS = "seq, stamp_ns, kind, campaign_id, body, previous, hash"
"""Columns of the events table, in the order that `entry_from` reads."""


def entry_from(row: Sequence[object], shown_only: bool = False) -> LedgerEntry:
    """The entry of a row of `COLUMNS`.

    Raises:
        LedgerProblem: the body is not JSON, or does not fit its kind. With `shown_only`, JSON that does not fit its
            kind gives an UnknownEvent instead.
    """
    try:
        return read_entry(row)
    except FileProblem as error:
        if shown_only and (content := _content(row)) is not None:
            return _entry(row, UnknownEvent(kind=str(row[2]), content=content))
        raise LedgerProblem(
            f"Event {row[0]} of the ledger is damaged, or newer than this version: {error} Restore the ledger from a "
            "copy, or use the version of ENPIRE that wrote it."
        ) from error


def read_entry(row: Sequence[object]) -> LedgerEntry:
    """The entry of a row of `COLUMNS`; FileProblem when its body cannot be read."""
    content = _content(row)
    if content is None:
        raise FileProblem("its body is not a JSON object.")
    return _entry(row, read_event(str(row[2]), content))


def _content(row: Sequence[object]) -> dict[str, Json] | None:
    try:
        content: object = json.loads(str(row[4]))
    except ValueError:
        return None
    return content if is_json_object(content) else None


def _entry(row: Sequence[object], event: Event) -> LedgerEntry:
    seq, stamp_ns, kind, campaign_id, text, previous, digest = row
    return LedgerEntry(
        seq=cast("int", seq), stamp_ns=cast("int", stamp_ns), campaign_id=str(campaign_id), kind=str(kind),
        text=str(text), event=event, previous=str(previous), hash=str(digest),
    )  # fmt: skip


def stored_text(event: Event, campaign_id: str) -> str:
    """The stored body of an event; LedgerProblem when it is not plain JSON or has the key `campaign_id`."""
    body = event.body()
    if "campaign_id" in body:
        raise LedgerProblem(f"The body of an event cannot be {body!r}: give the campaign to `append`, not in the body.")
    return canonical({"campaign_id": campaign_id, **body} if campaign_id else body)


def canonical(body: Mapping[str, Json]) -> str:
    """The canonical JSON of a body: sorted keys, no spaces, ASCII; LedgerProblem when it is not plain JSON."""
    try:
        return json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise LedgerProblem(f"The body of an event must be plain JSON with finite numbers: {error}.") from error
