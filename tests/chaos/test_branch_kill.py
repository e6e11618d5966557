"""kill -9 of each process in each phase of branches: smoke run, search, gate, confirmation; then the same command."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from agent_loop import tools
from agent_loop.lab_client import LabClient
from enpire.campaign.apply_events import rebuilt
from enpire.campaign.state import CampaignState
from enpire.errors import EnpireError
from enpire.interfaces import ImprovementJob, Progress
from enpire.requests import operator_commands
from enpire.requests.agent_requests import Sender
from enpire.store import durable
from enpire.store.ledger import SqliteLedger
from tests.chaos.harness import LEARNER, STATION, WAIT_S, Orchestrator, Witness, audit, rows, until
from tests.chaos.point_lab import MODULE, write_campaign
from tests.chaos.test_kill import kill_one

PHASES = ("smoke", "search", "gate", "confirm")
VICTIMS = ("orchestrator", STATION, "power")
LANES = ("one", "two")
FARTHEST_M = 0.024
"""Longest reach of a version: some starts stay out of reach, so that no confirmation passes."""
CLAIM = {"statement": "a longer reach helps", "falsifier": "no gain", "regime": "offline RL", "kind": "draft"}


class Farther:
    """A learner whose versions move a little farther in each turn; the setting `step_m` says how much."""

    def improve(self, job: ImprovementJob, report: Callable[[Progress], None]) -> Mapping[str, float]:
        settings = job.recipe["settings"]
        assert isinstance(settings, dict)
        assert job.parent is not None
        before_m = json.loads((job.parent / "policy.json").read_text())["reach_m"]
        reach_m = min(FARTHEST_M, before_m + float(str(settings["step_m"])))
        for step in range(10):
            time.sleep(0.1)
            report(Progress(stage="reaching", done=step + 1, total=10, metrics={}))
        if not job.output.is_dir():
            staged = durable.stage_folder(job.output)
            says = {"kind": f"{MODULE}:load", "reach_m": reach_m, "round": job.round, "job": job.work.name}
            files = {"policy.json": json.dumps(says).encode(), "weights.safetensors": b"\0" * 64}
            durable.fill_folders({staged: files})
            durable.reveal([(staged, job.output)])
        return {"reach_m": reach_m}


def branched_campaign(folder: Path) -> Path:
    """Rounds and branches make candidates; each champion has a confirmation, and none passes."""
    folder.mkdir()
    recipe = {
        "name": "farther", "learner": f"{__name__}:Farther", "settings": {"step_m": 0.004}, "turn_rollouts": 20,
        "space": {"step_m": [0.001, 0.006, "linear"]},
    }  # fmt: skip
    (folder / "farther.yaml").write_text(yaml.safe_dump(recipe))
    return write_campaign(
        folder, recipe=str(folder / "farther.yaml"), gate={"pairs": 200},
        goal={"success": 1.0, "confirm_starts": 100, "attempt_chance": 1e-12},
        rounds={"episodes": 20, "train_starts": 200}, budget={"wall_s": 100_000, "rounds": 100_000},
        branches={"recipes": [str(folder / "farther.yaml")], "share": 0.9, "least_starts": 20, "robot_s": 200.0},
    )  # fmt: skip


class Experiments:
    """A thread that submits another experiment in each lane whenever its last one is decided."""

    def __init__(self, home: Path, regime: str) -> None:
        self.home, self.regime, self.draw = home, regime, random.Random(1)
        self.ending = threading.Event()
        self.thread = threading.Thread(target=self._work)

    def stop(self) -> None:
        self.ending.set()
        self.thread.join()

    def _work(self) -> None:
        while not self.ending.wait(0.5):
            with suppress(EnpireError, ValueError, OSError):  # the campaign has not begun, or was killed just now
                state = state_of(self.home)
                for lane in LANES if state.base_measured else ():
                    if not state.proposals.undecided(lane):
                        self._submit(
                            LabClient(self.home, Sender(campaign_id=state.campaign_id, author="test", lane=lane))
                        )

    def _submit(self, client: LabClient) -> None:
        changes = {"step_m": round(self.draw.uniform(0.001, 0.006), 6)}
        made = tools.call(client, "propose_hypothesis", CLAIM)
        sent = {"hypothesis_id": made["hypothesis_id"], "regime": self.regime, "changes": changes}
        tools.call(client, "submit_candidate", sent)


def state_of(home: Path) -> CampaignState:
    """The campaign as its events tell it now."""
    rows(home, "SELECT max(seq) FROM events")  # waits until a write that was killed is undone
    ledger = SqliteLedger(home / "ledger.db", read_only=True)
    try:
        [campaign] = {entry.campaign_id for entry in ledger.events(kinds=("campaign started",))}
        return rebuilt(ledger, campaign)
    finally:
        ledger.close()


def phases(state: CampaignState) -> Sequence[str]:
    """What branches of the campaign are in now."""
    branches = state.branches.by_experiment.values()
    found = {
        "smoke": any(one.phase == "training" and one.turn == 1 for one in branches),
        "search": any(one.phase == "search" for one in branches),
        "gate": bool(state.gates),
        "confirm": state.confirmation is not None,
    }
    return [phase for phase, present in found.items() if present]


@pytest.mark.slow
def test_kills_in_every_phase_of_branches_lose_and_double_nothing(tmp_path: Path) -> None:
    home = tmp_path / "home"
    lab = Orchestrator(branched_campaign(tmp_path / "files"), home)
    witness = Witness.of(home)
    experiments = Experiments(home, str(tmp_path / "files" / "farther.yaml"))
    left = {(phase, victim) for phase in PHASES for victim in VICTIMS} | {("smoke", LEARNER)}
    witness.start()
    lab.start()
    experiments.thread.start()
    try:
        until(lambda: "Stations" in lab.said() or (home / "ledger.db").exists(), "the ledger")
        latest_s, seen = time.monotonic() + 4 * WAIT_S, 0
        while left and time.monotonic() < latest_s:
            assert lab.alive, lab.said()[-2000:]
            with suppress(EnpireError, ValueError):  # the campaign has not begun
                present = phases(state_of(home))
                due = sorted((phase, victim) for phase, victim in left if phase in present)
                if len(witness.seen) > seen + 4 and due and kill_one(lab, due[0][1]):  # it works again
                    left.discard(due[0])
                    seen = len(witness.seen)
            time.sleep(0.1)
        experiments.stop()
        assert not left, (left, lab.said()[-2000:])
        seen = len(witness.seen)
        until(lambda: len(witness.seen) > seen + 4, "episodes after the last kill")
        operator_commands.leave(home / "inbox", "end campaign", operator="the test")
        assert lab.process is not None
        assert lab.process.wait(WAIT_S) == 3, lab.said()[-2000:]
    finally:
        experiments.stop()
        lab.kill_all()
        witness.stop()
    assert audit(home, witness).problems() == []
    state = state_of(home)
    counted = {version: len(found.results) for version, found in state.branches.searched.items()}
    verdicts = rows(
        home,
        "SELECT policy_id, count(DISTINCT start_index) FROM orders WHERE purpose = 'search' "
        "AND outcome IN ('success', 'failure', 'unsafe') GROUP BY policy_id",
    )
    assert {version: n for version, n in counted.items() if n} == dict(verdicts)
    assert state.promoted
