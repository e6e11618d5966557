"""Events of agents: their sessions, their proposals, and the results of these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from enpire.campaign.event_forms import OPTIONAL, EventBase, stored
from enpire.campaign.recipe import Recipe
from enpire.types import Hypothesis

EdgeKind = Literal["inspired_by", "adopts", "refutes", "supersedes"]
"""Links between hypotheses in addition to `Hypothesis.parents`."""
Kept = Literal["keep", "revert", "inconclusive"]
Mark = Literal["rejected", "pinned", ""]
"""rejected: no experiment may test it. pinned: its experiments are tried before the others. Empty: neither."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """A link between hypotheses that is not a parent."""

    kind: EdgeKind
    to: str
    """hypothesis_id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfRequest(EventBase):
    """Base of events that answer a request: the request and the agent that sent it."""

    request_id: str = field(metadata=stored("wish_id"))
    author: str
    """Plug-in name of the agent."""
    lane: str
    """The agent session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeDeclared(EventBase):
    """The campaign's recipe with the search space that agents may use."""

    KIND: ClassVar[str] = "recipe declared"
    recipe: Recipe
    recipe_hash: str
    regime: str = field(default="", metadata=OPTIONAL)
    """Its name among the recipes of branches; empty for the campaign's own recipe."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HypothesisProposed(OfRequest):
    """An agent states a hypothesis."""

    KIND: ClassVar[str] = "hypothesis proposed"
    hypothesis: Hypothesis
    effect: str
    """The effect that the author expects."""
    edges: tuple[Edge, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HypothesisMarked(EventBase):
    """An operator rejects or pins a hypothesis, or withdraws that."""

    KIND: ClassVar[str] = "hypothesis marked"
    hypothesis_id: str
    mark: Mark
    by: str
    reason: str = field(default="", metadata=OPTIONAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillFile:
    """One file `skills/NAME.py` of a code candidate."""

    name: str
    sha256: str
    """Of its text."""
    about: str = ""
    """First line of its docstring, shortened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentSubmitted(OfRequest):
    """An agent asks to have a change of the recipe tried."""

    KIND: ClassVar[str] = "experiment submitted"
    experiment_id: str
    hypothesis_id: str
    changes: Mapping[str, bool | int | float | str]
    """Setting -> its new value."""
    champion: str
    recipe: Recipe | None = field(default=None, metadata=OPTIONAL)
    """The whole changed recipe; None where the changes were refused."""
    recipe_hash: str = field(default="", metadata=OPTIONAL)
    regime: str = field(default="", metadata=OPTIONAL)
    """The recipe of branches that the changes were made to; empty: the recipe in force."""
    parent_experiment: str = field(default="", metadata=OPTIONAL)
    """The experiment whose branch this one continues; empty: it starts from the champion."""
    commit: str = field(default="", metadata=OPTIONAL)
    """Of a code candidate: its commit in the repository of the home, under refs/experiments/EXPERIMENT."""
    sandbox: str = field(default="", metadata=OPTIONAL)
    """Of a code candidate: where its code runs, `bubblewrap` or `none`."""
    form: str = field(default="", metadata=OPTIONAL)
    """Of a code candidate: a hash of what its code means (`enpire.code_candidates.sameness`)."""
    turn_rollouts: int = field(default=0, metadata=OPTIONAL)
    """Rollouts between two training runs of its branch; 0: the campaign has no branches."""
    rerun_of: str = field(default="", metadata=OPTIONAL)
    """The experiment that an operator asked to have tried again; empty for a new one."""
    skills: tuple[SkillFile, ...] = field(default=(), metadata=OPTIONAL)
    """Of a code candidate: its skills; empty in older ledgers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentChecked(OfRequest):
    """The changes lie in the search space; the experiment waits for the learner."""

    KIND: ClassVar[str] = "experiment checked"
    experiment_id: str
    hypothesis_id: str
    recipe_hash: str
    in_force: str
    """Hash of the recipe that the changes were made to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentRefused(OfRequest):
    """The changes are not allowed, or were tried before."""

    KIND: ClassVar[str] = "experiment refused"
    experiment_id: str
    hypothesis_id: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentCancelled(OfRequest):
    """The author gives up an experiment that still waits."""

    KIND: ClassVar[str] = "experiment cancelled"
    experiment_id: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentDecided(EventBase):
    """The result of an experiment, from the decision of its gate."""

    KIND: ClassVar[str] = "experiment decided"
    experiment_id: str
    hypothesis_id: str
    policy_id: str
    gate_id: str
    recipe_hash: str
    decision: Kept
    reason: str
    """The gate's reason."""
    pairs: int
    delta: float
    """Observed difference in success rate, candidate minus champion."""
    low: float
    """Confidence sequence of that difference."""
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentAdopted(OfRequest):
    """An agent builds on an experiment of another session."""

    KIND: ClassVar[str] = "experiment adopted"
    experiment_id: str
    hypothesis_id: str
    commit: str = field(default="", metadata=OPTIONAL)
    """Of a code candidate: the commit from which the next folder of the session starts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeReverted(OfRequest):
    """The next folder of an agent session starts from an earlier commit."""

    KIND: ClassVar[str] = "code reverted"
    commit: str
    left: str
    """The commit that it continued before."""


ExperimentEvent = (
    RecipeDeclared | HypothesisProposed | ExperimentSubmitted | ExperimentChecked | ExperimentRefused
    | ExperimentCancelled | ExperimentDecided | ExperimentAdopted | HypothesisMarked
    | CodeReverted
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentStarted(EventBase):
    """The process of an agent session starts."""

    KIND: ClassVar[str] = "agent started"
    VERSION: ClassVar[int] = 2
    lane: str
    agent: str
    start: int
    """Number of starts in this session of the campaign."""
    sandbox: str
    """bubblewrap or none; empty where version 1 of this event did not record it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentEnded(EventBase):
    """The process of an agent session ended by itself."""

    KIND: ClassVar[str] = "agent ended"
    lane: str
    agent: str
    why: str
    again: bool
    """Whether the campaign starts it again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConclusionPosted(OfRequest):
    """An agent posts a conclusion for the other agents."""

    KIND: ClassVar[str] = "finding posted"
    conclusion_id: str = field(metadata=stored("finding_id"))
    text: str
    about: str
    """experiment_id or hypothesis_id; empty for a general conclusion."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenUp(OfRequest):
    """An agent gives up an experiment, a hypothesis or all of its work."""

    KIND: ClassVar[str] = "given up"
    about: str
    """experiment_id or hypothesis_id; empty: all of its work."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneFinished(OfRequest):
    """An agent session ends its work for good."""

    KIND: ClassVar[str] = "lane finished"
    text: str
    """The summary of its work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BriefRead(OfRequest):
    """An agent read its brief."""

    KIND: ClassVar[str] = "brief read"
    sha256: str
    size: int
    """Bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokensSpent(OfRequest):
    """Tokens of a language model as an agent reports them. The model gateway counts for itself (`ModelCalled`)."""

    KIND: ClassVar[str] = "tokens spent"
    fresh: int
    cached: int
    output: int
    model: str
    cache_write: int = field(default=0, metadata=OPTIONAL)
    self_reported: bool = field(default=False, metadata=OPTIONAL)
    """False in ledgers of earlier versions, whose agent copied the provider's count of each call."""

    @property
    def total(self) -> int:
        """All its tokens."""
        return self.fresh + self.cached + self.cache_write + self.output


