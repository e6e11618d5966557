"""A recorded episode of a simulated station runs again, exactly, and gives pictures."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from enpire.campaign import read_campaign
from enpire.errors import UsageError
from enpire.files import plain
from enpire.films import film
from enpire.home import Home, open_home
from enpire.store import arrays
from enpire.store.episodes import FolderStore
from enpire.store.ledger import SqliteLedger
from enpire.types import Episode, EpisodeArrays, Order

TICKS = 12


def recorded(home: Home, station: str) -> SqliteLedger:
    """A ledger with the shipped campaign, and one short episode of its first station."""
    from sim.tasks.pin_insertion import PinInsertion

    campaign = read_campaign("pin_insertion")
    ledger = SqliteLedger(home.ledger)
    ledger.append([("campaign started", {"campaign_id": "C1", "campaign": plain(campaign)})])
    task = PinInsertion()
    start = task.start("train", 3, b"")
    rig = task.rig(1, campaign.seed * 1000 + 1)
    rig.place(0, start)
    states = [rig.observe().state[0].copy()]
    action = np.full((TICKS, task.spec.action_dim), 0.002, np.float32)
    for tick in range(TICKS):
        action[tick] = rig.act(action[tick : tick + 1], np.ones(1, np.bool_))[0]
        states.append(rig.observe().state[0].copy())
    rig.close()
    data = arrays.pack(
        EpisodeArrays(
            state=np.stack(states), action=action, source=np.zeros(TICKS, np.uint8), chunk=np.zeros(TICKS, np.int32)
        )
    )
    order = Order(
        order_id="E1", campaign_id="C1", station=station, task="pin_insertion", policy_id="p", start=start,
        purpose="collect", round=0,
    )  # fmt: skip
    episode = Episode(
        order=order, outcome="failure", cause="", confidence=1.0, ran_policy_id="p", ticks=TICKS, began_s=0.0,
        ended_s=1.0, sha256=hashlib.sha256(data).hexdigest(),
    )  # fmt: skip
    FolderStore(home.episodes).put(episode, data)
    return ledger


def test_a_replay_says_the_same_and_takes_pictures(tmp_path: Path) -> None:
    home = open_home(tmp_path)
    ledger = recorded(home, "sim-1")
    made = film(home, ledger, "E1")
    assert made.largest_difference == 0.0
    assert made.count == len(list(made.folder.glob("*.jpg")))
    assert made.count > 0 or "No pictures" in made.why
    ledger.close()


def test_another_station_s_seed_would_not_say_the_same(tmp_path: Path) -> None:
    home = open_home(tmp_path)
    ledger = recorded(home, "sim-2")
    assert film(home, ledger, "E1").largest_difference > 0.0
    ledger.close()


def test_a_station_that_the_campaign_did_not_start_has_no_film(tmp_path: Path) -> None:
    home = open_home(tmp_path)
    ledger = recorded(home, "real-arm")
    with pytest.raises(UsageError, match="did not start"):
        film(home, ledger, "E1")
    ledger.close()
