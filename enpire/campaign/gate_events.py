"""Events of measurements and decisions: base, gates, confirmations, deployments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal, Self

from enpire.campaign.event_forms import OPTIONAL, EventBase, stored

if TYPE_CHECKING:
    from enpire.gate.gate import Decision


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseMeasured(EventBase):
    """The success of the base policy on hidden starts."""

    KIND: ClassVar[str] = "base measured"
    policy_id: str
    successes: int
    n: int
    low: float
    """Wilson 95 % interval of the success rate."""
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GateOpened(EventBase):
    """A gate begins: champion against candidate."""

    KIND: ClassVar[str] = "gate opened"
    gate_id: str
    champion: str
    candidate: str
    round: int
    k: int
    """Number of the gate in its campaign, from 1."""
    promoted: int
    """Promotions before this gate."""
    level: float = field(metadata=stored("alpha"))
    """Largest allowed probability of a false promotion by this gate (`enpire.gate.rule.level`)."""
    rule: Mapping[str, bool | int | float]
    """`enpire.gate.rule.GateRule`, fixed before the first pair; `enpire.gate.rule.stored_rule` reads it."""
    drop: float = field(default=0.0, metadata=OPTIONAL)
    """Success rate that the champion has lost against the best earlier champion (`enpire.gate.regression`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateDecided(EventBase):
    """A gate ends: its decision, and the numbers behind it (`enpire.gate.gate.Decision`)."""

    KIND: ClassVar[str] = "gate decided"
    gate_id: str
    champion: str
    candidate: str
    round: int
    decision: Literal["promote", "reject", "hold"]
    reason: str
    """The stored reason; `enpire.gate.reasons.reason_text` gives the words for readers."""
    pairs: int
    wins: int
    losses: int
    both: int
    neither: int
    faster: int
    slower: int
    champion_unsafe: int
    candidate_unsafe: int
    level: float
    log_need: float
    """Threshold of the log evidence, in nats."""
    log_e: float
    log_e_worse: float
    log_e_faster: float
    low: float
    """Confidence sequence of the difference in success rate, candidate minus champion."""
    high: float
    more: int | None
    """Further pairs that the decision needs: 0 for a decided gate."""
    gain: float | None = field(default=None, metadata=OPTIONAL)
    """Mean gain in time where both succeed; None for version 1 of the rule, like the next two."""
    champion_only_unsafe: int | None = field(default=None, metadata=OPTIONAL)
    candidate_only_unsafe: int | None = field(default=None, metadata=OPTIONAL)
    why: str = field(default="", metadata=OPTIONAL)
    """Why no station could run the candidate; empty otherwise."""

    @classmethod
    def of(cls, sides: GateSides, decision: Decision, why: str = "") -> Self:
        """The event of a final decision."""
        if decision.kind == "continue":
            raise ValueError(
                "The event 'gate decided' needs the decision promote, reject or hold, not continue; read more pairs."
            )
        tally = decision.tally
        new = decision.gain is not None
        return cls(
            gate_id=sides.gate_id, champion=sides.champion, candidate=sides.candidate, round=sides.round,
            decision=decision.kind, reason=decision.reason, pairs=tally.pairs, wins=tally.wins, losses=tally.losses,
            both=tally.both, neither=tally.neither, faster=tally.faster, slower=tally.slower,
            champion_unsafe=tally.champion_unsafe, candidate_unsafe=tally.candidate_unsafe, level=decision.level,
            log_need=decision.log_need, log_e=decision.log_e, log_e_worse=decision.log_e_worse,
            log_e_faster=decision.log_e_faster, low=decision.low, high=decision.high, more=decision.more, why=why,
            gain=decision.gain, champion_only_unsafe=tally.champion_only_unsafe if new else None,
            candidate_only_unsafe=tally.candidate_only_unsafe if new else None,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class GateSides:
    """A gate and the two versions that it compares."""

    gate_id: str
    champion: str
    candidate: str
    round: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmationOpened(EventBase):
    """A confirmation of the champion begins; its size is fixed here."""

    KIND: ClassVar[str] = "confirm opened"
    policy_id: str
    n: int
    """Fresh starts."""
    goal: float
    """The success rate to reach, in [0, 1]."""
    by: Literal["rate", "bound"] = field(default="rate", metadata=OPTIONAL)
    """Figure that must reach the goal: the measured rate, or its exact one-sided 95 % lower bound."""
    commands: int = field(default=0, metadata=OPTIONAL)
    """Largest allowed median number of commands of the successes; 0: no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmed(EventBase):
    """A confirmation ends, passed or not."""

    KIND: ClassVar[str] = "confirmed"
    policy_id: str
    successes: int
    n: int
    low: float
    """Wilson 95 % interval of the success rate."""
    high: float
    passed: bool
    reissued: int | None = field(default=None, metadata=OPTIONAL | stored("given_again"))
    """Interrupted trials that were reissued; None where an older ENPIRE did not record it."""
    median: float | None = field(default=None, metadata=OPTIONAL)
    """Median number of commands of the successes; None without successes and where an older ENPIRE recorded none."""
    median_low: int | None = field(default=None, metadata=OPTIONAL)
    """Exact 95 % interval of the median (`enpire.gate.median`); None for fewer than six successes."""
    median_high: int | None = field(default=None, metadata=OPTIONAL)
    limit_ticks: int = field(default=0, metadata=OPTIONAL)
    """Time limit of the task, in commands, within which a success succeeded; 0 if not recorded."""


PROMOTED_BY = "promoted by "
"""Begins the reason of a version that an operator made the champion; their name follows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployed(EventBase):
    """A version becomes the champion; stations load it and switch between two episodes."""

    KIND: ClassVar[str] = "deployed"
    policy_id: str
    previous: str
    """The previous champion; empty for the base."""
    reason: str
    round: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RolledBack(EventBase):
    """An earlier version becomes the champion again."""

    KIND: ClassVar[str] = "rolled back"
    policy_id: str
    """The champion that is replaced."""
    to: str
    """The version that becomes the champion again."""
    reason: str


GateEvent = BaseMeasured | GateOpened | GateDecided | ConfirmationOpened | Confirmed | Deployed | RolledBack