CallOutcome = Literal["answered", "failed", "lost"]
"""answered: to its end, with the provider's count. failed: the provider refused it, at no cost. lost: it was sent, and
its end or its count did not arrive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCalled(EventBase):
    """One call of a language model through the model gateway, with the tokens that the provider counted."""

    KIND: ClassVar[str] = "model called"
    call_id: str
    author: str
    """Plug-in name of the agent."""
    lane: str
    """The agent session."""
    provider: str
    endpoint: str
    """messages, chat or responses."""
    model: str
    """As the provider named it; as the agent asked for it where no answer came."""
    outcome: CallOutcome
    status: int
    """HTTP status of the provider; 0 if none arrived."""
    fresh: int
    """Input tokens that the provider neither read from its cache nor wrote into it."""
    cache_read: int
    cache_write: int
    output: int
    bound: int
    """Most tokens that the call could cost. Of a lost call they count for the budgets."""
    money: float | None
    """Cost by the price file; None: it has no price for this call."""
    currency: str = field(default="", metadata=OPTIONAL)
    price: str = field(default="", metadata=OPTIONAL)
    """The entry of the price file: models, first day, source."""
    bound_money: float | None = field(default=None, metadata=OPTIONAL)
    """The same in money; None: not known."""
    seconds: float = field(default=0.0, metadata=OPTIONAL)
    request: str = field(default="", metadata=OPTIONAL)
    """Hash of what was asked, by which the model gateway knows a call that is made again."""

    @property
    def counted(self) -> int:
        """Tokens that the provider counted, as far as its count arrived."""
        return self.fresh + self.cache_read + self.cache_write + self.output

    @property
    def tokens(self) -> int:
        """Tokens that count for budgets."""
        return max(self.counted, self.bound) if self.outcome == "lost" else self.counted

    @property
    def spent(self) -> float:
        """Money that counts for budgets: the cost, or the most that it could be; 0 where neither is known."""
        return (self.bound_money if self.money is None else self.money) or 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTurned(OfRequest):
    """An agent describes one turn of its work."""

    KIND: ClassVar[str] = "agent turned"
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRefused(EventBase):
    """A request of an agent is refused. For a file that is not a request, only `why` is set."""

    KIND: ClassVar[str] = "wish refused"
    request_id: str = field(default="", metadata=OPTIONAL | stored("wish_id"))
    author: str = field(default="", metadata=OPTIONAL)
    lane: str = field(default="", metadata=OPTIONAL)
    request: str = field(default="", metadata=OPTIONAL | stored("verb"))
    """hypothesis, experiment, adopt, ... (`enpire.requests.agent_requests`)."""
    why: str


AgentEvent = (
    AgentStarted | AgentEnded | ConclusionPosted | GivenUp | LaneFinished | BriefRead | TokensSpent | ModelCalled
    | AgentTurned | RequestRefused
)  # fmt: skip
