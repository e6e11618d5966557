"""The idea tree as documents: hypotheses with their experiments, parents before children."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from enpire.campaign.experiments import Proposals
from enpire.campaign.proposed import Experiment, ProposedHypothesis
from enpire.gate.reasons import reason_text
from enpire.queries.models import ExperimentView, IdeaView


def ideas_of(proposals: Proposals, proposed_s: Mapping[str, float]) -> tuple[IdeaView, ...]:
    """Every hypothesis as a document; each follows its first parent, siblings oldest first.

    Args:
        proposals: hypotheses and experiments of the campaign.
        proposed_s: hypothesis -> seconds of the campaign at which it was proposed.
    """
    children: dict[str, list[str]] = {}
    for idea in proposals.hypotheses.values():
        parents = [parent for parent in idea.hypothesis.parents if parent in proposals.hypotheses]
        children.setdefault(parents[0] if parents else "", []).append(idea.hypothesis.hypothesis_id)
    tests: dict[str, list[Experiment]] = {}
    for experiment in proposals.experiments.values():
        tests.setdefault(experiment.hypothesis_id, []).append(experiment)
    views: list[IdeaView] = []
    waiting = [(name, 0) for name in reversed(children.get("", []))]
    while waiting:
        name, depth = waiting.pop()
        views.append(_idea(proposals.hypotheses[name], depth, proposed_s.get(name, 0.0), tests.get(name, [])))
        waiting.extend((child, depth + 1) for child in reversed(children.get(name, [])))
    return tuple(views)


def experiment_view(experiment: Experiment) -> ExperimentView:
    """One experiment as a document."""
    decided = experiment.phase == "decided" and (experiment.low, experiment.high) != (-1.0, 1.0)
    return ExperimentView(
        id=experiment.experiment_id, phase=experiment.phase, decision=experiment.decision, why=experiment.why,
        changes=dict(experiment.changes), policy_id=experiment.policy_id, gate_id=experiment.gate_id,
        delta=experiment.delta if decided else None, low=experiment.low if decided else None,
        high=experiment.high if decided else None, adopted_by=experiment.adopted_by,
        commit=experiment.commit, continues=experiment.continues, sandbox=experiment.sandbox,
        rerun_of=experiment.rerun_of, waiting="" if experiment.over else experiment.quarantined,
    )  # fmt: skip


def changes_text(changes: Mapping[str, object]) -> str:
    """Changed settings as text: `passes 8, multi_step 4`."""
    return ", ".join(
        f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}" for name, value in changes.items()
    )


def outcome(view: ExperimentView) -> str:
    """The phase of an experiment, or its decision with the interval, as text."""
    if view.delta is None:
        return (view.decision or view.phase) + (f": {reason_text(view.why)}" if view.why else "")
    return f"{view.decision} ({reason_text(view.why)}): {points(view)}"


def points(view: ExperimentView) -> str:
    """Difference in success, candidate minus champion, in percentage points: `+17.0 points [-0.7, +37.3]`."""
    if view.delta is None or view.low is None or view.high is None:
        return ""
    return f"{100 * view.delta:+.1f} points [{100 * view.low:+.1f}, {100 * view.high:+.1f}]"


def _idea(idea: ProposedHypothesis, depth: int, proposed_s: float, tests: Sequence[Experiment]) -> IdeaView:
    hypothesis = idea.hypothesis
    return IdeaView(
        id=hypothesis.hypothesis_id, depth=depth, proposed_s=proposed_s, statement=hypothesis.statement,
        falsifier=hypothesis.falsifier, kind=hypothesis.kind, regime=hypothesis.regime, author=hypothesis.author,
        lane=hypothesis.lane, parents=hypothesis.parents, edges=tuple((edge.kind, edge.to) for edge in idea.edges),
        mark=idea.mark, marked_by=idea.marked_by, marked_why=idea.marked_why,
        experiments=tuple(map(experiment_view, tests)),
    )  # fmt: skip
