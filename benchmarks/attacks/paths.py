"""Attacks with ids and names: a path where an id was expected, a folder that is removed or overwritten through it."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import yaml

from benchmarks.attacks import Result, Run, attack
from enpire.store import versions
from tests.chaos.point_lab import write_campaign
from tests.fakes.fleet_harness import FleetHarness
from tests.fakes.point_task import environment, point_order, point_station, write_policy


def enpire(*words: object) -> subprocess.CompletedProcess[str]:
    """Run one command to its end."""
    command = [sys.executable, "-m", "enpire.cli", *map(str, words)]
    return subprocess.run(
        command, env=environment(), capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=120
    )


def content(folder: Path) -> str:
    """A hash over the names and files of a folder."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        digest.update(str(path).encode() + (path.read_bytes() if path.is_file() else b""))
    return digest.hexdigest()


@attack("the author of a campaign file", "a folder of the user is removed as if it were a damaged version")
def base_policy_that_is_a_path(run: Run) -> Result:
    """Run campaigns whose base policy is a user's folder: absolute, relative to the home, over a link."""
    user, home = write_policy(run.folder / "user"), run.folder / "home"
    (run.folder / "link").symlink_to(user)
    before, campaign = content(user), write_campaign(run.folder / "files")
    written = yaml.safe_load(campaign.read_text())
    paths = [str(user), "../../user", str(run.folder / "link"), f"{'a' * 64}/../../../user"]
    held = 0
    for path in paths if not run.quick else paths[:2]:
        campaign.write_text(yaml.safe_dump({**written, "base": {**written["base"], "policy": path}}))
        done = enpire("run", campaign, "--home", home, "--headless")
        held += done.returncode == 1 and "enpire policy import" in done.stderr and content(user) == before
    tried = len(paths) if not run.quick else 2
    there = "whole" if content(user) == before else "changed or gone"
    return Result(tried=tried, held=held, evidence=f"{held} of {tried} campaigns refused; the user's folder is {there}")


@attack("an orchestrator that a station trusts", "the station removes or loads a folder outside its home")
def orders_for_a_policy_that_is_a_path(run: Run) -> Result:
    """Send a station orders whose version is the path of a user's folder."""
    user = write_policy(run.folder / "user")
    before = content(user)
    paths = [str(user), "../../user", "..", f"{'a' * 64}/.."]
    harness = FleetHarness(run.folder / "lab")
    try:
        harness.start(point_station(run.folder / "lab"))
        lease = harness.join()
        for path in paths:
            harness.fleet.send("alpha", [point_order(path, 1, lease=lease)])
            lease = harness.join()  # the station refuses the message and says hello again
        order = point_order(versions.publish(write_policy(run.folder / "good"), harness.versions), 2, lease=lease)
        harness.fleet.send("alpha", [order])
        answer = harness.until_all([order])[order.order_id].episode.outcome
        held = len(paths) if answer in ("success", "failure") and content(user) == before else 0
    finally:
        harness.close()
    there = "whole" if content(user) == before else "changed or gone"
    evidence = f"{held} of {len(paths)} orders ran nothing; the user's folder is {there}, the next order: {answer}"
    return Result(tried=len(paths), held=held, evidence=evidence)
