"""A campaign with the shipped learners on a Ray cluster, of which processes are killed in mid-training."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import yaml

from enpire.campaign.training_events import LearnerEnded, LearnerKilled
from enpire.files import plain
from enpire.processes.learner_process import read_job
from enpire.store import versions
from enpire.store.ledger import SqliteLedger
from tests.chaos.harness import (
    LEARNER,
    Audit,
    Orchestrator,
    Witness,
    audit,
    children,
    command_line,
    kill_quietly,
    until,
)
from tests.chaos.point_lab import write_campaign
from tests.fakes.point_task import environment
from tests.fakes.ray_cluster import RayCluster

SMALL = {"hidden": 16, "depth": 1, "batch": 32, "stride": 1, "least_steps": 1500, "most_steps": 1500, "euler_steps": 2}
ROUNDS = {
    "habc": {"learner": "habc", "settings": SMALL | {"critic_steps": 100}},
    "filtered_bc": {"learner": "clone", "settings": SMALL | {"data": "successes"}},
}
WORKER = "ray::LearnerActor"
STATION_WORKER = "ray::StationActor"


def workers(cluster: RayCluster, name: str) -> list[int]:
    """Processes of this cluster with this name in their command line, wherever they are below its machines."""
    machines = [
        int(path.name)
        for path in Path("/proc").glob("[0-9]*")
        if "raylet" in (line := command_line(int(path.name))) and cluster.address in line
    ]
    below = list[int]()
    while machines:
        machines = [child for pid in machines for child in children(pid)]
        below += machines
    return [pid for pid in below if name in command_line(pid)]


def jobs(home: Path) -> list[Path]:
    """Folders of the training runs that have a checkpoint and no result yet."""
    found = [path.parent for path in (home / "learning").glob("*/checkpoint.safetensors")]
    return [folder for folder in found if not (folder / "result.json").exists()]


def kill_in_training(lab: Orchestrator, home: Path, cluster: RayCluster, victim: str, before: Sequence[Path]) -> Path:
    """Kill a process of the next training run when that has a checkpoint; returns the folder of the run."""
    until(lambda: not lab.alive or set(jobs(home)) - {*before}, "a checkpoint", 900.0)
    assert lab.alive, lab.said()[-3000:]
    assert any(list(map(kill_quietly, workers(cluster, victim)))), f"no {victim} runs"
    (job,) = set(jobs(home)) - {*before}
    return job


def campaign_with_kills(folder: Path, cluster: RayCluster, recipe: str) -> Audit:
    """Kill a worker, a learner and a station in mid-training; returns the audit of a campaign that ended all the same.

    Raises:
        AssertionError: something was lost, doubled, or trained again from nothing, or the campaign ended early.
    """
    files, home = folder / "files", folder / "home"
    files.mkdir()
    for name, content in (("base", {"learner": "clone", "settings": SMALL}), ("round", ROUNDS[recipe])):
        (files / f"{name}.yaml").write_text(yaml.safe_dump({"name": name, **content}))
    campaign = write_campaign(
        files, recipe=str(files / "round.yaml"), budget={"wall_s": 0, "rounds": 1}, gate={"pairs": 20},
        base={"recipe": str(files / "base.yaml"), "demonstrations": 10, "evaluate_starts": 8},
    )  # fmt: skip
    content = yaml.safe_load(campaign.read_text())
    content["stations"] |= {"lanes": 2, "options": {"period_s": 0.05}}  # few episodes while a learner trains
    campaign.write_text(yaml.safe_dump(content))
    witness = Witness.of(home)
    witness.start()
    lab = Orchestrator(campaign, home, "--on", "ray", RAY_ADDRESS=cluster.address)
    lab.start()
    killed: list[Path] = []
    try:
        # The base trains on a worker that is killed, the round in a learner's process that is killed.
        for victim in (WORKER, LEARNER):
            killed.append(kill_in_training(lab, home, cluster, victim, killed))
        assert kill_quietly(workers(cluster, STATION_WORKER)[0])
        assert lab.process is not None
        assert lab.process.wait(400) == 3, lab.said()[-3000:]
    finally:
        lab.kill_all()
        witness.stop()
    found = audit(home, witness)
    assert found.problems() == []
    assert found.outcomes["success"] > 10
    assert "ended with -9; it is started again" in lab.said()
    assert f"Head of the ledger: {found.events}:" in lab.said()
    made = ended_after_kills(home, [job.name for job in killed])
    for job in killed:
        lines = [json.loads(line) for line in (job / "progress.jsonl").read_text().splitlines()]
        assert [line["done"] for line in lines if line["stage"] == "actor"].count(50) == 1, (
            "it began again from nothing"
        )
        assert trained_here(job, folder / job.name) == made[job.name]
    return found


def ended_after_kills(home: Path, runs: Sequence[str]) -> dict[str, str]:
    """Training run -> the version that it made; each of these was killed once."""
    ledger = SqliteLedger(home / "ledger.db", read_only=True)
    try:
        events = [entry.event for entry in ledger.events()]
    finally:
        ledger.close()
    assert [event.job for event in events if isinstance(event, LearnerKilled)] == list(runs)
    return {event.job: event.policy_id for event in events if isinstance(event, LearnerEnded)}


def trained_here(job: Path, work: Path) -> str:
    """The version that the same job makes on this machine, without an interruption."""
    work.mkdir()
    here = replace(read_job(job), work=work, output=work / "version")
    (work / "job.json").write_text(json.dumps(plain(here)))
    command = [sys.executable, "-m", "enpire.processes.learner_process", str(work)]
    subprocess.run(command, env=environment(), check=True, capture_output=True)
    return versions.identify(here.output)
