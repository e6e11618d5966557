"""Comparison of a recorded decision with the decision recomputed from the records of orders and episodes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from enpire.campaign.agent_events import ExperimentDecided
from enpire.campaign.branch_events import BranchDecision, BranchEnded, BranchEnteredGate, BranchEvent, RoundsHandedOver
from enpire.campaign.branches import Branches
from enpire.campaign.gate_events import GateDecided, GateEvent, GateOpened
from enpire.queries.models import weighed
from enpire.types import Json
from enpire.wording import counted

if TYPE_CHECKING:
    from enpire.gate.gate import Decision

Audited = GateEvent | ExperimentDecided | BranchEvent


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


def branch_check(seq: int, event: BranchDecision, branches: Branches) -> Check:
    """Compare the numbers of a decided branch with its search rollouts in the records up to this event."""
    branch = branches.by_experiment.get(event.experiment_id)
    if branch is None:
        return differs(seq, event, "this branch was never opened")
    again = replace(event, **asdict(branches.measure(branch, event.limit_ticks)))
    strange: list[str] = []
    if isinstance(event, BranchEnteredGate) and again.gain <= 0:
        strange.append("the version showed no gain")
    is_same = branch.newest == branches.champion or branches.twin(branch) is not None
    if isinstance(event, BranchEnded) and event.reason == "same actions" and not is_same:
        strange.append("no earlier branch acts the same, and its newest version is not the champion")
    if isinstance(event, BranchEnded) and event.reason in ("no tokens left", "no money left"):
        tokens, money = branch.spent.tokens, branch.spent.budgeted_money
        if event.tokens != tokens or not _same(event.money, money):
            strange.append(f"by the records its session used {tokens} tokens and {money:g} of money for it")
    sentence = f"gain {again.gain:+.3f} [{again.low:+.3f}, {again.high:+.3f}] on {again.n} starts"
    return compared(seq, event, again, sentence, strange)


def hand_over_check(seq: int, event: RoundsHandedOver, branches: Branches) -> Check:
    """Compare a hand-over with the gates of the rounds in the records up to this event."""
    rounds = branches.hand_over
    again = replace(event, policy_id=branches.champion, round=rounds.round, without_gain=rounds.without_gain)
    strange = [] if rounds.waits else ["robots acted for branches before"]
    if event.reason == "stalled" and not rounds.stalled:
        strange.append(f"the campaign hands over after {rounds.after}")
    if event.reason == "no round left" and rounds.round < rounds.most_rounds:
        strange.append(f"the campaign has {rounds.most_rounds} rounds")
    sentence = f"{counted(again.without_gain, 'round')} in a row without more success"
    return compared(seq, event, again, sentence, strange)


def differs(seq: int, event: Audited, why: str) -> Check:
    """The check of a decision that cannot be recomputed from the records."""
    return Check(seq=seq, kind=event.KIND, subject=_subject(event), sentence=why, equal=False)


def in_numbers(decision: Decision) -> str:
    """The numbers of a decision, with the log evidence of its reason."""
    tally = decision.tally
    evidence: float = getattr(decision, weighed(decision.reason))
    return (
        f"{decision.kind} ({decision.reason}) after {tally.pairs} pairs: {tally.wins} won, {tally.losses} lost, "
        f"{tally.faster} faster, {tally.slower} slower, log evidence {evidence:.2f} "
        f"(threshold to promote {decision.log_need:.2f})"
    )


def _subject(event: Audited) -> str:
    """Id of the experiment, gate or version of a decision."""
    match event:
        case ExperimentDecided() | BranchEnteredGate() | BranchEnded():
            return event.experiment_id
        case GateOpened() | GateDecided():
            return event.gate_id
        case _:
            return event.policy_id


def _same(written: Json, again: Json) -> bool:
    if isinstance(again, float) and isinstance(written, (int, float)) and not isinstance(written, bool):
        return math.isclose(written, again, rel_tol=1e-9, abs_tol=1e-9)
    return written == again and isinstance(written, bool) == isinstance(again, bool)
