"""The decision of an experiment, from the decision of its gate."""

from __future__ import annotations

from collections.abc import Mapping

from enpire.campaign.agent_events import ExperimentDecided, Kept
from enpire.campaign.gate_events import GateDecided
from enpire.campaign.proposed import Experiment

KEPT: Mapping[str, Kept] = {"promote": "keep", "reject": "revert", "hold": "inconclusive"}
"""Decision of a gate -> decision of the experiment that made its candidate."""


def decided(experiment: Experiment, gate: GateDecided) -> ExperimentDecided:
    """The event that decides an experiment, from the decision of its gate."""
    return ExperimentDecided(
        experiment_id=experiment.experiment_id, hypothesis_id=experiment.hypothesis_id,
        policy_id=experiment.policy_id, gate_id=experiment.gate_id, recipe_hash=experiment.recipe_hash,
        decision=KEPT[gate.decision], reason=gate.reason, pairs=gate.pairs,
        delta=(gate.wins - gate.losses) / gate.pairs if gate.pairs else 0.0, low=gate.low, high=gate.high,
    )  # fmt: skip
