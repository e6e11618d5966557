"""One recorded decision against the same decision as the records give it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from enpire.campaign.agent_events import ExperimentDecided
from enpire.campaign.gate_events import GateDecided, GateEvent, GateOpened
from enpire.types import Json

Audited = GateEvent | ExperimentDecided


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One decision, as it was written and as it comes out again."""

    seq: int
    """The event that wrote it."""
    kind: str
    subject: str
    """Which gate, version or campaign."""
    sentence: str
    """The numbers: what came out again, and where the ledger differs."""
    equal: bool


def compared(seq: int, event: Audited, again: Audited, sentence: str, strange: Sequence[str] = ()) -> Check:
    """Compare an event with the same event as the records give it; numbers may differ in their last bits (1e-9)."""
    written, recorded = event.body(), again.body()
    wrong = [
        f"the ledger says {name} = {written.get(name)!r}, the records {value!r}"
        for name, value in recorded.items()
        if not _same(written.get(name), value)
    ]
    sentence = "; ".join([sentence, *wrong, *strange])
    equal = not wrong and not strange
    return Check(seq=seq, kind=event.KIND, subject=_subject(event), sentence=sentence, equal=equal)


def differs(seq: int, event: Audited, why: str) -> Check:
    """A decision that the records cannot give at all."""
    return Check(seq=seq, kind=event.KIND, subject=_subject(event), sentence=why, equal=False)


def _subject(event: Audited) -> str:
    """Which experiment, gate or version a decision is about."""
    match event:
        case ExperimentDecided():
            return event.experiment_id
        case GateOpened() | GateDecided():
            return event.gate_id
        case _:
            return event.policy_id


def _same(written: Json, again: Json) -> bool:
    if isinstance(again, float) and isinstance(written, (int, float)) and not isinstance(written, bool):
        return math.isclose(written, again, rel_tol=1e-9, abs_tol=1e-9)
    return written == again and isinstance(written, bool) == isinstance(again, bool)
