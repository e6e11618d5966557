"""A version at a policy server collects data as it would at the station."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from enpire.errors import PeerSilent, PolicyProblem
from enpire.field_reader import Fields
from enpire.interfaces import ContinuesChunks
from enpire.policy_calls import collector_of
from enpire.station.remote_policy import PolicyServerLink, RemotePolicy
from tests.enpire.policy_server.test_policy_server import Gifted, answering, looked, made
from tests.fakes.point_task import PointPolicy

KIND, GIFTED = f"{__name__}:load_collecting", f"{__name__}:load_gifted"
BROKEN, PLAIN = f"{__name__}:load_broken", "tests.fakes.point_task:load"
SEEN, LANES = looked((1.0, 2.0)), np.asarray([2])


class Collecting(PointPolicy):
    """Collects data with a noisier policy."""

    def __init__(self) -> None:
        super().__init__()
        self.collector = PointPolicy(noise=0.05)


def load_collecting(folder: Path) -> Collecting:
    return Collecting()


class GiftedCollecting(Gifted):
    """Continues chunks, as its collector does."""

    needs_images = False

    def __init__(self) -> None:
        super().__init__()
        self.collector = Gifted()
        self.collector.noise, self.collector.needs_images = 0.05, False


def load_gifted(folder: Path) -> GiftedCollecting:
    return GiftedCollecting()


class Broken(PointPolicy):
    @property
    def collector(self) -> PointPolicy:
        raise ValueError("no noise left")


def load_broken(folder: Path) -> Broken:
    return Broken()


@pytest.fixture
def link(tmp_path: Path) -> Iterator[PolicyServerLink]:
    with answering(tmp_path / "served", kinds=(KIND, GIFTED, BROKEN, PLAIN)) as server:
        opened = PolicyServerLink(server.address)
        yield opened
        opened.close()


def test_the_server_collects_data_as_the_version_would_at_the_station(link: PolicyServerLink, tmp_path: Path) -> None:
    remote, here = made(link, tmp_path, KIND), Collecting()
    other = collector_of(remote)
    assert other is not None
    for far, near in ((remote, here), (other, here.collector), (remote, here)):
        for policy in (far, near):
            policy.begin(2, 5)
        assert far.act(SEEN, LANES).tolist() == near.act(SEEN, LANES).tolist()


def test_a_collector_at_the_server_also_continues_chunks(link: PolicyServerLink, tmp_path: Path) -> None:
    other, here = collector_of(made(link, tmp_path, GIFTED)), GiftedCollecting().collector
    assert isinstance(other, ContinuesChunks)
    left = np.full((1, 4, 2), 0.5, np.float32)
    for policy in (other, here):
        policy.begin(2, 5)
    assert other.act_along(SEEN, LANES, left, 2).tolist() == here.act_along(SEEN, LANES, left, 2).tolist()


def test_a_version_without_a_collector_has_none_at_the_server(link: PolicyServerLink, tmp_path: Path) -> None:
    assert collector_of(made(link, tmp_path, PLAIN)) is None


def test_a_collector_that_cannot_be_made_refuses_the_version_and_the_server_goes_on(
    link: PolicyServerLink, tmp_path: Path
) -> None:
    with pytest.raises(PolicyProblem, match="no noise left"):
        made(link, tmp_path, BROKEN)
    assert made(link, tmp_path, PLAIN).execute == PointPolicy.execute


def test_a_collector_that_the_server_has_lost_is_made_again_with_its_version(
    link: PolicyServerLink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote = cast("RemotePolicy", made(link, tmp_path, KIND))

    def silent(*_: object, **__: object) -> Fields:
        raise PeerSilent("the policy server is away")

    monkeypatch.setattr(link, "decide", silent)
    remote.collector.begin(2, 5)
    with pytest.raises(PolicyProblem, match="away"):
        remote.collector.act(SEEN, LANES)
    assert remote.lost
