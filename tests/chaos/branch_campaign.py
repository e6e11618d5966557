"""A campaign with branches in which smoke runs, searches, gates and confirmations come again and again, and its kills.

Each version moves faster than its parent, and about one start in five is out of reach of all versions. So a turn of a
branch soon leads to a gate, a gate to a promotion, and a promotion to a confirmation, which fails. After five or six
promotions no version is faster; from then on no confirmation comes. A thread of the test submits the experiments.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from agent_loop import tools
from agent_loop.lab_client import LabClient
from enpire.campaign.apply_events import apply_event
from enpire.campaign.state import CampaignState
from enpire.errors import EnpireError
from enpire.interfaces import ImprovementJob, Progress
from enpire.processes.smoke_run import PASSED
from enpire.requests import operator_commands
from enpire.requests.agent_requests import Sender
from enpire.store import durable
from enpire.store.ledger import SqliteLedger
from enpire.types import FloatArray, IntArray, Observation
from tests.chaos.harness import WAIT_S, Orchestrator, Witness, audit, rows, until
from tests.chaos.point_lab import ReachPolicy, write_campaign

PHASES = ("smoke", "confirm", "gate", "search")
"""Phases of branches, the shortest first."""
LANES = ("one", "two")
FIRST_REACH_M = 0.012
"""Motion of the base per period: from about a quarter of the starts the point comes to its goal in time."""
FARTHEST_M = 0.9
"""Starts beyond this distance are out of reach of every version."""
STEPS = 30
"""Steps of 0.1 s of a training run, and of its smoke run."""
CLAIM = {"statement": "a longer reach helps", "falsifier": "no gain", "regime": "offline RL", "kind": "draft"}


class Striding(ReachPolicy):
    """A policy that moves at most `reach_m` a period, and not at all from a start that is out of reach."""

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        actions = super().act(observation, lanes)
        actions[np.abs(observation.state).max(axis=1) > FARTHEST_M] = 0.0
        return actions


def load(folder: Path) -> Striding:
    return Striding(json.loads((folder / "policy.json").read_text())["reach_m"])


class Faster:
    """A learner whose versions are faster than their parents; the setting `factor` says by how much.

    A test can hold the training runs of branches (`hold`), so that a kill meets them.
    """

    def improve(self, job: ImprovementJob, report: Callable[[Progress], None]) -> Mapping[str, float]:
        settings = job.recipe["settings"]
        assert isinstance(settings, dict)
        reach_m = FIRST_REACH_M
        if job.parent is not None:
            reach_m = json.loads((job.parent / "policy.json").read_text())["reach_m"] * float(str(settings["factor"]))
        for step in range(STEPS):
            report(Progress(stage="reaching", done=step + 1, total=STEPS, metrics={}))
            time.sleep(0.1)
            while is_held(job):
                time.sleep(0.1)
        if not job.output.is_dir():
            staged = durable.stage_folder(job.output)
            about = {"kind": f"{__name__}:load", "reach_m": reach_m, "round": job.round, "job": job.work.name}
            files = {"policy.json": json.dumps(about).encode(), "weights.safetensors": b"\0" * 64}
            durable.fill_folders({staged: files})
            durable.reveal([(staged, job.output)])
        return {"reach_m": reach_m}


def hold(home: Path, runs: str) -> None:
    """Hold the smoke runs of all branches (`smoke`), or one training run by its id, until the next call."""
    held = home.parent / "held"
    if not held.exists() or held.read_text() != runs:
        held.write_text(runs)


def is_held(job: ImprovementJob) -> bool:
    """Whether a training run waits after its first step. A smoke run has its folder in that of its training run."""
    is_smoke = job.work.name.startswith("smoke-")
    home = job.work.parents[2 if is_smoke else 1]
    return (home.parent / "held").read_text() == ("smoke" if is_smoke else job.work.name)


def hold_one(events: Events) -> None:
    """Hold the training run of one branch, so that a learner runs while the other branches search or are at gates."""
    with events as state:
        branches = state.branches.by_experiment.values() if state is not None else ()
        jobs = [one.job for one in branches if one.phase == "training"]
    if (events.home.parent / "held").read_text() not in jobs:
        hold(events.home, jobs[0] if jobs else "")


def branched_campaign(folder: Path, agents: Sequence[Mapping[str, object]] = ()) -> Path:
    """Write the campaign's files; returns the path of the campaign file. Recipe of its branches: `regime_of`."""
    folder.mkdir()
    recipe = regime_of(folder)
    content = {
        "name": "faster", "learner": f"{__name__}:Faster", "settings": {"factor": 1.5}, "turn_rollouts": 20,
        "space": {"factor": [1.4, 1.7, "linear"]},
    }  # fmt: skip
    Path(recipe).write_text(yaml.safe_dump(content))
    return write_campaign(
        folder, recipe=recipe, gate={"pairs": 400, "margin": 0.25}, agents=[*agents],
        base={"recipe": recipe, "demonstrations": 10, "evaluate_starts": 20},
        goal={"success": 1.0, "confirm_starts": 150, "attempt_chance": 1e-30},
        rounds={"episodes": 20, "train_starts": 200}, budget={"wall_s": 100_000, "rounds": 100_000},
        branches={"recipes": [recipe], "share": 0.9, "slots": 2, "least_starts": 20, "robot_s": 80.0},
    )  # fmt: skip


