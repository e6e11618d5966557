"""Which unfinished campaign a file goes on with, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from enpire.campaign import Budget, Campaign, Goal
from enpire.errors import FileProblem, UsageError
from enpire.files import plain
from enpire.service import unfinished
from enpire.store.ledger import SqliteLedger

CAMPAIGN = Campaign(name="coin", task="coin", recipe="poor", budget=Budget(rounds=7))


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[SqliteLedger]:
    ledger = SqliteLedger(tmp_path / "ledger.db")
    yield ledger
    ledger.close()


def begin(ledger: SqliteLedger, written: Mapping[str, object], campaign_id: str = "C1") -> None:
    body = {"campaign_id": campaign_id, "name": "coin", "campaign": written, "code": "0.0.1"}
    ledger.append([("campaign started", body)])


def written(campaign: Campaign = CAMPAIGN) -> dict[str, Any]:
    return cast("dict[str, Any]", plain(campaign))


def test_a_campaign_goes_on_although_fields_were_added_since_it_began(ledger: SqliteLedger) -> None:
    old = written()
    for part, later in (("rounds", "supervised"), ("stations", "operator"), ("gate", "early_hold")):
        del old[part][later]
    del old["agents"]
    begin(ledger, old)
    assert unfinished(ledger, CAMPAIGN) == "C1"


def test_what_was_changed_is_named_and_refused_and_nothing_else_is_named(ledger: SqliteLedger) -> None:
    old = written()
    del old["agents"], old["goal"]["attempt_chance"]
    begin(ledger, old)
    with pytest.raises(UsageError, match=r"differs from the file: seed was 0 and is 4\. Put"):
        unfinished(ledger, replace(CAMPAIGN, seed=4))
    with pytest.raises(UsageError, match=r"goal was .*0\.97.* and is .*0\.5") as refused:
        unfinished(ledger, replace(CAMPAIGN, goal=Goal(success=0.5)))
    assert "agents" not in str(refused.value)


def test_a_field_that_is_not_known_any_more_is_said(ledger: SqliteLedger) -> None:
    begin(ledger, {**written(), "moon": "full"})
    with pytest.raises(FileProblem, match=r"'coin', begun by ENPIRE 0\.0\.1 has the unknown key 'moon'"):
        unfinished(ledger, CAMPAIGN)


def test_an_ended_campaign_or_another_name_is_not_gone_on_with(ledger: SqliteLedger) -> None:
    begin(ledger, written())
    assert unfinished(ledger, replace(CAMPAIGN, name="dice")) is None
    ledger.append([("campaign ended", {"campaign_id": "C1", "reached": False, "reason": "the test"})])
    assert unfinished(ledger, CAMPAIGN) is None
