"""What the reading side answers: plain typed documents, the same for the command line, the report and the pages.

Every field is JSON as it stands (`dataclasses.asdict`); a figure that nobody can know yet is None, never nan.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Success:
    """A success rate over the trials that ended with a verdict, with its Wilson 95 % interval."""

    id: str
    """The policy version, or empty where several were run."""
    success: float | None
    """None without trials."""
    low: float
    high: float
    n: int
    successes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PassAt:
    """pass@k of one policy version on hidden starts: success within the first k attempts of one trial."""

    id: str
    """The policy version."""
    round: int
    rates: tuple[Success, ...]
    """pass@1, pass@2, ... up to the largest number of attempts of any trial of the campaign, at most pass@5. All have
    the same n: the trials with a verdict. A new attempt begins when the policy loses a subtask that it had reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirm:
    """The one-shot test of a frozen version on starts that exist only since it was frozen."""

    id: str
    success: float | None
    low: float
    high: float
    n: int
    successes: int
    announced: int
    """Trials, fixed before the first."""
    passed: bool | None
    """None while it is going on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateView:
    """One gate and its evidence."""

    id: str
    round: int
    k: int
    champion: str
    candidate: str
    decision: str
    """promote, reject, hold; `open` while it is going on."""
    reason: str
    pairs: int
    max_pairs: int
    wins: int
    """Pairs in which only the candidate succeeded."""
    losses: int
    both: int
    neither: int
    log_e: float
    """Evidence that its decision rests on (of faster, where that promoted it), in nats."""
    log_need: float
    """Evidence that promotes it, in nats."""
    difference_low: float | None
    """Confidence sequence of the difference in success, candidate minus champion."""
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
    """One round: what was collected, what was learned from it, what the gate said."""

    round: int
    collection: Success
    """Data collection on training starts in this round, whichever champion ran."""
    candidate: str
    learner: LearnerView | None
    gate: GateView | None


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
    """champion, former champion, rejected, held, candidate."""
    made_s: float
    hidden: Success
    """Over all its trials on hidden starts: base measurement, gates, confirmation."""


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
    """Share of the campaign's wall clock in reset, rollout or verify."""
    robot_time: Mapping[str, float]
    """Seconds by phase, mean over its lanes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalView:
    """What the campaign is for."""

    success: float
    confirm_starts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetView:
    """What the campaign may spend; 0 is without a limit."""

    wall_s: float
    rounds: int
    robot_s: float
    """Robot seconds over all lanes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """Tokens of coding agents."""

    fresh: int
    cached: int
    output: int
    to_goal: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentView:
    """The test of a hypothesis: a recipe with some settings changed, and what the hidden gate said."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """A version became the champion."""

    at_s: float
    """Seconds of the campaign, without the time in which no orchestrator ran."""
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IdeaView:
    """One hypothesis in the idea tree, after its parents."""

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
    """(kind, hypothesis) of every line that is not a parent."""
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
class Labels:
    """The verifier against the people who checked it."""

    labels: int
    checked: int
    """Labelled episodes that the verifier had called a success."""
    wrong: int
    """Of those, the ones that were none."""
    missed: int
    """Labelled successes that the verifier had not called one."""
    high: float
    """Upper bound on the share of its successes that are none."""
    limit: float
    passed: bool
    """Whether the limit is passed: the campaign pauses."""
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyStopView:
    """Rollouts of the collection that ended because they looked hopeless, and what the control arm says about that."""

    stopped: int
    false_alarms: Success
    """Of the control arm's rollouts that looked hopeless and went on: those that succeeded all the same."""
    saved_robot_s: float | None
    """Robot seconds that were saved, by what the control arm's went on for; None before it has one."""
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignView:
    """Where one campaign stands."""

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
    """Every gate, oldest first: those of the rounds and those of experiments."""
    deployments: tuple[Deployment, ...]
    """Every change of the champion, oldest first."""
    base: Success | None
    champion: Success | None
    """The champion on hidden starts, all its trials together; the confirmation stands beside it in `confirm`."""
    confirm: Confirm | None
    episodes: Mapping[str, int]
    """Orders by outcome, `open` ones, and `total`, which is their sum."""
    worst_case: Success | None
    """The champion on hidden starts if every order that ended without a verdict, or is open, were a failure."""
    refused: int
    """Deliveries that were not counted (an old lease, a doubled episode)."""
    mru: float | None
    """Mean robot utilisation in [0, 1]."""
    robot_time: Mapping[str, float]
    """Seconds by phase, summed over the stations."""
    robot_h: float
    """Robot-hours, over all lanes of all stations."""
    wall_s: float
    time_to_goal_s: float | None
    robot_h_to_goal: float | None
    tokens: Tokens
    search_gate_gap: float | None
    """Champion's success on training starts minus its success on hidden starts: near 0 when scores can be believed."""
    stations: tuple[StationView, ...]
    ideas: tuple[IdeaView, ...] = ()
    """What agents proposed, parents before children."""
    early_stops: EarlyStopView | None = None
    """None where no rollout looked hopeless."""
    labels: Labels | None = None
    """What people's labels say about the verifier; None without labels."""
    paused_why: str = ""
    """One sentence where the campaign paused itself."""
    budget: BudgetView | None = None
    """None where an older ledger does not say."""
    pass_at: tuple[PassAt, ...] = ()
    """Every version with a trial on hidden starts, in the order in which they were made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeLine:
    """One order and what became of it."""

    order_id: str
    campaign_id: str
    outcome: str
    """One of the six outcomes, or `open`."""
    cause: str
    person_outcome: str | None
    """What a person said about it afterwards."""
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
    """Wall clock, milliseconds: when the ledger took its end; None while it is open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodePage:
    """A page of episodes, newest first."""

    rows: tuple[EpisodeLine, ...]
    next: str | None
    """Give it as `before` for the page below; None at the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeView:
    """One episode, and where its files lie."""

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
    """CAMERA_TICK.jpg or .png: recorded with the episode, or taken when a simulated one ran again."""


def weighed(reason: str) -> str:
    """Name of the figure that a decision of this reason rests on, in nats."""
    return {"faster": "log_e_faster", "worse": "log_e_worse"}.get(reason, "log_e")
