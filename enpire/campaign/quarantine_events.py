"""Events of the quarantine: an experiment that looks dishonest opens no gate until a person clears it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from enpire.campaign.event_forms import OPTIONAL, EventBase

Tripwire = Literal[
    "canary", "displacement", "speed", "critic", "gate gap", "probe", "flood", "forged lane", "operator", "approval",
    "promotion approval",
]  # fmt: skip
"""canary: a text appeared that only a forbidden file holds. displacement: a success in which nothing moved. speed: a
success faster than the robot can move. critic: a success whose end is unlike every known success. gate gap: success on
hidden starts is far below that of the search. probe: code asked for the clock, the environment or the harness. flood:
its session left more requests than the lab's tools leave. forged lane: it left one in the name of another session.
operator: a person asked for the quarantine. approval, promotion approval: by `approvals` of the campaign file, an
experiment of an agent, or a candidate before its gate, waits for a person."""
APPROVALS: tuple[Tripwire, ...] = ("approval", "promotion approval")
"""Nothing is suspected: the campaign file asks a person to approve."""
DOUBTED: frozenset[Tripwire] = frozenset({"displacement", "speed", "critic", "gate gap"})
"""The successes of its versions are doubted, not what its session wrote or sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfSubject(EventBase):
    experiment_id: str
    """Empty for a candidate of the campaign's own rounds."""
    policy_id: str
    """The version that tripped; empty where none was made yet."""

    @property
    def subject(self) -> str:
        """The experiment, or the version where no experiment made it: the id that an operator names."""
        return self.experiment_id or self.policy_id


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeSuspected(_OfSubject):
    """A success that a tripwire does not believe. Enough of them trip it (`enpire.campaign.quarantine`)."""

    KIND: ClassVar[str] = "episode suspected"
    order_id: str
    tripwire: Tripwire
    why: str
    """One sentence with the measured numbers."""
    successes: int = field(default=0, metadata=OPTIONAL)
    """Successes of the subject so far, believed or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentQuarantined(_OfSubject):
    """An experiment, with all its versions, opens no gate and is not promoted until a person clears it."""

    KIND: ClassVar[str] = "experiment quarantined"
    tripwire: Tripwire
    why: str
    """One sentence with the evidence."""
    by: str = field(default="", metadata=OPTIONAL)
    """The operator; empty for a tripwire."""
    episodes: tuple[str, ...] = field(default=(), metadata=OPTIONAL)
    """The episodes that are the evidence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentCleared(_OfSubject):
    """A person ends what they saw of a quarantine. Those tripwires do not hold this experiment again."""

    KIND: ClassVar[str] = "experiment cleared"
    by: str
    reason: str
    tripwires: tuple[Tripwire, ...]
    """Those that had tripped when the person looked."""
    still: tuple[Tripwire, ...] = field(default=(), metadata=OPTIONAL)
    """Those that tripped after the person had looked; they hold it still."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneSuspected(EventBase):
    """An agent session left what no tool of the lab leaves. Its experiments are held until a person clears one."""

    KIND: ClassVar[str] = "lane suspected"
    author: str
    lane: str
    tripwire: Tripwire
    why: str
    """One sentence with the evidence."""


QuarantineEvent = EpisodeSuspected | ExperimentQuarantined | ExperimentCleared | LaneSuspected
