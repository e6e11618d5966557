"""One Ray cluster for a run of tests, also where several processes share the tests."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.fakes.ray_cluster import RayCluster, ray_cluster


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayCluster]:
    """A head and a second machine, two cores each, for this test alone. One cluster serves all tests of the run."""
    shared = "PYTEST_XDIST_WORKER" in os.environ
    base = tmp_path_factory.getbasetemp()
    folder, owner = (base.parent, os.getppid()) if shared else (base, os.getpid())
    with ray_cluster(folder / "ray", owner) as cluster:
        yield cluster
