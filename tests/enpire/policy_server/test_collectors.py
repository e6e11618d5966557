"""A version at a policy server collects data as it would at the station."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from enpire.errors import PeerSilent, PolicyProblem
from enpire.field_reader import Fields
from enpire.policy_calls import collector
from enpire.station.remote_policy import PolicyServerLink, RemotePolicy
from tests.enpire.policy_server.test_policy_server import answering, looked, made
from tests.fakes.point_task import PointPolicy

KIND, PLAIN = f"{__name__}:load_collecting", "tests.fakes.point_task:load"
SEEN, LANES = looked((1.0, 2.0)), np.asarray([2])


class Collecting(PointPolicy):
    """Collects data with a noisier policy."""

    def __init__(self) -> None:
        super().__init__()
        self.collector = PointPolicy(noise=0.05)


def load_collecting(folder: Path) -> Collecting:
    return Collecting()


@pytest.fixture
def link(tmp_path: Path) -> Iterator[PolicyServerLink]:
    with answering(tmp_path / "served", kinds=(KIND, PLAIN)) as server:
        opened = PolicyServerLink(server.address)
        yield opened
        opened.close()


def test_the_server_collects_data_as_the_version_would_at_the_station(link: PolicyServerLink, tmp_path: Path) -> None:
    remote, here = made(link, tmp_path, KIND), Collecting()
    for far, near in ((remote, here), (collector(remote), here.collector), (remote, here)):
        for policy in (far, near):
            policy.begin(2, 5)
        assert far.act(SEEN, LANES).tolist() == near.act(SEEN, LANES).tolist()


def test_a_version_without_a_collector_has_none_at_the_server(link: PolicyServerLink, tmp_path: Path) -> None:
    plain = made(link, tmp_path, PLAIN)
    assert collector(plain) is plain


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
