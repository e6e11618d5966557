"""Comparison of a recorded decision with the decision recomputed from the records of orders and episodes."""

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
    """Comparison of one recorded decision with the recomputed one."""

    seq: int
    """Number of the event that recorded the decision."""
    kind: str
    subject: str
    """Id of the experiment, gate, version or campaign."""
    sentence: str
    """The recomputed numbers, and where the ledger differs from them."""
    equal: bool


def compared(seq: int, event: Audited, again: Audited, sentence: str, strange: Sequence[str] = ()) -> Check:
    """Compare a recorded event with the recomputed one; floats may differ by 1e-9 (relative or absolute)."""
    written, recorded = event.body(), again.body()
    wrong = [
        f"the ledger has {name} = {written.get(name)!r}, the records give {value!r}"
        for name, value in recorded.items()
        if not _same(written.get(name), value)
    ]
    sentence = "; ".join([sentence, *wrong, *strange])
    equal = not wrong and not strange
    return Check(seq=seq, kind=event.KIND, subject=_subject(event), sentence=sentence, equal=equal)


def differs(seq: int, event: Audited, why: str) -> Check:
    """The check of a decision that cannot be recomputed from the records."""
    return Check(seq=seq, kind=event.KIND, subject=_subject(event), sentence=why, equal=False)


def _subject(event: Audited) -> str:
    """Id of the experiment, gate or version of a decision."""
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
