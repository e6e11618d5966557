"""kill -9 of each process in each phase of branches: smoke run, search, gate, confirmation; then the same command.

The first test kills the lab's processes: orchestrator, station, all at once, learner. In the smoke run the killed
learner is the one whose smoke run is in progress, by its own reports. The second test kills what an agent is made of:
its session, the room inside which its code runs, and the model gateway, each a process of its own. Its agent is
`anthropic`, which talks to a recorded model. The experiments themselves come from a thread of the test, so that the
branches do not depend on what the model says.
"""

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
from enpire.processes.smoke_run import PASSED
from enpire.requests import operator_commands
from enpire.requests.agent_requests import Sender
from enpire.store import durable
from enpire.store.ledger import SqliteLedger
from tests.agent_loop.recorded_model import Recording, served
from tests.chaos.harness import (
    LEARNER,
    STATION,
    WAIT_S,
    Orchestrator,
    Witness,
    audit,
    children,
    command_line,
    kill_quietly,
    rows,
    until,
)
from tests.chaos.point_lab import MODULE, write_campaign
from tests.chaos.test_kill import kill_one

pytestmark = [pytest.mark.timeout(1800)]
PHASES = ("smoke", "search", "gate", "confirm")
VICTIMS = ("orchestrator", STATION, "power", LEARNER)
SESSION, ROOM, GATEWAY = "agent_loop.session", "agent_loop.room", "agent_loop.model_gateway.process"
OF_AGENTS = (SESSION, ROOM, GATEWAY)
LANES = ("one", "two")
CALLS = "SELECT body FROM events WHERE kind = 'model called'"
ENDED = "SELECT body FROM events WHERE kind = 'agent ended'"
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


def branched_campaign(folder: Path, agents: Sequence[Mapping[str, object]] = ()) -> Path:
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
        agents=[*agents],
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


def smoke_runs(home: Path, state: CampaignState) -> Sequence[str]:
    """The training runs whose smoke run has reported a step and has not passed."""
    first = [one.job for one in state.branches.by_experiment.values() if one.phase == "training" and one.turn == 1]
    return [job for job in first if is_in_smoke_run(home / "learning" / job)]


def is_in_smoke_run(folder: Path) -> bool:
    try:
        lines = (folder / "progress.jsonl").read_text().splitlines()
    except OSError:
        return False
    return bool(lines) and '"smoke run' in lines[-1] and not (folder / PASSED).exists()


def phases(home: Path) -> Mapping[str, Sequence[str]]:
    """Phases in which branches of the campaign are now; that of smoke runs with their training runs."""
    state = state_of(home)
    branches = state.branches.by_experiment.values()
    smoke = smoke_runs(home, state)
    found = {
        "smoke": bool(smoke),
        "search": any(one.phase == "search" for one in branches),
        "gate": bool(state.gates),
        "confirm": state.confirmation is not None,
    }
    return {phase: smoke if phase == "smoke" else () for phase, present in found.items() if present}


def kill_in_phase(lab: Orchestrator, phase: str, victim: str, smoke: Sequence[str]) -> bool:
    """Kill a process; returns whether one was killed. In the smoke run, whether that had not passed by then."""
    folders = [lab.home / "learning" / job for job in smoke]
    if phase == "smoke" and not any(map(is_in_smoke_run, folders)):
        return False
    if phase == "smoke" and victim == LEARNER:
        pids = [pid for pid in children(lab.pid, LEARNER) if any(str(one) in command_line(pid) for one in folders)]
        killed = bool(pids) and kill_quietly(pids[0])
    elif victim in OF_AGENTS:
        killed = kill_agent_process(lab, victim)
    else:
        killed = kill_one(lab, victim)
    return killed and (phase != "smoke" or any(not (one / PASSED).exists() for one in folders))


def kill_agent_process(lab: Orchestrator, victim: str) -> bool:
    """Kill the gateway, the first agent session, or the innermost process of the second one's room."""
    if victim == GATEWAY:
        pids = children(lab.pid, GATEWAY)
    elif victim == SESSION:
        pids = [pid for pid in children(lab.pid, SESSION) if "anthropic-1" in command_line(pid)]
    else:
        sessions = [pid for pid in children(lab.pid, SESSION) if "anthropic-2" in command_line(pid)]
        pids = [pid for one in sessions for pid in descendants(one) if ROOM in command_line(pid)][::-1]
    return bool(pids) and kill_quietly(pids[0])


