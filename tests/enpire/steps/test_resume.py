"""Which unfinished campaign a file goes on with, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from enpire.campaign.apply_events import rebuilt
from enpire.campaign.campaign import Budget, Campaign, Goal, read_campaign
from enpire.errors import FileProblem, UsageError
from enpire.files import plain
from enpire.home import open_home
from enpire.lab import StationStatus
from enpire.session import run_campaign
from enpire.steps.begin import begin_or_resume, find_unfinished
from enpire.store.ledger import SqliteLedger
from sim.tasks.pin_insertion import PinInsertion
from sim.verifiers.earlier_digests import EARLIER
from tests.fakes.sample_events import append

CAMPAIGN = Campaign(name="coin", task="coin", recipe="poor", budget=Budget(rounds=7))


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[SqliteLedger]:
    ledger = SqliteLedger(tmp_path / "ledger.db")
    yield ledger
    ledger.close()


def begin(ledger: SqliteLedger, written: Mapping[str, object], campaign_id: str = "C1") -> None:
    body = {"campaign_id": campaign_id, "name": "coin", "campaign": written, "code": "0.0.1"}
    append(ledger, [("campaign started", body)])


def written(campaign: Campaign = CAMPAIGN) -> dict[str, Any]:
    return cast("dict[str, Any]", plain(campaign))


def test_a_campaign_goes_on_although_fields_were_added_since_it_began(ledger: SqliteLedger) -> None:
    old = written()
    for part, later in (("rounds", "supervised"), ("stations", "operator"), ("gate", "early_hold")):
        del old[part][later]
    del old["agents"]
    begin(ledger, old)
    assert find_unfinished(ledger, CAMPAIGN) == "C1"


def test_what_was_changed_is_named_and_refused_and_nothing_else_is_named(ledger: SqliteLedger) -> None:
    old = written()
    del old["agents"], old["goal"]["attempt_chance"]
    begin(ledger, old)
    with pytest.raises(UsageError, match=r"differs from the file: seed was 0 and is 4\. Restore"):
        find_unfinished(ledger, replace(CAMPAIGN, seed=4))
    with pytest.raises(UsageError, match=r"goal was .*0\.97.* and is .*0\.5") as refused:
        find_unfinished(ledger, replace(CAMPAIGN, goal=Goal(success=0.5)))
    assert "agents" not in str(refused.value)


def test_what_stations_may_load_may_change_while_a_campaign_is_unfinished(ledger: SqliteLedger) -> None:
    begin(ledger, written())
    allowed = replace(CAMPAIGN, stations=replace(CAMPAIGN.stations, policy_kinds=("my_lab.policy:load",)))
    assert find_unfinished(ledger, allowed) == "C1"


@pytest.mark.parametrize("version", [1, 2])
def test_a_campaign_with_an_earlier_version_of_the_gates_rule_resumes(ledger: SqliteLedger, version: int) -> None:
    old = written()
    old["gate"]["version"] = version
    begin(ledger, old)
    assert find_unfinished(ledger, CAMPAIGN) == "C1"
    with pytest.raises(UsageError, match="gate was"):
        find_unfinished(ledger, replace(CAMPAIGN, gate=replace(CAMPAIGN.gate, pairs=90)))


def test_a_field_that_is_not_known_any_more_is_said(ledger: SqliteLedger) -> None:
    begin(ledger, {**written(), "moon": "full"})
    with pytest.raises(FileProblem, match=r"'coin', begun by ENPIRE 0\.0\.1 has the unknown key 'moon'"):
        find_unfinished(ledger, CAMPAIGN)


def test_an_ended_campaign_or_another_name_is_not_gone_on_with(ledger: SqliteLedger) -> None:
    begin(ledger, written())
    assert find_unfinished(ledger, replace(CAMPAIGN, name="dice")) is None
    append(ledger, [("campaign ended", {"campaign_id": "C1", "reached": False, "reason": "the test"})])
    assert find_unfinished(ledger, CAMPAIGN) is None


def test_recipes_are_checked_when_a_campaign_begins_and_not_when_it_goes_on(tmp_path: Path) -> None:
    (tmp_path / "odd.yaml").write_text("{name: odd, learner: best_of_n, settings: {horizon: 16}}")
    file, home = tmp_path / "coin.yaml", open_home(tmp_path / "home")
    file.write_text(f"{{name: coin, task: tests.sim.task_check.reach:Reach, recipe: {tmp_path / 'odd.yaml'}}}")
    with pytest.raises(FileProblem, match="horizon changes nothing here"):
        run_campaign(file, home)
    ledger = SqliteLedger(home.ledger)
    body = {"campaign_id": "C1", "name": "coin", "campaign": written(read_campaign(file)), "verifier": "another"}
    append(ledger, [("campaign started", body)])
    ledger.close()
    with pytest.raises(UsageError, match="The campaign 'coin' began with the verifier another"):
        run_campaign(file, home)


def test_a_campaign_of_a_verifier_with_docstrings_in_its_digest_resumes_with_the_digest_of_now(tmp_path: Path) -> None:
    file, home = tmp_path / "pins.yaml", open_home(tmp_path / "home")
    file.write_text("{name: pins, task: pin_insertion, recipe: habc_plus}")
    campaign, ledger = read_campaign(file), SqliteLedger(home.ledger)
    row = EARLIER["pin_insertion"]
    body = {
        "campaign_id": "C1", "name": "pins", "task": "pin_insertion", "campaign": written(campaign), "code": "0.1.0",
        "verifier": row.before, "seed": 0, "goal": plain(campaign.goal), "home": str(home.root),
    }  # fmt: skip
    append(ledger, [("campaign started", body)])
    assert rebuilt(ledger, "C1").verifier == row.before
    state = begin_or_resume(ledger, campaign, home)
    assert state.verifier == row.now
    (resumed,) = ledger.events(kinds=("campaign resumed",))
    assert resumed.body["verifier"] == row.now
    station = StationStatus(name="one", lanes=1, lease=1, facts={"verifier": PinInsertion().verifier().digest})
    assert station.has_verifier_of(state.verifier)
    assert not station.has_verifier_of(row.before)
    ledger.close()
