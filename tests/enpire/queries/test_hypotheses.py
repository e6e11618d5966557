"""The outcome of an experiment as text."""

from __future__ import annotations

import dataclasses

import pytest

from enpire.queries.hypotheses import outcome
from enpire.queries.models import ExperimentView

DECIDED = ExperimentView(
    id="e1", phase="decided", decision="inconclusive", why="hopeless", changes={}, policy_id="p1", gate_id="g1",
    delta=-0.2, low=-0.4, high=0.1, adopted_by=(),
)  # fmt: skip


@pytest.mark.parametrize(
    ("stored", "shown"), [("hopeless", "futility"), ("spent", "pairs exhausted"), ("worse", "worse")]
)
def test_the_reason_of_a_decision_is_shown_in_words(stored: str, shown: str) -> None:
    decided = dataclasses.replace(DECIDED, why=stored)
    assert outcome(decided) == f"inconclusive ({shown}): -20.0 points [-40.0, +10.0]"
    unmeasured = dataclasses.replace(decided, delta=None, low=None, high=None)
    assert outcome(unmeasured) == f"inconclusive: {shown}"
