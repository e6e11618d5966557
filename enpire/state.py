"""Where a campaign stands: the fold of its events, and nothing else.

The loop never changes this by hand. It appends an event to the ledger and folds the same event in here, so a campaign
that was killed stands, after its events are folded again, exactly where its last durable event left it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from enpire.types import Episode, Order, OutcomeKind

JUDGED: frozenset[OutcomeKind] = frozenset({"success", "failure", "unsafe"})
"""Outcomes that a verdict gave."""


@dataclass(slots=True)
class Count:
    """Successes among trials."""

    successes: int = 0
    n: int = 0

    def add(self, success: bool) -> None:
        """Count one more."""
        self.successes += success
        self.n += 1

    @property
    def rate(self) -> float:
        """Successes per trial, 0 without trials."""
        return self.successes / self.n if self.n else 0.0


@dataclass(slots=True)
class Side:
    """How one side of a pair ended."""

    outcome: OutcomeKind
    ticks: int


@dataclass(slots=True)
class OpenGate:
    """A comparison that is going on."""

    gate_id: str
    champion: str
    candidate: str
    round: int
    k: int
    level: float
    issued: int = 0
    """Pairs that were ordered."""
    ended: dict[int, dict[str, Side]] = field(default_factory=dict)
    """pair -> side -> how it ended."""

    def settled(self) -> list[tuple[Side, Side]]:
        """(champion, candidate) of the pairs 0, 1, … up to the first that has not ended on both sides.

        In the order of issue, so that how long a trial took cannot choose which evidence is read first.
        """
        pairs: list[tuple[Side, Side]] = []
        while len(sides := self.ended.get(len(pairs), {})) == 2:
            pairs.append((sides["champion"], sides["candidate"]))
        return pairs


@dataclass(slots=True)
class Confirmation:
    """A confirmation that is going on."""

    policy_id: str
    n: int
    issued: int = 0
    ended: Count = field(default_factory=Count)


@dataclass(slots=True)
class Training:
    """A learner that is at work."""

    job: str
    parent: str
    round: int
    recipe_hash: str
    data_hash: str
    body: Mapping[str, object]


@dataclass(slots=True)
class CampaignState:
    """Everything that the steps decide on."""

    campaign_id: str = ""
    round: int = 0
    """Rounds of improvement begun; 0 while the base is made."""
    champion: str = ""
    champions: list[str] = field(default_factory=list)
    """Every version that was deployed, oldest first."""
    open: dict[str, Order] = field(default_factory=dict)
    """Orders without an outcome, by id."""
    outcomes: Counter[str] = field(default_factory=Counter)
    demonstrations: int = 0
    """Successful demonstrations so far."""
    fresh: int = 0
    """Judged episodes of data collection that no learner has seen."""
    issued_collect: int = 0
    base: Count = field(default_factory=Count)
    base_policy: str = ""
    base_issued: int = 0
    base_measured: bool = False
    practice: dict[int, Count] = field(default_factory=dict)
    """Train start -> how the last policies did on it."""
    collected: dict[str, Count] = field(default_factory=dict)
    """Version -> its collection on uniformly drawn train starts."""
    trials: dict[str, Count] = field(default_factory=dict)
    """Version -> its trials on hidden starts, in gates."""
    training: Training | None = None
    failures_in_a_row: int = 0
    """Training runs that failed since the last that did not."""
    candidates: list[tuple[str, int]] = field(default_factory=list)
    """(version, round) waiting for a gate."""
    gate: OpenGate | None = None
    gates: int = 0
    promoted: int = 0
    confirmation: Confirmation | None = None
    confirmed: dict[str, bool] = field(default_factory=dict)
    """Version -> whether its confirmation passed."""
    lease: int = 0
    """The highest fence token that was given."""
    wall_s: float = 0.0
    """Wall clock of the sessions before this one."""
    session_s: float = 0.0
    robot_s: float = 0.0
    robot_session_s: float = 0.0
    paused: bool = False
    ended: bool = False

    def apply(self, kind: str, body: Mapping[str, object]) -> None:
        """Fold one event in; kinds that do not move the campaign are passed over."""
        handler = _HANDLERS.get(kind)
        if handler is not None:
            handler(self, body)

    def issue(self, order: Order) -> None:
        """An order was written."""
        self.open[order.order_id] = order
        if order.purpose == "gate" and self.gate is not None and order.gate_id == self.gate.gate_id:
            self.gate.issued = max(self.gate.issued, order.pair + 1)
        elif order.purpose == "confirm" and self.confirmation is not None:
            self.confirmation.issued += 1
        elif order.purpose == "base":
            self.base_issued += 1
        elif order.purpose == "collect":
            self.issued_collect += 1

    def end(self, episode: Episode) -> None:
        """An order got its outcome."""
        order = self.open.pop(episode.order.order_id, episode.order)
        success = episode.outcome == "success"
        self.outcomes[episode.outcome] += 1
        if order.purpose == "demonstrate":
            self.demonstrations += success
        elif order.purpose == "collect" and episode.outcome in JUDGED:
            self.fresh += 1
            self._practise(order, success)
        elif order.purpose == "base":
            self.base.add(success)
        elif order.purpose == "gate":
            self._trial(order, episode)
        elif order.purpose == "confirm" and self.confirmation is not None:
            self.confirmation.ended.add(success)

    def _practise(self, order: Order, success: bool) -> None:
        count = self.practice.setdefault(order.start.index, Count())
        if count.n >= 4:
            count.successes, count.n = count.successes // 2, count.n // 2
        count.add(success)
        if not order.start.index % 2:
            self.collected.setdefault(order.policy_id, Count()).add(success)

    def _trial(self, order: Order, episode: Episode) -> None:
        if self.gate is None or order.gate_id != self.gate.gate_id:
            return
        self.trials.setdefault(order.policy_id, Count()).add(episode.outcome == "success")
        side = Side(outcome=episode.outcome, ticks=episode.ticks)
        self.gate.ended.setdefault(order.pair, {})[order.side] = side

    # One method per kind of event that moves the campaign.

    def _started(self, body: Mapping[str, object]) -> None:
        self.campaign_id = _text(body, "campaign_id")

    def _resumed(self, body: Mapping[str, object]) -> None:
        self.wall_s, self.session_s = self.wall_s + self.session_s, 0.0
        self.robot_s, self.robot_session_s = self.robot_s + self.robot_session_s, 0.0
        self.ended = False

    def _robot_time(self, body: Mapping[str, object]) -> None:
        self.session_s = _number(body, "wall_s")
        self.robot_session_s = _number(body, "robot_s")

    def _joined(self, body: Mapping[str, object]) -> None:
        self.lease = max(self.lease, int(_number(body, "lease")))

    def _learning(self, body: Mapping[str, object]) -> None:
        self.training = Training(
            job=_text(body, "job"), parent=_text(body, "parent"), round=int(_number(body, "round")),
            recipe_hash=_text(body, "recipe_hash"), data_hash=_text(body, "data_hash"), body=body,
        )  # fmt: skip
        self.round = max(self.round, self.training.round)
        self.fresh = 0

    def _learned(self, body: Mapping[str, object]) -> None:
        self.training, self.failures_in_a_row = None, 0
        version = _text(body, "policy_id")
        if self.champion:
            self.candidates.append((version, int(_number(body, "round"))))

    def _not_learned(self, body: Mapping[str, object]) -> None:
        self.training, self.failures_in_a_row = None, self.failures_in_a_row + 1

    def _base_measured(self, body: Mapping[str, object]) -> None:
        self.base_measured = True

    def _gate_opened(self, body: Mapping[str, object]) -> None:
        self.gates = int(_number(body, "k"))
        candidate = _text(body, "candidate")
        self.candidates = [item for item in self.candidates if item[0] != candidate]
        self.gate = OpenGate(
            gate_id=_text(body, "gate_id"), champion=_text(body, "champion"), candidate=candidate,
            round=int(_number(body, "round")), k=self.gates, level=_number(body, "alpha"),
        )  # fmt: skip

    def _gate_decided(self, body: Mapping[str, object]) -> None:
        self.gate = None
        self.promoted += body["decision"] == "promote"

    def _deployed(self, body: Mapping[str, object]) -> None:
        self.champion = _text(body, "policy_id")
        self.champions.append(self.champion)
        self.base_policy = self.base_policy or self.champion

    def _rolled_back(self, body: Mapping[str, object]) -> None:
        self.champion = _text(body, "to")
        self.champions.append(self.champion)
        self.candidates, self.gate, self.confirmation = [], None, None

    def _confirming(self, body: Mapping[str, object]) -> None:
        self.confirmation = Confirmation(policy_id=_text(body, "policy_id"), n=int(_number(body, "n")))

    def _confirmed(self, body: Mapping[str, object]) -> None:
        self.confirmation = None
        self.confirmed[_text(body, "policy_id")] = bool(body["passed"])

    def _paused(self, body: Mapping[str, object]) -> None:
        self.paused = True

    def _continued(self, body: Mapping[str, object]) -> None:
        self.paused = False

    def _ended(self, body: Mapping[str, object]) -> None:
        self.ended = True


_HANDLERS = {
    "campaign started": CampaignState._started,
    "campaign resumed": CampaignState._resumed,
    "campaign paused": CampaignState._paused,
    "campaign continued": CampaignState._continued,
    "campaign ended": CampaignState._ended,
    "robot time": CampaignState._robot_time,
    "station joined": CampaignState._joined,
    "learner started": CampaignState._learning,
    "learner ended": CampaignState._learned,
    "learner failed": CampaignState._not_learned,
    "base measured": CampaignState._base_measured,
    "gate opened": CampaignState._gate_opened,
    "gate decided": CampaignState._gate_decided,
    "deployed": CampaignState._deployed,
    "rolled back": CampaignState._rolled_back,
    "confirm opened": CampaignState._confirming,
    "confirmed": CampaignState._confirmed,
}


def _text(body: Mapping[str, object], key: str) -> str:
    return str(body[key])


def _number(body: Mapping[str, object], key: str) -> float:
    return float(cast("float", body[key]))
