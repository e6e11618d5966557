"""The documents of the queries: typed dataclasses, the same for the command line, the report and the pages.

`dataclasses.asdict` gives their JSON. A number that is not known yet is None, never nan.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from enpire.queries.branch_models import BranchesView
from enpire.queries.data_models import DataView, IndependenceView, RolloutsUsed
from enpire.queries.gain import Gain
from enpire.queries.kept_points import KeptPoints
from enpire.queries.model_spending import SpendingView
from enpire.queries.quarantines import QuarantineView
from enpire.queries.raised import Raised
from enpire.queries.success_models import Confirm, GoalView, PassAt, Success
from enpire.queries.verdict_models import EarlyStopView, Labels


@dataclass(frozen=True, slots=True, kw_only=True)
class GateView:
    """One gate and its evidence."""

    id: str
    round: int
    k: int
    champion: str
    candidate: str
    decision: str
    """promote, reject, hold; `open` while it runs; `dropped` if it ended without a decision."""
    reason: str
    pairs: int
    """Finished pairs."""
    max_pairs: int
    wins: int
    """Pairs in which only the candidate succeeded."""
    losses: int
    both: int
    neither: int
    log_e: float
    """Log evidence of the decision in nats: better, worse or faster, as `reason` names it."""
    log_need: float
    """Threshold of the log evidence to promote, in nats."""
    difference_low: float | None
    """Lower bound of the difference in success, candidate minus champion, by a confidence sequence."""
    difference_high: float | None
    champion_success: Success
    candidate_success: Success
    opened_s: float
    decided_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerView:
    """One training run."""

    job: str
    learner: str
    parent: str
    state: str
    """running, done, failed, or stopped with the campaign."""
    why: str
    seconds: float | None
    figures: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundView:
    """One round: its collection, its training run and its gate."""

    round: int
    collection: Success
    """Success of the data collection on train starts in this round, over all champions that ran."""
    candidate: str
    learner: LearnerView | None
    gate: GateView | None
    data: DataView
    """Episodes asked for, used and collected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionView:
    """One policy version with its lineage and evidence."""

    id: str
    kind: str
    parent: str
    round: int
    recipe_hash: str
    data_hash: str
    state: str
    """champion, rolled back, former champion, rejected, held, in the gate, candidate."""
    made_s: float
    hidden: Success
    """Over all its trials on hidden starts: base measurement, gates, confirmation."""
    branch: int = 0
    """Number of the branch that made it; 0 for a version of a round."""
    why: str = ""
    """Why it was rolled back; empty otherwise."""
    origin: str = ""
    """URL or folder that an imported version came from, with its revision; empty where not recorded, or made here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StationView:
    """One station of a campaign."""

    id: str
    state: str
    """present or left."""
    cause: str
    lanes: int
    lease: int
    facts: Mapping[str, str]
    utilisation: float | None
    """Share of the campaign's wall-clock time in reset, rollout or verify, in [0, 1]."""
    robot_time: Mapping[str, float]
    """Seconds by phase, mean over its lanes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetView:
    """The limits of the campaign; 0 means no limit."""

    wall_s: float
    rounds: int
    robot_s: float
    """Robot seconds over all lanes."""
    tokens: int = 0
    """Tokens of all agent sessions together; beyond it their calls of models are refused."""
    money: float = 0.0
    """The same in the currency of the price file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """Tokens of coding agents. What was written into a cache counts as fresh."""

    fresh: int
    cached: int
    output: int
    to_goal: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentView:
    """The test of a hypothesis: a recipe with changed settings, and the decision of its gate."""

    id: str
    phase: str
    """proposed, checked, queued, training, gate, decided; or invalid, cancelled."""
    decision: str
    """keep, revert, inconclusive; empty until decided."""
    why: str
    changes: Mapping[str, object]
    policy_id: str
    gate_id: str
    delta: float | None
    """Success on hidden starts, candidate minus champion; None until decided."""
    low: float | None
    high: float | None
    adopted_by: tuple[str, ...]
    commit: str = ""
    """Of a code candidate: its commit in the home's repository."""
    continues: str = ""
    """The commit that this code continues: an earlier one of its session, or an adopted one; empty for none."""
    sandbox: str = ""
    """Of a code candidate: where its code runs, `bubblewrap` or `none`."""
    rerun_of: str = ""
    """The experiment that an operator asked to have tried again; empty for a new one."""
    waiting: str = ""
    """Why it waits for a person; empty if it does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """The deployment of a new champion."""

    at_s: float
    """Seconds of the campaign, without the time in which no orchestrator ran."""
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IdeaView:
    """One hypothesis of the idea tree."""

    id: str
    depth: int
    """0 for a root; one more than its first parent."""
    statement: str
    falsifier: str
    kind: str
    regime: str
    author: str
    lane: str
    proposed_s: float
    """Seconds of the campaign, without the time in which no orchestrator ran."""
    parents: tuple[str, ...]
    edges: tuple[tuple[str, str], ...]
    """(kind, hypothesis) of every edge that is not to a parent."""
    mark: str
    """rejected or pinned by an operator; empty for neither."""
    marked_by: str
    marked_why: str
    experiments: tuple[ExperimentView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignLine:
    """One campaign in a list."""

    id: str
    name: str
    task: str
    state: str
    began: str
    """UTC, ISO 8601."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignView:
    """The state of one campaign."""

    id: str
    name: str
    task: str
    state: str
    """running, paused, reached, ended (without its goal), or interrupted."""
    reason: str
    began: str
    seed: int
    code: str
    goal: GoalView
    rounds: tuple[RoundView, ...]
    gates: tuple[GateView, ...]
    """Every gate of rounds and experiments, oldest first."""
    deployments: tuple[Deployment, ...]
    """Every change of the champion, oldest first."""
    base: Success | None
    champion: Success | None
    """The champion on hidden starts, over all its trials; `confirm` has the confirmation alone."""
    confirm: Confirm | None
    episodes: Mapping[str, int]
    """Orders by outcome, `open` ones, and `total`, which is their sum."""
    released: int
    """Those of the aborted ones that were released or refused before the robot moved."""
    worst_case: Success | None
    """The champion on hidden starts, with every order without a verdict counted as a failure, unless it never began."""
    refused: int
    """Number of refused deliveries (an old lease, an episode delivered twice)."""
    mru: float | None
    """Mean robot utilisation in [0, 1]: time on orders over wall-clock time."""
    motion: float | None
    """Share of the wall-clock time in motion, in [0, 1]; None where no station reports its waits for policies."""
    real_time_factor: float | None
    """Seconds of robot time per wall-clock second of a rollout in motion; about 1 for real robots."""
    rollouts_used: RolloutsUsed
    robot_time: Mapping[str, float]
    """Seconds by phase, summed over the stations."""
    robot_h: float
    """Robot-hours, over all lanes of all stations."""
    wall_s: float
    time_to_goal_s: float | None
    robot_h_to_goal: float | None
    tokens: Tokens
    search_gate_gap: float | None
    """The champion's success on train starts minus its success on hidden starts; near 0 without overfitting."""
    stations: tuple[StationView, ...]
    ideas: tuple[IdeaView, ...] = ()
    """Hypotheses of agents, parents before children."""
    early_stops: EarlyStopView | None = None
    """None without predicted failures."""
    labels: Labels | None = None
    """None without labels."""
    simulator_truth: bool = False
    """Whether the simulation itself says what succeeded (tasks `gym:...`), and no verifier of sensors."""
    paused_why: str = ""
    """Why the campaign is paused; empty if no reason is recorded."""
    budget: BudgetView | None = None
    """None if the campaign file has no budget."""
    gain: Gain | None = None
    """Success gained over the base per robot-hour; None until champion and base have trials on hidden starts."""
    pass_at: tuple[PassAt, ...] = ()
    """Every version with a trial on hidden starts, in the order in which the versions were made."""
    independence: IndependenceView | None = None
    """None before the first gate was decided."""
    branches: BranchesView | None = None
    """None without branches."""
    spending: SpendingView | None = None
    """Tokens and money of agents, for each session; None without calls of language models."""
    versions: tuple[VersionView, ...] = ()
    """Every version, in the order in which they were made."""
    raised: tuple[Raised, ...] = ()
    """Promotions that raised success, oldest first."""
    task_approval: str = ""
    """Who wrote the task and who approved it, when and why; empty for a task that no agent wrote."""
    kept_points: tuple[KeptPoints, ...] = ()
    """What each agent session, and then the whole campaign, spent per point of success; empty without experiments."""
    quarantine: tuple[QuarantineView, ...] = ()
    """Experiments and versions that wait, or waited, until a person clears them, oldest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeLine:
    """One order and its outcome."""

    order_id: str
    campaign_id: str
    outcome: str
    """One of the six outcomes, or `open`."""
    cause: str
    person_outcome: str | None
    """The newest label."""
    purpose: str
    round: int
    station: str
    policy_id: str
    gate_id: str
    pair: int
    side: str
    ticks: int
    confidence: float
    ended_ms: int | None = None
    """When the ledger recorded its outcome, in milliseconds since 1970; None while it is open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodePage:
    """A page of episodes, newest first."""

    rows: tuple[EpisodeLine, ...]
    next: str | None
    """Value of `before` for the next page; None on the last page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeView:
    """One episode and its files."""

    episode: EpisodeLine
    start_split: str
    start_index: int
    ran_policy_id: str
    seconds: float
    reset_attempts: int
    clipped: int
    sha256: str
    folder: str
    """Empty when nothing was recorded."""
    pictures: tuple[str, ...]
    """Names of its camera images, CAMERA_TICK.jpg or .png: recorded with the episode, or made by a replay."""


def weighed(reason: str) -> str:
    """Name of the field with the log evidence of a decision with this reason, in nats."""
    return {"faster": "log_e_faster", "worse": "log_e_worse"}.get(reason, "log_e")
