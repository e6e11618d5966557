"""What agents proposed and what became of it: hypotheses, their edges, experiments, findings. A fold of events.

An experiment is a recipe with some settings changed. It takes the road of any candidate: proposed, checked, queued,
training, gate, decided; or it ends as invalid (refused, or its training failed) or cancelled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, cast

from enpire.campaign.recipe import Recipe
from enpire.files import parse
from enpire.types import Hypothesis

Phase = Literal["proposed", "checked", "queued", "training", "gate", "decided", "invalid", "cancelled"]
EdgeKind = Literal["inspired_by", "adopts", "refutes", "supersedes"]
"""Edges beside `Hypothesis.parents`."""
KEPT: Mapping[str, str] = {"promote": "keep", "reject": "revert", "hold": "inconclusive"}
"""What a gate's decision means for the change that made its candidate."""
KINDS = (
    "hypothesis proposed", "experiment submitted", "experiment checked", "experiment refused", "experiment cancelled",
    "experiment decided", "experiment adopted", "finding posted", "given up", "wish refused", "brief read",
    "lane finished", "agent turned", "agent started", "agent ended", "tokens spent", "learner started", "learner ended",
    "learner failed", "gate opened", "gate decided", "deployed", "rolled back", "campaign ended", "recipe declared",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """A line of the idea tree that is not a parent."""

    kind: EdgeKind
    to: str
    """hypothesis_id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Idea:
    """One hypothesis with its edges."""

    hypothesis: Hypothesis
    effect: str = ""
    """What its author expects."""
    edges: tuple[Edge, ...] = ()


@dataclass(slots=True, kw_only=True)
class Experiment:
    """The test of a hypothesis."""

    experiment_id: str
    hypothesis_id: str
    author: str
    lane: str
    changes: Mapping[str, object]
    """Settings that differ from the recipe that was in force."""
    recipe: Mapping[str, object]
    """The whole changed recipe, as `ImprovementJob.recipe` carries it."""
    recipe_hash: str
    champion: str
    """The champion when it was submitted; from its training on, the one that it was trained from."""
    phase: Phase = "proposed"
    why: str = ""
    """Why it is invalid or cancelled, or the gate's reason."""
    job: str = ""
    trained_hash: str = ""
    """Of the recipe that its training was given; the same as `recipe_hash`, or the records are wrong."""
    policy_id: str = ""
    gate_id: str = ""
    metrics: Mapping[str, object] = field(default_factory=dict[str, object])
    """Diagnostics of its training."""
    gate: Mapping[str, object] | None = None
    """What its gate decided."""
    decision: str = ""
    """keep, revert, inconclusive; empty until it is decided."""
    delta: float = 0.0
    """Observed difference in success on hidden starts, candidate minus champion."""
    low: float = -1.0
    high: float = 1.0
    """Confidence sequence of that difference."""
    adopted_by: tuple[str, ...] = ()
    """Lanes that built on it."""

    @property
    def over(self) -> bool:
        """Whether nothing more will happen to it."""
        return self.phase in ("decided", "invalid", "cancelled")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What an agent learned and tells its peers."""

    finding_id: str
    author: str
    lane: str
    text: str
    about: str = ""
    """experiment_id or hypothesis_id; empty for a general one."""


@dataclass(slots=True)
class Ideas:
    """Everything that was proposed in one campaign."""

    ideas: dict[str, Idea] = field(default_factory=dict[str, Idea])
    experiments: dict[str, Experiment] = field(default_factory=dict[str, Experiment])
    findings: list[Finding] = field(default_factory=list[Finding])
    kept: list[tuple[str, Mapping[str, object]]] = field(default_factory=list[tuple[str, Mapping[str, object]]])
    """(version, recipe) of every experiment that was kept, oldest first; the last recipe is in force."""
    declared: Recipe | None = None
    """The campaign's recipe with its search space."""
    answered: set[str] = field(default_factory=set[str])
    """Wishes that have their event."""
    away: set[str] = field(default_factory=set[str])
    """Lanes whose process ended and is not started again."""
    finished: dict[str, str] = field(default_factory=dict[str, str])
    """Lane -> how it ended its work for good: its summary, or why it gave up."""
    tokens: dict[str, int] = field(default_factory=dict[str, int])
    """Lane -> tokens spent, all sorts."""
    experiment_turn: bool = False
    """Whether the next training run may be an experiment: the campaign's own rounds and experiments take turns."""

    def apply(self, kind: str, body: Mapping[str, object]) -> None:
        """Fold one event in; kinds that move nothing here are passed over."""
        wish = body.get("wish_id")
        if wish:
            self.answered.add(str(wish))
        handler = self.HANDLERS.get(kind)
        if handler is not None:
            handler(self, body)

    def queue(self) -> list[Experiment]:
        """Experiments that wait for the learner, oldest first."""
        return [item for item in self.experiments.values() if item.phase == "queued"]

    def undecided(self, lane: str = "") -> list[Experiment]:
        """Experiments that are not over, of one lane or of all."""
        return [item for item in self.experiments.values() if not item.over and lane in ("", item.lane)]

    def recipe_in_force(self, recipe: Recipe) -> Recipe:
        """The campaign's recipe with the settings of the last experiment that was kept."""
        if not self.kept:
            return recipe
        kept = recipe_from(self.kept[-1][1])
        return replace(recipe, name=kept.name, learner=kept.learner, settings=kept.settings)

    # One method per kind of event.

    def _declared(self, body: Mapping[str, object]) -> None:
        self.declared = recipe_from(_mapping(body["recipe"]))

    def _proposed(self, body: Mapping[str, object]) -> None:
        hypothesis = parse(Hypothesis, body["hypothesis"], "The hypothesis of an event")
        edges = cast("list[object]", body.get("edges", []))
        self.ideas[hypothesis.hypothesis_id] = Idea(
            hypothesis=hypothesis, effect=str(body.get("effect", "")),
            edges=tuple(parse(Edge, edge, "The edge of an event") for edge in edges),
        )  # fmt: skip

    def _submitted(self, body: Mapping[str, object]) -> None:
        experiment_id = str(body["experiment_id"])
        self.experiments[experiment_id] = Experiment(
            experiment_id=experiment_id, hypothesis_id=str(body["hypothesis_id"]), author=str(body["author"]),
            lane=str(body["lane"]), changes=_mapping(body["changes"]), recipe=_mapping(body.get("recipe", {})),
            recipe_hash=str(body.get("recipe_hash", "")), champion=str(body["champion"]),
        )  # fmt: skip

    def _checked(self, body: Mapping[str, object]) -> None:
        if experiment := self._named(body):
            experiment.phase = "queued"

    def _refused(self, body: Mapping[str, object]) -> None:
        if experiment := self._named(body):
            experiment.phase, experiment.why = "invalid", str(body["why"])

    def _cancelled(self, body: Mapping[str, object]) -> None:
        if experiment := self._named(body):
            experiment.phase, experiment.why = "cancelled", str(body["why"])

    def _adopted(self, body: Mapping[str, object]) -> None:
        experiment = self._named(body)
        if experiment and body["lane"] not in experiment.adopted_by:
            experiment.adopted_by = (*experiment.adopted_by, str(body["lane"]))

    def _found(self, body: Mapping[str, object]) -> None:
        self.findings.append(
            Finding(
                finding_id=str(body["finding_id"]), author=str(body["author"]), lane=str(body["lane"]),
                text=str(body["text"]), about=str(body.get("about", "")),
            )
        )  # fmt: skip

    def _learning(self, body: Mapping[str, object]) -> None:
        experiment = self._named(body)
        self.experiment_turn = experiment is None and bool(body.get("parent"))
        if experiment:
            experiment.phase, experiment.job = "training", str(body["job"])
            experiment.champion, experiment.trained_hash = str(body["parent"]), str(body["recipe_hash"])

    def _learned(self, body: Mapping[str, object]) -> None:
        for experiment in self._of_job(body):
            experiment.phase, experiment.policy_id = "gate", str(body["policy_id"])
            experiment.metrics = _mapping(body.get("figures", {}))

    def _not_learned(self, body: Mapping[str, object]) -> None:
        for experiment in self._of_job(body):
            experiment.phase, experiment.why = "invalid", str(body["why"])

    def _gate_opened(self, body: Mapping[str, object]) -> None:
        for experiment in self.experiments.values():
            if experiment.phase == "gate" and not experiment.gate_id and experiment.policy_id == body["candidate"]:
                experiment.gate_id = str(body["gate_id"])
                return

    def _gate_decided(self, body: Mapping[str, object]) -> None:
        for experiment in self.experiments.values():
            if experiment.phase == "gate" and experiment.gate_id == body["gate_id"]:
                experiment.gate = body

    def _deployed(self, body: Mapping[str, object]) -> None:
        """A person was quicker than a gate: what it judged is judged anew, unless it is what was promoted."""
        for experiment in self.experiments.values():
            if experiment.phase == "gate" and experiment.gate_id and experiment.gate is None:
                experiment.gate_id = ""
            if experiment.phase == "gate" and experiment.gate is None and experiment.policy_id == body["policy_id"]:
                experiment.phase, experiment.why = "cancelled", "a person promoted it without a gate"

    def _decided(self, body: Mapping[str, object]) -> None:
        experiment = self._named(body)
        if experiment is None:
            return
        experiment.phase, experiment.decision = "decided", str(body["decision"])
        experiment.delta, experiment.low, experiment.high = (
            float(cast("float", body[key])) for key in ("delta", "low", "high")
        )
        experiment.why = str(body["reason"])
        if experiment.decision == "keep":
            self.kept.append((experiment.policy_id, experiment.recipe))

    def _rolled_back(self, body: Mapping[str, object]) -> None:
        """The version goes and with it the recipe that made it; what waited for a gate against it goes too."""
        self.kept = [item for item in self.kept if item[0] != body["policy_id"]]
        for experiment in self.experiments.values():
            if experiment.phase == "gate" and experiment.gate is None:
                experiment.phase, experiment.why = "cancelled", "the champion was rolled back"

    def _ended(self, body: Mapping[str, object]) -> None:
        for experiment in self.undecided():
            experiment.phase, experiment.why = "cancelled", "the campaign ended"

    def _finished(self, body: Mapping[str, object]) -> None:
        self.finished[str(body["lane"])] = str(body["text"])

    def _given_up(self, body: Mapping[str, object]) -> None:
        if not body.get("about"):
            self.finished[str(body["lane"])] = f"given up: {body['reason']}"

    def _spent(self, body: Mapping[str, object]) -> None:
        lane = str(body.get("lane", ""))
        spent = sum(int(cast("int", body.get(sort, 0))) for sort in ("fresh", "cached", "output"))
        self.tokens[lane] = self.tokens.get(lane, 0) + spent

    def _came(self, body: Mapping[str, object]) -> None:
        self.away.discard(str(body["lane"]))

    def _went(self, body: Mapping[str, object]) -> None:
        if not body.get("again"):
            self.away.add(str(body["lane"]))

    def _named(self, body: Mapping[str, object]) -> Experiment | None:
        return self.experiments.get(str(body.get("experiment_id", "")))

    def _of_job(self, body: Mapping[str, object]) -> list[Experiment]:
        job = body["job"]
        return [item for item in self.experiments.values() if item.phase == "training" and item.job == job]

    HANDLERS: ClassVar[Mapping[str, Callable[..., None]]] = {
        "recipe declared": _declared,
        "hypothesis proposed": _proposed,
        "experiment submitted": _submitted,
        "experiment checked": _checked,
        "experiment refused": _refused,
        "experiment cancelled": _cancelled,
        "experiment decided": _decided,
        "experiment adopted": _adopted,
        "finding posted": _found,
        "given up": _given_up,
        "lane finished": _finished,
        "learner started": _learning,
        "learner ended": _learned,
        "learner failed": _not_learned,
        "gate opened": _gate_opened,
        "gate decided": _gate_decided,
        "deployed": _deployed,
        "rolled back": _rolled_back,
        "campaign ended": _ended,
        "tokens spent": _spent,
        "agent started": _came,
        "agent ended": _went,
    }
    """kind of event -> the method that folds it in."""


def recipe_from(mapping: Mapping[str, object]) -> Recipe:
    """The recipe of an event."""
    return parse(Recipe, mapping, "The recipe of an event")


def verdict(experiment: Experiment, gate: Mapping[str, object]) -> dict[str, object]:
    """The body of "experiment decided": what its gate's decision means for the change."""
    pairs = int(cast("int", gate["pairs"]))
    won = int(cast("int", gate["wins"])) - int(cast("int", gate["losses"]))
    return {
        "experiment_id": experiment.experiment_id, "hypothesis_id": experiment.hypothesis_id,
        "policy_id": experiment.policy_id, "gate_id": experiment.gate_id, "recipe_hash": experiment.recipe_hash,
        "decision": KEPT[str(gate["decision"])], "reason": gate["reason"], "pairs": pairs,
        "delta": won / pairs if pairs else 0.0, "low": gate["low"], "high": gate["high"],
    }  # fmt: skip


def _mapping(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value)
