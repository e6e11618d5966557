"""An agent that writes code, and a lab whose robots act with it: an order succeeds if the policy names its start.

The state is the value of the start; the right action is the same value. Demonstrations and the base's successes show
it, so a learner can learn it from the recorded episodes.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from agent_loop import tools
from agent_loop.lab_client import LabClient
from enpire.campaign.branch import Branch
from enpire.campaign.branch_plan import BranchPlan
from enpire.campaign.campaign import Campaign, CodePlan
from enpire.code_candidates.code_policy import CodePolicy
from enpire.errors import PolicyProblem
from enpire.home import Home
from enpire.policy_calls import policy_seed
from enpire.store import arrays, versions
from enpire.store.load_version import load_version
from enpire.types import EpisodeArrays, Observation, Order
from enpire.wire.arrivals import Delivered
from tests.agent_loop.pretend_lab import CAMPAIGN, Running, with_skill
from tests.fakes.fake_fleet import FakeFleet, delivered

TICKS = 20
NEAR = 0.05
CLAIM = {"statement": "the action is the state", "falsifier": "no gain", "regime": "behaviour cloning", "kind": "draft"}
LEARNER = """
import numpy as np
from skills.fit import slope

def improve(job):
    rows = [one.arrays() for one in job.episodes if one.outcome == "success"]
    states = np.concatenate([one.state[:-1, 0] for one in rows])
    actions = np.concatenate([one.action[:, 0] for one in rows])
    gain = slope(states, actions, job.settings["ridge"])
    np.savez(job.output / "gain.npz", gain=gain)
    job.report("fit", 1, 1, gain=gain)
    return {"gain": gain}
"""
SKILL = '''"""Least squares through the origin."""


def slope(x, y, ridge):
    return float(x @ y / (x @ x + ridge))
'''
POLICY = """
import numpy as np

HORIZON = EXECUTE = 1

class Policy:
    def __init__(self, version, seed):
        self.gain = float(np.load(version / "gain.npz")["gain"])

    def act(self, observation):
        return self.gain * observation["state"][None, :1]
"""
FILES = {
    "learner.py": LEARNER, "policy.py": POLICY, "recipe.yaml": "settings: {ridge: 0.001}\nturn_rollouts: 60\n",
    "skills/fit.py": SKILL,
}  # fmt: skip
REGIMES = {"bad": replace(with_skill(0.05), name="bad", turn_rollouts=5)}
PLAN = BranchPlan(recipes=tuple(REGIMES), robot_s=100.0, learner_s=1000.0, least_starts=20)
CODED: Campaign = replace(
    CAMPAIGN, branches=PLAN, code=CodePlan(allowed=True),
    rounds=replace(CAMPAIGN.rounds, episodes=3000, train_starts=500),
)  # fmt: skip


class Robots:
    """Ends orders as a robot would: versions with code act on the start, the others are drawn as in `FakeFleet`."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.policies: dict[str, CodePolicy] = {}
        self.acted = 0
        """Orders that versions with code acted for."""
        self.failed: list[str] = []
        """Why policies gave no action."""
        self.kill_at = -1
        """Kills the room of the policy before this call."""

    def end(self, fleet: FakeFleet, order: Order) -> Delivered:
        folder = fleet.versions / order.policy_id
        if order.policy_id == "scripted:expert" or versions.manifest(folder)["kind"] != "code":
            return recorded(fleet.finish(order), order.start.values[0])
        return self._act(folder, order)

    def policy(self, folder: Path) -> CodePolicy:
        found = self.policies.get(folder.name)
        if found is None or found.lost:
            found = load_version(folder, folder.name)
            assert isinstance(found, CodePolicy)
            self.policies[folder.name] = found
        return found

    def _act(self, folder: Path, order: Order) -> Delivered:
        policy, value = self.policy(folder), order.start.values[0]
        self.acted += 1
        if self.acted == self.kill_at:
            os.kill(descendants(policy.link.pid)[-1], 9)
        policy.begin(0, policy_seed(order.start.seed))
        try:
            state = np.full((1, 1), value, np.float32)
            action = policy.act(Observation(stamp_ns=0, state=state), np.zeros(1, np.int64))
        except PolicyProblem as problem:
            self.failed.append(str(problem))
            return delivered(order, "aborted", 0, f"policy failed: {problem}")
        near = abs(float(action[0, 0, 0]) - value) < NEAR
        return recorded(delivered(order, "success" if near else "failure", TICKS, ""), value, float(action[0, 0, 0]))


def recorded(found: Delivered, value: float, action: float | None = None) -> Delivered:
    """The delivery with the state and the action that its robot recorded."""
    if not found.arrays_file:
        return found
    ticks = found.episode.ticks
    sent = action if action is not None else value if found.episode.outcome == "success" else -value
    data = arrays.pack(
        EpisodeArrays(
            state=np.full((ticks + 1, 1), value, np.float32),
            action=np.full((ticks, 1), sent, np.float32),
            source=np.zeros(ticks, np.uint8),
            chunk=np.zeros(ticks, np.int32),
        )
    )
    episode = replace(found.episode, sha256=hashlib.sha256(data).hexdigest())
    return replace(found, episode=episode, arrays_file=data)


def running(home: Home, campaign: Campaign = CODED) -> tuple[Running, Robots]:
    """A lab with robots; use the first as a context."""
    return Running(home, campaign=campaign, regimes=REGIMES), Robots(home)


def with_robots(lab: Running, robots: Robots) -> None:
    """Let the robots end the orders of a running lab."""
    fleet = lab.lab.fleet
    assert isinstance(fleet, FakeFleet)
    fleet.ending = lambda order: robots.end(fleet, order)


def submit(client: LabClient, files: Mapping[str, str], **more: str) -> str:
    """Propose a hypothesis and submit code for it; the experiment."""
    made = tools.call(client, "propose_hypothesis", CLAIM)
    sent = {"hypothesis_id": made["hypothesis_id"], "files": dict(files), **more}
    return str(tools.call(client, "submit_code", sent)["experiment_id"])


def opened(lab: Running, files: Mapping[str, str], lane: str = "one", **more: str) -> Branch:
    """Submit code beside the loop; its branch."""
    experiment = lab.beside(lambda: submit(lab.client(lane), files, **more))
    return lab.lab.state.branches.by_experiment[experiment]


def descendants(pid: int) -> list[int]:
    """The processes below a process, each after its parent."""
    found: list[int] = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
        for thread in Path(f"/proc/{pid}/task").iterdir():
            for child in (thread / "children").read_text().split():
                found += [int(child), *descendants(int(child))]
    return found
