"""The loop fetches the images of episodes that count, once, and no others."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from enpire.campaign.acceptance import DIFFERS
from enpire.codec import order_fields
from enpire.home import open_home
from enpire.lab import Lab
from enpire.session import sweep_images
from enpire.steps.record import end_orders, record
from enpire.store.episodes import PICTURES
from enpire.store.ledger import SqliteLedger
from enpire.store.pictures import keep
from enpire.store.reading import Reading
from enpire.types import Order
from enpire.wire.arrivals import Announced, Arrival, Delivered
from tests.enpire.test_loop import lab_of, lab_seat
from tests.fakes.fake_fleet import FakeFleet, delivered
from tests.fakes.sample_events import write


@dataclass
class Cameras(FakeFleet):
    """Stations that send the messages of the test."""

    says: list[Arrival] = field(default_factory=list[Arrival])
    fetched: list[str] = field(default_factory=list[str])

    def poll(self, timeout_s: float) -> Sequence[Arrival]:
        said, self.says = self.says, []
        return said

    def fetch(self, announced: Announced) -> None:
        self.fetched.append(announced.episode.order.order_id)


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    home = open_home(tmp_path / "home")
    ledger = SqliteLedger(home.ledger)
    made = lab_of(home, ledger, fleet=Cameras(home.versions))
    orders = made.scheduler.next_orders(made.state, lab_seat())
    write(made, ("order issued", {"orders": [order_fields(order) for order in orders]}))
    yield made
    ledger.close()


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The images of an episode."""
    path = tmp_path_factory.mktemp("seen") / PICTURES
    keep(path, [{"top": np.zeros((4, 4, 3), np.uint8)}])
    return path.read_bytes()


def announced(order: Order, content: bytes) -> Announced:
    bare = delivered(order, "success", 5, "")
    episode = replace(bare.episode, pictures_sha256=hashlib.sha256(content).hexdigest())
    return Announced(station=order.station, lease=order.lease, episode=episode, arrays_file=bare.arrays_file)


def whole(lab: Lab, item: Announced, content: bytes) -> Delivered:
    path = lab.home.incoming / item.episode.order.order_id
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    return Delivered(
        station=item.station, lease=item.lease, episode=item.episode, arrays_file=item.arrays_file, pictures=path
    )


def hear(lab: Lab, *said: Arrival) -> Cameras:
    fleet = lab.fleet
    assert isinstance(fleet, Cameras)
    fleet.says, fleet.fetched = list(said), []
    fleet.acknowledged.clear()
    record(lab)
    return fleet


def test_an_episode_counts_when_its_images_have_arrived(lab: Lab, content: bytes) -> None:
    order = next(iter(lab.state.open.values()))
    item = announced(order, content)
    fleet = hear(lab, item)
    assert (fleet.fetched, fleet.acknowledged) == ([order.order_id], [])
    assert order.order_id in lab.state.open
    fleet = hear(lab, whole(lab, item, content), item)
    assert (fleet.fetched, fleet.acknowledged) == ([], [order.order_id, order.order_id])
    assert lab.state.ended[order.order_id] == "success"
    folder = lab.store.folder(order.order_id)
    assert (folder / PICTURES).read_bytes() == content
    assert not list(lab.home.incoming.iterdir())


def test_no_images_are_fetched_for_counted_or_unknown_orders(lab: Lab, content: bytes) -> None:
    first, second = list(lab.state.open.values())[:2]
    hear(lab, whole(lab, announced(first, content), content))
    never = replace(second, order_id="01NEVER")
    altered = announced(replace(second, policy_id="b" * 64), content)
    fleet = hear(lab, announced(first, content), announced(never, content), altered)
    assert fleet.fetched == []
    assert fleet.acknowledged == [first.order_id]
    assert fleet.refused == ["01NEVER", second.order_id], "their station keeps them"
    why = [event.body["why"] for event in lab.ledger.events(kinds=("episode refused",))]
    assert why == ["its order has ended already, or was never issued", DIFFERS]
    assert lab.state.ended[second.order_id] == "invalid"


def test_images_of_an_order_that_ended_meanwhile_are_removed(lab: Lab, content: bytes) -> None:
    order = next(iter(lab.state.open.values()))
    end_orders(lab, [order], "aborted", "stopped by a person")
    fleet = hear(lab, whole(lab, announced(order, content), content))
    assert (fleet.acknowledged, fleet.refused) == ([], [order.order_id])
    assert not list(lab.home.incoming.iterdir())


def test_at_a_start_only_images_of_open_orders_are_kept(lab: Lab) -> None:
    still, unknown, over = list(lab.state.open.values())[:3]
    end_orders(lab, [unknown], "unknown", "not heard")
    end_orders(lab, [over], "aborted", "stopped by a person")
    for name in (still.order_id, unknown.order_id, over.order_id, "01NEVER"):
        lab.home.incoming.mkdir(exist_ok=True)
        (lab.home.incoming / name).write_bytes(b"half")
    assert isinstance(lab.ledger, SqliteLedger)
    sweep_images(lab.home.incoming, Reading(lab.ledger.database))
    assert {path.name for path in lab.home.incoming.iterdir()} == {still.order_id, unknown.order_id}
    long_ago = time.time() - 15 * 86400
    os.utime(lab.home.incoming / unknown.order_id, (long_ago, long_ago))
    sweep_images(lab.home.incoming, Reading(lab.ledger.database))
    assert {path.name for path in lab.home.incoming.iterdir()} == {still.order_id}
