"""Proposals of agents: hypotheses with their edges, experiments and conclusions.

An experiment is a recipe with some settings changed. It follows the candidate pipeline: proposed, checked, queued,
training, search (in a campaign with branches), gate, decided. It may instead end as invalid (refused, or its training
failed) or cancelled.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import assert_never

from enpire.campaign.agent_events import (
    AgentEnded,
    AgentEvent,
    AgentStarted,
    AgentTurned,
    BriefRead,
    CodeReverted,
    ConclusionPosted,
    ExperimentAdopted,
    ExperimentCancelled,
    ExperimentChecked,
    ExperimentDecided,
    ExperimentEvent,
    ExperimentRefused,
    ExperimentSubmitted,
    GivenUp,
    HypothesisMarked,
    HypothesisProposed,
    LaneFinished,
    ModelCalled,
    OfRequest,
    RecipeDeclared,
    RequestRefused,
    TokensSpent,
)
from enpire.campaign.branch_events import BranchDecision, BranchEnded, BranchEnteredGate
from enpire.campaign.events import Event, kinds_of
from enpire.campaign.gate_events import (
    PROMOTED_BY,
    BaseMeasured,
    ConfirmationOpened,
    Confirmed,
    Deployed,
    GateDecided,
    GateEvent,
    GateOpened,
    RolledBack,
)
from enpire.campaign.proposed import Experiment, Phase, ProposedHypothesis
from enpire.campaign.quarantine_events import ExperimentCleared, ExperimentQuarantined
from enpire.campaign.recipe import Recipe
from enpire.campaign.session_events import CampaignEnded
from enpire.campaign.training_events import (
    LearnerEnded,
    LearnerFailed,
    LearnerKilled,
    LearnerStarted,
    TrainingEvent,
    VersionImported,
    VersionMade,
)
from enpire.files import canonical, document

KINDS = kinds_of(
    ExperimentEvent, AgentEvent, LearnerStarted, LearnerEnded, LearnerFailed, GateOpened, GateDecided, Deployed,
    RolledBack, CampaignEnded, BranchDecision, ExperimentQuarantined, ExperimentCleared,
)  # fmt: skip
"""Kinds of events that change proposals."""
WITHOUT_GATE = "an operator promoted it without a gate"
MOST_HELD = 2
"""Experiments of one agent session that may wait for a person, because their successes are not believed, before the
session waits, too."""


@dataclass(slots=True)
class Proposals:
    """All proposals of one campaign, and the state of its agent sessions."""

    hypotheses: dict[str, ProposedHypothesis] = field(default_factory=dict[str, ProposedHypothesis])
    experiments: dict[str, Experiment] = field(default_factory=dict[str, Experiment])
    conclusions: list[ConclusionPosted] = field(default_factory=list[ConclusionPosted])
    """Conclusions of agents, oldest first."""
    kept: list[tuple[str, Recipe]] = field(default_factory=list[tuple[str, Recipe]])
    """(version, recipe) of every experiment that was kept, oldest first; the last recipe is in force."""
    declared: Recipe | None = None
    """The campaign's recipe with its search space."""
    regimes: dict[str, Recipe] = field(default_factory=dict[str, Recipe])
    """The recipes of branches with their search spaces, by name."""
    answered: set[str] = field(default_factory=set[str])
    """Ids of requests that an event has answered."""
    recorded: dict[str, int] = field(default_factory=dict[str, int])
    """Lane -> bytes of all events that answer its requests."""
    away: set[str] = field(default_factory=set[str])
    """Lanes whose process ended and will not be restarted."""
    finished: dict[str, str] = field(default_factory=dict[str, str])
    """Lane that ended its work -> its summary, or why it gave up."""
    tokens: dict[str, int] = field(default_factory=dict[str, int])
    """Lane -> tokens that count for its budget: fresh, cached and output."""
    self_reported: dict[str, int] = field(default_factory=dict[str, int])
    """Lane -> tokens by the agent's own count."""
    code_base: dict[str, str] = field(default_factory=dict[str, str])
    """Lane -> the commit that its next code candidate continues."""
    model_calls: set[str] = field(default_factory=set[str])
    """Ids of the calls of language models that an event has recorded."""
    experiment_turn: bool = False
    """Whether the next training run may be an experiment. Rounds and experiments alternate."""

    def apply(self, event: Event) -> None:
        """Apply one event; events of other kinds are ignored."""
        if isinstance(event, OfRequest | RequestRefused) and event.request_id:
            self.answered.add(event.request_id)
            self.recorded[event.lane] = self.recorded.get(event.lane, 0) + len(canonical(document(event)))
        if isinstance(event, ExperimentEvent):
            self._apply_experiment(event)
        elif isinstance(event, BranchDecision):
            self._apply_branch(event)
        elif isinstance(event, AgentEvent):
            self._apply_agent(event)
        elif isinstance(event, TrainingEvent):
            self._apply_training(event)
        elif isinstance(event, GateEvent):
            self._apply_gate(event)
        elif isinstance(event, ExperimentQuarantined | ExperimentCleared):
            self._quarantine(event)
        elif isinstance(event, CampaignEnded):
            for experiment in self.undecided():
                experiment.phase, experiment.why = "cancelled", "the campaign ended"

    def queue(self) -> list[Experiment]:
        """Experiments that wait for the learner: those of pinned hypotheses first, then the oldest."""
        waiting = [item for item in self.experiments.values() if item.phase == "queued" and not item.quarantined]
        return sorted(waiting, key=lambda item: not self.is_pinned(item))

    def is_pinned(self, experiment: Experiment) -> bool:
        """Whether an operator pinned the hypothesis of an experiment."""
        proposed = self.hypotheses.get(experiment.hypothesis_id)
        return proposed is not None and proposed.mark == "pinned"

    def may_be_built_on(self, experiment: Experiment) -> bool:
        """Whether the lab lets a session adopt it: nothing holds it, and no operator rejected its hypothesis."""
        proposed = self.hypotheses.get(experiment.hypothesis_id)
        return not experiment.quarantined and (proposed is None or proposed.mark != "rejected")

    def undecided(self, lane: str = "") -> list[Experiment]:
        """Experiments that are not over, of one lane, or of all lanes if `lane` is empty."""
        return [item for item in self.experiments.values() if not item.over and lane in ("", item.lane)]

    def in_the_way(self, lane: str = "") -> list[Experiment]:
        """The undecided experiments that must end before an agent session may submit another one.

        The first MOST_HELD of a session that wait for a person because their successes are not believed do not count:
        its robots try something else meanwhile. What holds one of them may be a false alarm, and no person may come
        before the morning.
        """
        waiting: Counter[str] = Counter()
        found: list[Experiment] = []
        for item in self.undecided(lane):
            waiting[item.lane] += item.doubted
            if not item.doubted or waiting[item.lane] > MOST_HELD:
                found.append(item)
        return found

    @property
    def regime_in_force(self) -> str:
        """Name of the recipe of branches that the recipe in force changes; empty if it is the campaign's."""
        last = self.kept[-1][0] if self.kept else ""
        return next((item.regime for item in self.experiments.values() if last and item.policy_id == last), "")

    def made(self, policy_id: str) -> bool:
        """Whether an experiment made this version."""
        return any(item.policy_id == policy_id for item in self.experiments.values())

    def recipe_in_force(self, recipe: Recipe) -> Recipe:
        """The campaign's recipe with the settings of the last experiment that was kept."""
        if not self.kept:
            return recipe
        kept = self.kept[-1][1]
        regime = self.regimes.get(self.regime_in_force)
        space = regime.space if regime else recipe.space
        return replace(recipe, name=kept.name, learner=kept.learner, settings=kept.settings, space=space)

    def _apply_experiment(self, event: ExperimentEvent) -> None:
        match event:
            case RecipeDeclared():
                self._declare(event)
            case HypothesisProposed() | HypothesisMarked():
                self._apply_hypothesis(event)
            case ExperimentSubmitted():
                self._submit(event)
            case ExperimentChecked():
                if experiment := self.experiments.get(event.experiment_id):
                    experiment.phase = "queued"
            case ExperimentRefused():
                self._close(event.experiment_id, "invalid", event.why)
            case ExperimentCancelled():
                self._close(event.experiment_id, "cancelled", event.why)
            case ExperimentAdopted() | CodeReverted():
                self._continue_from(event)
            case ExperimentDecided():
                self._decide(event)
            case _:
                assert_never(event)

    def _apply_hypothesis(self, event: HypothesisProposed | HypothesisMarked) -> None:
        if isinstance(event, HypothesisProposed):
            proposed = ProposedHypothesis(hypothesis=event.hypothesis, effect=event.effect, edges=event.edges)
            self.hypotheses[event.hypothesis.hypothesis_id] = proposed
        elif proposed := self.hypotheses.get(event.hypothesis_id):
            self.hypotheses[event.hypothesis_id] = replace(
                proposed, mark=event.mark, marked_by=event.by, marked_why=event.reason
            )

    def _declare(self, event: RecipeDeclared) -> None:
        if event.regime:
            self.regimes[event.regime] = event.recipe
        else:
            self.declared = event.recipe

    def _apply_agent(self, event: AgentEvent) -> None:
        match event:
            case ConclusionPosted():
                self.conclusions.append(event)
            case LaneFinished():
                self.finished[event.lane] = event.text
            case GivenUp():
                if not event.about:
                    self.finished[event.lane] = f"given up: {event.reason}"
            case TokensSpent() | ModelCalled():
                self._spend(event)
            case AgentStarted():
                self.away.discard(event.lane)
            case AgentEnded():
                if not event.again:
                    self.away.add(event.lane)
            case BriefRead() | AgentTurned() | RequestRefused():
                pass
            case _:
                assert_never(event)

    def _spend(self, event: TokensSpent | ModelCalled) -> None:
        if isinstance(event, ModelCalled):
            self.model_calls.add(event.call_id)
            self.tokens[event.lane] = self.tokens.get(event.lane, 0) + event.tokens
            return
        counts = self.self_reported if event.self_reported else self.tokens
        counts[event.lane] = counts.get(event.lane, 0) + event.total

    def _apply_training(self, event: TrainingEvent) -> None:
        match event:
            case LearnerStarted():
                experiment = self.experiments.get(event.experiment_id)
                if not event.turn:
                    self.experiment_turn = experiment is None and event.round > 0
                if experiment:
                    experiment.phase, experiment.job, experiment.turn = "training", event.job, event.turn
                    experiment.trained_hash = event.recipe_hash
                    if event.turn <= 1 and event.parent:
                        experiment.champion = event.parent
            case LearnerEnded():
                for experiment in self._of_job(event.job):
                    experiment.phase = "search" if experiment.turn else "gate"
                    experiment.policy_id = event.policy_id
                    experiment.metrics = event.metrics
            case LearnerFailed():
                for experiment in self._of_job(event.job):
                    is_decided_later = event.over_budget and bool(experiment.policy_id)
                    experiment.phase, experiment.why = ("search", "") if is_decided_later else ("invalid", event.why)
            case LearnerKilled() | VersionMade() | VersionImported():
                pass
            case _:
                assert_never(event)

    def _apply_branch(self, event: BranchDecision) -> None:
        experiment = self.experiments.get(event.experiment_id)
        if experiment is None:
            return
        experiment.champion = event.champion
        match event:
            case BranchEnteredGate():
                experiment.phase, experiment.policy_id = "gate", event.policy_id
            case BranchEnded():
                experiment.why = event.reason + (f": {event.detail}" if event.detail else "")
                experiment.phase, experiment.decision = "decided", "revert"
                if event.reason == "given up" or not event.policy_id:  # without a version nothing was tried
                    experiment.phase, experiment.decision = "cancelled", ""
            case _:
                assert_never(event)

    def _apply_gate(self, event: GateEvent) -> None:
        match event:
            case GateOpened():
                waiting = (item for item in self.experiments.values() if item.phase in ("search", "gate"))
                mine = (item for item in waiting if not item.gate_id and item.policy_id == event.candidate)
                if experiment := next(mine, None):
                    experiment.phase, experiment.gate_id = "gate", event.gate_id
            case GateDecided():
                for experiment in self._at_gate(event.gate_id):
                    experiment.gate = event
            case Deployed():
                self._deploy(event.policy_id)
                if event.reason.startswith(PROMOTED_BY):
                    self._cancel_promoted(event.policy_id)
            case RolledBack():
                self._roll_back(event.policy_id)
            case BaseMeasured() | ConfirmationOpened() | Confirmed():
                pass
            case _:
                assert_never(event)

    def _deploy(self, policy_id: str) -> None:
        """End the gates of the champion before: an experiment in a branch searches again, another one waits for a gate.

        An experiment whose gate has decided does not change. One whose version an operator promoted is cancelled.
        """
        for experiment in self._at_gate():
            if experiment.gate is None:
                experiment.gate_id = ""
                if experiment.policy_id == policy_id:
                    experiment.phase, experiment.why = "cancelled", WITHOUT_GATE
                elif experiment.turn:
                    experiment.phase = "search"

    def _cancel_promoted(self, policy_id: str) -> None:
        """Cancel the experiments that still searched with a version that an operator promoted."""
        for experiment in self.experiments.values():
            if experiment.phase == "search" and experiment.policy_id == policy_id:
                experiment.phase, experiment.why = "cancelled", WITHOUT_GATE

    def _quarantine(self, event: ExperimentQuarantined | ExperimentCleared) -> None:
        """Hold an experiment, or free it. The gate of its version ends without a decision."""
        experiment = self.experiments.get(event.experiment_id)
        if experiment is None:
            return
        if isinstance(event, ExperimentQuarantined):
            experiment.quarantined = event.why
            experiment.tripwires = experiment.tripwires.union((event.tripwire,))
        else:
            experiment.quarantined = experiment.quarantined if event.still else ""
            experiment.tripwires = frozenset(event.still)
        if experiment.phase == "gate" and experiment.gate is None:
            experiment.gate_id, experiment.phase = "", "search" if experiment.turn else "gate"

    def _submit(self, event: ExperimentSubmitted) -> None:
        parent = self.experiments.get(event.parent_experiment)
        continues = (parent.commit if parent else "") or self.code_base.get(event.lane, "")
        self.experiments[event.experiment_id] = Experiment(
            experiment_id=event.experiment_id, hypothesis_id=event.hypothesis_id, author=event.author,
            lane=event.lane, changes=event.changes, recipe=event.recipe, recipe_hash=event.recipe_hash,
            champion=event.champion, regime=event.regime, parent_experiment=event.parent_experiment,
            commit=event.commit, continues=continues if event.commit else "", sandbox=event.sandbox, form=event.form,
            rerun_of=event.rerun_of,
        )  # fmt: skip
        if event.commit:
            self.code_base[event.lane] = event.commit

    def _continue_from(self, event: ExperimentAdopted | CodeReverted) -> None:
        """What the next candidate of a lane continues."""
        if event.commit:
            self.code_base[event.lane] = event.commit
        if not isinstance(event, ExperimentAdopted):
            return
        experiment = self.experiments.get(event.experiment_id)
        if experiment and event.lane not in experiment.adopted_by:
            experiment.adopted_by = (*experiment.adopted_by, event.lane)

    def _decide(self, event: ExperimentDecided) -> None:
        experiment = self.experiments.get(event.experiment_id)
        if experiment is None:
            return
        experiment.phase, experiment.decision, experiment.why = "decided", event.decision, event.reason
        experiment.delta, experiment.low, experiment.high = event.delta, event.low, event.high
        if event.decision == "keep" and experiment.recipe is not None and not experiment.commit:
            # The code of an agent trains its own branch; rounds keep the recipe in force.
            self.kept.append((experiment.policy_id, experiment.recipe))

    def _close(self, experiment_id: str, phase: Phase, why: str) -> None:
        if experiment := self.experiments.get(experiment_id):
            experiment.phase, experiment.why = phase, why

    def _roll_back(self, policy_id: str) -> None:
        """Remove the version's recipe, and cancel every experiment whose gate is not decided."""
        self.kept = [item for item in self.kept if item[0] != policy_id]
        for experiment in self._at_gate():
            if experiment.gate is None:
                experiment.phase, experiment.why = "cancelled", "the champion was rolled back"

    def _at_gate(self, gate_id: str = "") -> list[Experiment]:
        """Experiments whose candidate waits for a gate or is in one; only those of `gate_id` if it is given."""
        waiting = [item for item in self.experiments.values() if item.phase == "gate"]
        return [item for item in waiting if gate_id in ("", item.gate_id)]

    def _of_job(self, job: str) -> list[Experiment]:
        return [item for item in self.experiments.values() if item.phase == "training" and item.job == job]
