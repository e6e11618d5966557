"""Attacks on a campaign whose processes run on a Ray cluster."""

from __future__ import annotations

import os

from benchmarks.attacks import Result, Run, attack
from tests.chaos.ray_campaign import ROUNDS, campaign_with_kills
from tests.fakes.ray_cluster import ray_cluster


@attack("kill -9 of any process", "a campaign on a cluster ends, loses episodes, or trains from nothing", quick=False)
def kills_on_a_ray_cluster(run: Run) -> Result:
    """Kill a worker, a learner and a station of `enpire run --on ray` while a shipped learner trains.

    tests/chaos/test_ray_learners.py makes it too, on the cluster of the other tests.
    """
    orders = verdicts = 0
    with ray_cluster(run.folder / "ray", os.getpid()) as cluster:
        for recipe in ROUNDS:
            (folder := run.folder / recipe).mkdir()
            found = campaign_with_kills(folder, cluster, recipe)
            orders, verdicts = orders + found.orders, verdicts + found.witnessed
    tried = 3 * len(ROUNDS)
    return Result(
        tried=tried,
        held=tried,
        evidence=f"{tried} kills in {len(ROUNDS)} campaigns ({', '.join(ROUNDS)}): {orders} orders, {verdicts} "
        "episodes seen in spools, nothing lost or doubled; each killed training made the bytes of an undisturbed one",
    )
