"""Campaigns wait in a home until none runs there; each starts once, and one that cannot start says why."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from enpire.campaign.campaign import Campaign, read_campaign
from enpire.errors import UnknownName, UsageError
from enpire.home import Home
from enpire.requests.campaign_queue import CampaignQueue, Queued
from enpire.service.starting import QueueRunner
from enpire.store.ledger import SqliteLedger

CAMPAIGN = Campaign(name="night-1", task="pin_insertion", recipe="habc_warm")


def test_campaigns_wait_in_order_and_keep_what_was_asked(home: Home) -> None:
    queue = CampaignQueue(home)
    assert queue.waiting() == []
    first = queue.add(CAMPAIGN, "ada")
    second = queue.add(replace(CAMPAIGN, name="night-2"), "bob")
    assert CampaignQueue(home).waiting() == [first, second]
    with pytest.raises(UsageError, match="'night-1' waits already"):
        queue.add(CAMPAIGN, "bob")
    queue.remove(first.id)
    assert queue.waiting() == [second]
    with pytest.raises(UnknownName, match="waits in this home"):
        queue.remove(first.id)


def test_of_many_that_ask_at_once_one_is_added(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = CampaignQueue.waiting

    def slow(queue: CampaignQueue) -> list[Queued]:
        found = seen(queue)
        time.sleep(0.05)  # all look before the first one writes, unless they wait for each other
        return found

    monkeypatch.setattr(CampaignQueue, "waiting", slow)

    def add(_number: int) -> bool:
        try:
            CampaignQueue(home).add(CAMPAIGN, "ada")
        except UsageError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(add, range(8))) == 1


def test_a_campaign_whose_process_cannot_start_is_kept_with_the_reason(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_given: object, **_named: object) -> None:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr("enpire.service.starting.start_python", refuse)
    queue = CampaignQueue(home)
    queue.add(CAMPAIGN, "ada")
    QueueRunner(home, print).look()
    [failed] = queue.failed()
    assert (failed.campaign.name, failed.why) == (
        "night-1", "Its process could not be started: Cannot allocate memory."
    )  # fmt: skip
    assert queue.waiting() == []


def test_a_started_campaign_leaves_a_file_that_runs_again(home: Home) -> None:
    queue = CampaignQueue(home)
    path = queue.start(queue.add(CAMPAIGN, "ada"))
    assert queue.waiting() == []
    assert read_campaign(path) == CAMPAIGN


def test_one_process_at_a_time_starts_campaigns(home: Home) -> None:
    with CampaignQueue(home).held() as mine, CampaignQueue(home).held() as other:
        assert (mine, other) == (True, False)
    with CampaignQueue(home).held() as again:
        assert again


def test_a_campaign_waits_while_another_runs_and_says_why_it_could_not_start(home: Home) -> None:
    lines: list[str] = []
    queue, runner = CampaignQueue(home), QueueRunner(home, lines.append)
    queue.add(replace(CAMPAIGN, recipe="no_such_recipe"), "ada")
    ledger = SqliteLedger(home.ledger)  # a campaign runs
    runner.look()
    assert len(queue.waiting()) == 1
    ledger.close()
    deadline = time.monotonic() + 300
    while not queue.failed() and time.monotonic() < deadline:
        runner.look()
        time.sleep(0.1)
    [failed] = queue.failed()
    assert "no_such_recipe" in failed.why
    assert queue.waiting() == []
    assert "Starting the campaign 'night-1' for ada" in lines[0]
    queue.remove(failed.id)
    assert queue.failed() == []