def regime_of(folder: Path) -> str:
    """The recipe of rounds and branches, as a path."""
    return str(folder / "faster.yaml")


class Events:
    """The campaign's state by its events so far, for several threads. Events are read once."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._state: CampaignState | None = None
        self._one = threading.Lock()

    def state(self) -> CampaignState | None:
        """The state now; None before the campaign has begun. No other thread changes it while `self` is entered."""
        if not (self.home / "ledger.db").exists():
            return None
        with suppress(EnpireError, ValueError):  # it is being made, or its orchestrator was killed in a commit
            rows(self.home, "SELECT max(seq) FROM events")  # waits until a write that was killed is undone
            ledger = SqliteLedger(self.home / "ledger.db", read_only=True)
            try:
                self._read(ledger)
            finally:
                ledger.close()
        return self._state

    def _read(self, ledger: SqliteLedger) -> None:
        if self._state is None:
            begun = next(iter(ledger.events(kinds=("campaign started",), limit=1)), None)
            if begun is None:
                return
            self._state = CampaignState(campaign_id=begun.campaign_id)
        for entry in ledger.events(after=self._state.newest_event):
            apply_event(self._state, entry.event, entry.seq)
            self._state.newest_event = entry.seq

    def __enter__(self) -> CampaignState | None:
        self._one.acquire()
        return self.state()

    def __exit__(self, *problem: object) -> None:
        self._one.release()


class Experiments:
    """A thread that submits another experiment in each lane whenever its last one is decided."""

    def __init__(self, events: Events, regime: str) -> None:
        self.events, self.regime, self.draw = events, regime, random.Random(1)
        self.ending = threading.Event()
        self.thread = threading.Thread(target=self._work)

    def stop(self) -> None:
        self.ending.set()
        if self.thread.is_alive():
            self.thread.join()

    def _work(self) -> None:
        while not self.ending.wait(0.5):
            with suppress(EnpireError, OSError):  # the orchestrator was killed just now
                campaign_id, free = self._free()
                for lane in free:
                    self._submit(LabClient(self.events.home, Sender(campaign_id=campaign_id, author="test", lane=lane)))

    def _free(self) -> tuple[str, Sequence[str]]:
        """(campaign, lanes without an undecided experiment)."""
        with self.events as state:
            if state is None or not state.base_measured:
                return "", ()
            return state.campaign_id, [lane for lane in LANES if not state.proposals.undecided(lane)]

    def _submit(self, client: LabClient) -> None:
        changes = {"factor": round(self.draw.uniform(1.4, 1.7), 6)}
        made = tools.call(client, "propose_hypothesis", CLAIM)
        sent = {"hypothesis_id": made["hypothesis_id"], "regime": self.regime, "changes": changes}
        tools.call(client, "submit_candidate", sent)


def phases(events: Events) -> Mapping[str, frozenset[str]]:
    """Phase -> what is in it now: training runs in their smoke runs, branches that search, gates, the confirmation."""
    with events as state:
        if state is None:
            return {}
        branches = state.branches.by_experiment.values()
        first = [one.job for one in branches if one.phase == "training" and one.turn == 1]
        present = {
            "smoke": frozenset(job for job in first if in_smoke_run(events.home, job)),
            "confirm": frozenset([state.confirmation.policy_id] if state.confirmation else []),
            "gate": frozenset(state.gates),
            "search": frozenset(one.experiment_id for one in branches if one.phase == "search"),
        }
    return {phase: what for phase, what in present.items() if what}


def in_smoke_run(home: Path, job: str) -> bool:
    """Whether a training run reported a step of its smoke run last, and has not passed it."""
    reports = reports_of(home, job)
    is_smoke = bool(reports) and str(reports[-1]["stage"]).startswith("smoke run")
    return is_smoke and not (home / "learning" / job / PASSED).exists()


def reports_of(home: Path, job: str) -> Sequence[Mapping[str, object]]:
    """What a training run has reported, its killed processes included."""
    try:
        lines = (home / "learning" / job / "progress.jsonl").read_text().splitlines(keepends=True)
    except OSError:
        return ()
    return [json.loads(line) for line in lines if line.endswith("\n")]


Kill = Callable[[str, frozenset[str]], Callable[[], object] | None]
"""Kills a process in (phase, what is in it). Returns a function that is true once it works again, or once the next kill
may come; None: no process was killed."""


def kill_in_each_phase(lab: Orchestrator, events: Events, kill: Kill) -> int:
    """Kill a process in each phase, and wait after each kill until the next may come; returns the number of kills.

    A kill counts for a phase if what was in the phase before it is in it after it. The next kill waits for what `kill`
    returned. Smoke runs come first and are held until a kill came in one. From then on the training run of one branch
    is held.
    """
    left, kills, latest_s = [*PHASES], 0, time.monotonic() + 5 * WAIT_S
    while left and time.monotonic() < latest_s:
        assert lab.alive, lab.said()[-2000:]
        if "smoke" in left:
            hold(lab.home, "smoke")
        else:
            hold_one(events)
        before = phases(events)
        for phase in ["smoke"] if "smoke" in left else left:
            if phase not in before:
                continue
            if (works := kill(phase, before[phase])) is not None:
                kills += 1
                if before[phase] & phases(events).get(phase, frozenset()):
                    left.remove(phase)
                counts = "it counts" if phase not in left else "the phase was over"
                print(time.strftime("%X"), f"kill {kills}, in {phase}: {counts}", flush=True)
                until(works, f"work after kill {kills}, in {phase}", 2 * WAIT_S, lambda: time.sleep(0.1))
                print(time.strftime("%X"), "works again", flush=True)
                break
        time.sleep(0.05)
    hold(lab.home, "")
    assert not left, (left, lab.said()[-2000:])
    return kills


@dataclass(frozen=True)
class RunningBranches:
    """A running campaign with branches, in whose lanes a thread submits experiments."""

    lab: Orchestrator
    witness: Witness
    events: Events


@contextmanager
def running_branches(
    folder: Path, agents: Sequence[Mapping[str, object]] = (), **environment: str
) -> Iterator[RunningBranches]:
    """Run the campaign in an empty folder. On leaving, robots work once more, the campaign ends, and it is audited."""
    home, files = folder / "home", folder / "files"
    lab = Orchestrator(branched_campaign(files, agents), home, **environment)
    witness, events = Witness.of(home), Events(home)
    experiments = Experiments(events, regime_of(files))
    witness.start()
    lab.start()
    experiments.thread.start()
    try:
        yield RunningBranches(lab, witness, events)
        experiments.stop()
        end_campaign(lab, witness)
    finally:
        experiments.stop()
        lab.kill_all()
        witness.stop()
    require_each_counted_once(home, witness)


def end_campaign(lab: Orchestrator, witness: Witness) -> None:
    """Wait until robots work after the last kill, and end the campaign."""
    seen = len(witness.seen)
    until(lambda: len(witness.seen) > seen + 4, "episodes after the last kill")
    operator_commands.leave(lab.home / "inbox", "end campaign", operator="the test")
    assert lab.process is not None
    assert lab.process.wait(WAIT_S) == 3, lab.said()[-2000:]


def require_each_counted_once(home: Path, witness: Witness) -> None:
    """Audit the records. Each search rollout counts once, and each turn of a branch has one training run."""
    assert audit(home, witness).problems() == []
    state = Events(home).state()
    assert state is not None
    counted = {version: len(found.results) for version, found in state.branches.searched.items()}
    verdicts = rows(
        home,
        "SELECT policy_id, count(DISTINCT start_index) FROM orders WHERE purpose = 'search' "
        "AND outcome IN ('success', 'failure', 'unsafe') GROUP BY policy_id",
    )
    assert {version: n for version, n in counted.items() if n} == dict(verdicts)
    assert state.promoted
    turns = [(run["experiment_id"], run["turn"]) for run in bodies(home, "learner started") if run.get("turn")]
    assert len(turns) == len(set(turns)) > 0
    ended = [body["job"] for body in bodies(home, "learner ended")]
    assert len(ended) == len(set(ended)) > 0
    assert bodies(home, "learner failed") == []


def bodies(home: Path, kind: str, after: int = 0) -> list[dict[str, Any]]:
    """The contents of all events of a kind after the event with this number."""
    found = rows(home, "SELECT body FROM events WHERE kind = ? AND seq > ? ORDER BY seq", (kind, after))
    return [json.loads(body) for (body,) in found]
