"""What a round asked for and what its training run used: in numbers, and in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from enpire.queries import campaigns, texts
from enpire.queries.data_models import DataView
from enpire.queries.episodes_used import data_of
from tests.fakes.sample_campaign import BASE, CAMPAIGN, CampaignWriter


def begin(home: Path, **sections: object) -> CampaignWriter:
    record = CampaignWriter(home, campaign_id=CAMPAIGN, name="pins")
    record.tell(
        "campaign started", name="pins", task="pin_insertion", seed=1, home=str(home), code="0.1.0",
        goal={"success": 0.9, "confirm_starts": 60},
        campaign={"base": {"demonstrations": 3}, "rounds": {"episodes": 4}, **sections},
    )  # fmt: skip
    record.tell("station joined", station="cell-1", lanes=16, lease=1, facts={"driver": "mujoco"})
    return record


def ended(
    record: CampaignWriter, purpose: str, ends: str, policy: str = "scripted:expert", round: int = 0
) -> list[str]:
    """Orders that end by these letters (success, failure, aborted for a predicted failure); returns their ids."""
    ids: list[str] = []
    for letter in ends:
        order = record.order(purpose, policy, round)  # pyright: ignore[reportArgumentType]
        kind = {"s": "success", "f": "failure", "a": "aborted"}[letter]
        record.end(order, kind, "predicted failure" if letter == "a" else "")  # pyright: ignore[reportArgumentType]
        ids.append(order.order_id)
    return ids


def learn(record: CampaignWriter, round: int, episodes: list[str]) -> None:
    recipe = {"name": "clone", "learner": "clone", "settings": {}}
    record.tell(
        "learner started", job=f"job{round}", learner="clone", parent="", round=round, episodes=episodes, recipe=recipe,
        recipe_hash="1" * 64, data_hash="2" * 64,
    )  # fmt: skip


def shown(record: CampaignWriter, round: int) -> DataView:
    record.flush()
    with campaigns.open_records(record.home) as records:
        return data_of(records.reading, campaigns.history(records, CAMPAIGN), round)


def test_demonstrations_are_asked_for_as_successes_and_used_with_the_failures_between_them(tmp_path: Path) -> None:
    record = begin(tmp_path)
    demonstrations = ended(record, "demonstrate", "sfsfsfs")
    learn(record, 0, demonstrations[:5])
    found = shown(record, 0)
    assert (found.asked, found.asked_of, found.used, found.succeeded, found.collected) == (3, "successes", 5, 3, 7)
    assert texts.data(found) == "asked 3 successes, used 5 (3 succeeded) of 7 collected, 5 in all"


def test_rollouts_that_were_stopped_early_are_used_beyond_those_asked_for(tmp_path: Path) -> None:
    record = begin(tmp_path)
    demonstrations = ended(record, "demonstrate", "sss")
    learn(record, 0, demonstrations)
    rollouts = ended(record, "collect", "sfafsf", BASE, round=1)
    learn(record, 1, [*demonstrations, *rollouts[:5]])
    found = shown(record, 1)
    assert (found.asked, found.asked_of) == (4, "rollouts")
    assert (found.used, found.succeeded, found.stopped, found.collected, found.all_used) == (5, 2, 1, 5, 8)
    line = "asked 4 rollouts, used 5 (2 succeeded, 1 stopped early) of 5 collected, 8 in all"
    assert texts.data(found) == line
    assert line in texts.campaign(_view(record))


def test_a_round_that_has_not_trained_used_nothing_yet(tmp_path: Path) -> None:
    record = begin(tmp_path, base={"demonstrations": 1})
    ended(record, "demonstrate", "f")
    found = shown(record, 0)
    assert (found.used, found.succeeded, found.stopped) == (None, None, None)
    assert texts.data(found) == "asked 1 success, used - of 1 collected"


@pytest.mark.parametrize(
    ("sections", "asked"),
    [
        ({"rounds": {"episodes": 4, "lockstep": True}}, (3, "demonstrations")),
        ({"base": {"demonstrations": 120, "policy": BASE}}, (0, "successes")),
    ],
)
def test_lockstep_counts_failed_demonstrations_and_an_imported_base_needs_none(
    sections: dict[str, object], asked: tuple[int, str], tmp_path: Path
) -> None:
    found = shown(begin(tmp_path, **sections), 0)
    assert (found.asked, found.asked_of) == asked


def _view(record: CampaignWriter) -> campaigns.CampaignView:
    with campaigns.open_records(record.home) as records:
        return campaigns.campaign_view(records, CAMPAIGN)