def descendants(pid: int) -> Sequence[int]:
    """The living processes below a process, each after its parent."""
    return [found for child in children(pid) for found in (child, *descendants(child))]


def kill_each(lab: Orchestrator, witness: Witness, left: set[tuple[str, str]], works: Callable[[], object]) -> None:
    """Kill each process in each phase, once it works again after the kill before."""
    latest_s, seen = time.monotonic() + 4 * WAIT_S, 0
    while left and time.monotonic() < latest_s:
        assert lab.alive, lab.said()[-2000:]
        with suppress(EnpireError, ValueError):  # the campaign has not begun
            found = phases(lab.home)
            due = sorted((phase, victim) for phase, victim in left if phase in found)
            ready = len(witness.seen) > seen + 4 and works()
            for phase, victim in due if ready else ():
                if kill_in_phase(lab, phase, victim, found.get("smoke", ())):
                    left.discard((phase, victim))
                    seen = len(witness.seen)
                    break
        time.sleep(0.02)
    assert not left, (left, lab.said()[-2000:])


def end_of(lab: Orchestrator, witness: Witness) -> None:
    """Wait until robots work after the last kill, and end the campaign."""
    seen = len(witness.seen)
    until(lambda: len(witness.seen) > seen + 4, "episodes after the last kill")
    operator_commands.leave(lab.home / "inbox", "end campaign", operator="the test")
    assert lab.process is not None
    assert lab.process.wait(WAIT_S) == 3, lab.said()[-2000:]


def require_each_counted_once(home: Path, witness: Witness) -> None:
    """The audit, and search rollouts in the state as often as in the table of orders."""
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


@pytest.mark.slow
def test_kills_in_every_phase_of_branches_lose_and_double_nothing(tmp_path: Path) -> None:
    home = tmp_path / "home"
    lab = Orchestrator(branched_campaign(tmp_path / "files"), home)
    witness = Witness.of(home)
    experiments = Experiments(home, str(tmp_path / "files" / "farther.yaml"))
    witness.start()
    lab.start()
    experiments.thread.start()
    try:
        until(lambda: "Stations" in lab.said() or (home / "ledger.db").exists(), "the ledger")
        kill_each(lab, witness, {(phase, victim) for phase in PHASES for victim in VICTIMS}, lambda: True)
        experiments.stop()
        end_of(lab, witness)
    finally:
        experiments.stop()
        lab.kill_all()
        witness.stop()
    require_each_counted_once(home, witness)


@pytest.mark.slow
def test_kills_of_agents_and_their_gateway_in_every_phase_lose_and_double_nothing(tmp_path: Path) -> None:
    """Each call that reached the model has one event, also those of sessions, rooms and gateways that were killed."""
    home, recording = tmp_path / "home", Recording(answers=[])
    agents = [{"name": "anthropic", "lanes": 2, "options": {"model": "a-model"}}]
    with served(recording) as address:
        lab = Orchestrator(
            branched_campaign(tmp_path / "files", agents=agents), home, ANTHROPIC_BASE_URL=address,
            ANTHROPIC_API_KEY="none",
        )  # fmt: skip
        witness = Witness.of(home)
        experiments = Experiments(home, str(tmp_path / "files" / "farther.yaml"))
        witness.start()
        lab.start()
        experiments.thread.start()
        asked = [0]

        def answers_again() -> bool:
            """Whether the model was asked since the kill before, and all processes of agents live."""
            alive = [pid for pid in descendants(lab.pid) if any(one in command_line(pid) for one in OF_AGENTS)]
            ready = len(recording.asked) > asked[0] + 1 and len(alive) >= 5
            asked[0] = len(recording.asked) if ready else asked[0]
            return ready

        try:
            until(lambda: "Stations" in lab.said() or (home / "ledger.db").exists(), "the ledger")
            kill_each(lab, witness, {(phase, victim) for phase in PHASES for victim in OF_AGENTS}, answers_again)
            experiments.stop()
            end_of(lab, witness)
        finally:
            experiments.stop()
            lab.kill_all()
            witness.stop()
    require_each_counted_once(home, witness)
    calls = [str(json.loads(body)["call_id"]) for (body,) in rows(home, CALLS)]
    assert len(calls) == len(set(calls)) >= len(recording.asked) > len(PHASES) * len(OF_AGENTS)
    ended = [json.loads(body)["lane"] for (body,) in rows(home, ENDED)]
    assert min(ended.count(lane) for lane in ("anthropic-1", "anthropic-2")) >= len(PHASES), "each kill was recorded"
