"""The shipped learners on a Ray cluster, killed in mid-training; the campaign runs to its end."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.ray_campaign import campaign_with_kills
from tests.fakes.ray_cluster import RayCluster

pytestmark = [pytest.mark.timeout(1800)]


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["habc", "filtered_bc"])
def test_shipped_learners_train_on_a_cluster_although_learner_worker_and_station_are_killed(
    tmp_path: Path, cluster: RayCluster, recipe: str
) -> None:
    assert campaign_with_kills(tmp_path, cluster, recipe).outcomes["success"] > 10
