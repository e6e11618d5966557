"""How often verdicts and predicted failures were wrong, as documents."""

from __future__ import annotations

from enpire.files import parse
from enpire.gate.verifier_audit import DriftRule, drift
from enpire.queries.campaign_history import History
from enpire.queries.gates import success
from enpire.queries.verdict_models import EarlyStopView, Labels
from enpire.store.reading import Reading


def early_stops_of(reading: Reading, campaign_id: str) -> EarlyStopView | None:
    """Rollouts that were stopped early, and how often the prediction was wrong; None without predicted failures."""
    stopped, flagged, false_alarms, continued_s = reading.early_stops(campaign_id)
    if not stopped + flagged:
        return None
    saved_s = stopped * continued_s / flagged if flagged else None
    wrong = success("", false_alarms, flagged)
    sentence = f"{stopped} rollouts were stopped early as predicted failures"
    if saved_s is None:
        sentence += "; the control arm has no predicted failure yet, so the saved time is unknown."
    else:
        sentence += (
            f", which saved about {saved_s / 60:.1f} robot-minutes; {false_alarms} of {flagged} predicted failures in "
            f"the control arm succeeded [{wrong.low:.1%}, {wrong.high:.1%}]."
        )
    return EarlyStopView(stopped=stopped, false_alarms=wrong, saved_robot_s=saved_s, sentence=sentence)


def labels_of(reading: Reading, past: History) -> Labels | None:
    """How often labels contradict the verifier; None without labels."""
    labels = reading.labels(past.campaign_id)
    if not labels:
        return None
    found = drift(labels, parse(DriftRule, past.section("drift"), "The recorded drift rule"))
    return Labels(
        labels=found.labels, checked=found.checked, wrong=found.wrong, missed=found.missed, high=found.high,
        limit=found.limit, passed=found.passed, sentence=found.sentence,
    )  # fmt: skip
