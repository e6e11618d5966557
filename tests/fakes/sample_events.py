"""Events for tests, from their stored form; what a test does not name is empty or 0."""

from __future__ import annotations

import dataclasses
import functools
import json
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from enpire.campaign.event_forms import EventBase
from enpire.campaign.event_upgrades import UPGRADES
from enpire.campaign.events import Event, LedgerEntry, classes, read_event
from enpire.campaign.ledger import Ledger
from enpire.campaign.recipe import Recipe
from enpire.lab import Lab
from enpire.store.entries import canonical
from enpire.types import Hypothesis

Entry = tuple[str, Mapping[str, Any]]
"""(kind, stored body, whole or in part)."""


def event(kind: str, /, **body: Any) -> Event:
    """An event of a kind, as the ledger would read it back."""
    written = json.loads(canonical({key: value for key, value in body.items() if key != "campaign_id"}))
    cls = classes().get(kind)
    written = UPGRADES.get(kind, dict)(written)
    return read_event(kind, {**written, **_missing(cls, written)} if cls is not None else written)


def append(ledger: Ledger, entries: Iterable[Entry | Event], campaign_id: str = "") -> Sequence[LedgerEntry]:
    """Append events in one transaction; of the campaign that one of the bodies names."""
    entries = list(entries)
    named = {
        str(entry[1]["campaign_id"]) for entry in entries if isinstance(entry, tuple) and "campaign_id" in entry[1]
    }
    assert len(named | ({campaign_id} if campaign_id else set())) <= 1, "a transaction is of one campaign"
    events = [event(entry[0], **entry[1]) if isinstance(entry, tuple) else entry for entry in entries]
    return ledger.append(events, campaign_id or next(iter(named), ""))


def write(lab: Lab, *entries: Entry | Event) -> None:
    """Append events of the lab's campaign and apply them."""
    lab.write(*(event(entry[0], **entry[1]) if isinstance(entry, tuple) else entry for entry in entries))


@functools.cache
def _hints(cls: type[EventBase]) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def _missing(cls: type[EventBase], body: Mapping[str, object]) -> dict[str, Any]:
    """The keys that a body lacks, and a recipe with what it lacks."""
    found: dict[str, Any] = {}
    hints = _hints(cls)
    for field in dataclasses.fields(typing.cast("Any", cls)):
        key = str(field.metadata.get("key", field.name))
        if key not in body and not field.metadata.get("optional"):
            found[key] = _empty(hints[field.name])
        elif key in body and hints[field.name] in (Recipe, Recipe | None):
            found[key] = {**_empty(Recipe), **typing.cast("dict[str, Any]", body[key])}
    return found


def _empty(hint: Any) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Recipe:
        return {"name": "", "learner": "", "settings": {}}
    if hint is Hypothesis:
        return dict.fromkeys(Hypothesis.__dataclass_fields__, "") | {"kind": "draft", "parents": []}
    if origin is typing.Literal:
        return arguments[0]
    if origin is types.UnionType:
        return None if types.NoneType in arguments else _empty(arguments[0])
    return [] if origin is tuple else {} if origin is not None else hint()
