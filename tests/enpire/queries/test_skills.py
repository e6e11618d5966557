"""The skills of a home: confirmed by a gate, counted where they were used again, gone with a rollback."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from enpire.errors import UnknownName
from enpire.queries.campaigns import open_records
from enpire.queries.skills import SkillView, find_skill, skill_library
from enpire.store.ledger import SqliteLedger
from tests.fakes.sample_events import append

GRASP, LIFT = "a" * 64, "b" * 64


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[SqliteLedger]:
    made = SqliteLedger(tmp_path / "ledger.db")
    for campaign, task in (("C1", "push_t"), ("C2", "pin_insertion")):
        append(made, [("campaign started", {"campaign_id": campaign, "name": campaign, "task": task, "campaign": {}})])
    yield made
    made.close()


def submit(ledger: SqliteLedger, name: str, *skills: str, campaign: str = "C1", lane: str = "one") -> None:
    files = [{"name": f"skill_{one[0]}", "sha256": one, "about": f"What {one[0]} does."} for one in skills]
    body = {"experiment_id": name, "lane": lane, "commit": name.lower(), "skills": files}
    append(ledger, [("experiment submitted", {"campaign_id": campaign, **body})])


def decide(ledger: SqliteLedger, name: str, decision: str, campaign: str = "C1") -> None:
    found = {"policy_id": f"version of {name}", "gate_id": f"gate of {name}", "pairs": 30, "delta": 0.2}
    body = {"campaign_id": campaign, "experiment_id": name, "decision": decision, **found, "low": 0.1, "high": 0.3}
    append(ledger, [("experiment decided", body)])


def library(ledger: SqliteLedger, *, of_another: bool = True) -> tuple[SkillView, ...]:
    with open_records(ledger.path.parent) as records:
        return skill_library(records) if of_another else skill_library(records, lambda campaign, lane: lane == "two")


def test_a_promoted_candidate_confirms_its_skills_and_later_uses_are_counted(ledger: SqliteLedger) -> None:
    submit(ledger, "E1", GRASP, LIFT)
    submit(ledger, "E0", GRASP, lane="two")
    assert library(ledger) == ()
    decide(ledger, "E1", "keep")
    submit(ledger, "E2", GRASP, lane="two")
    decide(ledger, "E2", "revert")
    submit(ledger, "E3", GRASP, campaign="C2")
    decide(ledger, "E3", "keep", campaign="C2")
    submit(ledger, "E4", "c" * 64, lane="two")
    decide(ledger, "E4", "inconclusive")
    submit(ledger, "E5", GRASP)
    ended = {"campaign_id": "C1", "experiment_id": "E5", "policy_id": "version of E5", "reason": "no gain"}
    append(ledger, [("branch ended", ended)])
    again: dict[str, object] = {"experiment_id": "E6", "lane": "two", "commit": "e6", "rerun_of": "E2"}
    append(
        ledger, [("experiment submitted", {"campaign_id": "C1", **again, "skills": [{"name": "g", "sha256": GRASP}]})]
    )
    grasp, lift = library(ledger)
    assert (grasp.id, grasp.name, grasp.about, grasp.task) == ("a" * 12, "skill_a", "What a does.", "push_t")
    assert (grasp.commit, grasp.experiment_id, grasp.gate_id, grasp.delta) == ("e1", "E1", "gate of E1", 0.2)
    assert (grasp.uses, grasp.kept, grasp.reverted, grasp.sessions) == (3, 1, 2, 2)
    assert (lift.name, lift.uses, lift.sessions) == ("skill_b", 0, 0)
    assert [(one.uses, one.sessions) for one in library(ledger, of_another=False)] == [(2, 1), (0, 0)]


def test_a_rollback_and_a_quarantine_take_skills_off_the_list(ledger: SqliteLedger) -> None:
    submit(ledger, "E1", GRASP)
    decide(ledger, "E1", "keep")
    append(ledger, [("rolled back", {"campaign_id": "C1", "policy_id": "version of E1", "to": "x"})])
    assert library(ledger) == ()
    append(ledger, [("deployed", {"campaign_id": "C1", "policy_id": "version of E1"})])
    assert len(library(ledger)) == 1
    append(ledger, [("experiment quarantined", {"campaign_id": "C1", "experiment_id": "E1"})])
    assert library(ledger) == ()
    append(ledger, [("experiment cleared", {"campaign_id": "C1", "experiment_id": "E1"})])
    assert len(library(ledger)) == 1


def test_a_skill_is_found_by_its_first_digits(ledger: SqliteLedger) -> None:
    submit(ledger, "E1", GRASP, LIFT)
    decide(ledger, "E1", "keep")
    assert find_skill(library(ledger), "aaaaaa").name == "skill_a"
    for wrong in ("aaaaa", "cccccc"):
        with pytest.raises(UnknownName, match=f"'{wrong}' names 0 skills of this home; the newest are: aaaaaaaaaaaa"):
            find_skill(library(ledger), wrong)
