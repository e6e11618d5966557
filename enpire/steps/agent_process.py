"""Agent sessions as child processes of the orchestrator. The loop never waits for one, even if it crashes or hangs."""

from __future__ import annotations

import json
import subprocess
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

from enpire.campaign.agent_events import AgentEnded, AgentStarted
from enpire.campaign.campaign import AgentPlan, Campaign
from enpire.campaign.recipe import read_recipe
from enpire.code_candidates.authored_tasks import author_of
from enpire.errors import UsageError
from enpire.ids import file_name
from enpire.lab import Lab
from enpire.parts import AGENTS, key_variables, providers_of, token_limit
from enpire.processes.child_process import ProcessLimits, end_process, single_core_environment, start_python
from enpire.processes.model_providers import require_ready
from enpire.processes.sandbox import bubblewrap
from enpire.requests.model_leases import ModelLimits
from enpire.store import durable

PROGRAM = "agent_loop.session"
MAX_RESTARTS = 5
"""Restarts in a row of an agent session whose process ended with an error, before it stays ended."""
PAUSE_S = 2.0
"""Seconds before the first restart. The wait doubles with each restart in a row."""
STEADY_S = 600.0
"""Seconds after which the end of a process is the first in a row: a night has more than MAX_RESTARTS causes to end one,
and Linux ends agents first when memory runs out."""


@dataclass(slots=True)
class AgentProcess:
    """One agent session: one agent in one process, which is restarted after an error."""

    lane: str
    """Name of the agent session, as events store it."""
    plan: AgentPlan
    folder: Path
    seed: int
    process: subprocess.Popen[bytes] | None = None
    starts: int = 0
    started_s: float = 0.0
    """Monotonic clock of its latest start."""
    ends: int = 0
    """Ends with an error in a row: each within STEADY_S of its start."""
    due_s: float = field(default_factory=time.monotonic)
    """Monotonic clock of its next start."""

    def turn(self, lab: Lab) -> None:
        """Start the process when it is due, and record its end. Does not block."""
        if self.process is not None:
            code = self.process.poll()
            if code is not None:
                self._ended(lab, code)
            return
        due = self.ends <= MAX_RESTARTS and time.monotonic() >= self.due_s
        if due and self.lane not in lab.state.proposals.finished:
            self._start(lab)

    def end(self) -> None:
        """End the process. Its requests are in the inbox or in the ledger."""
        if self.process is not None:
            end_process(self.process)
            self.process = None

    def _start(self, lab: Lab) -> None:
        budget = lab.campaign.budget
        job = {
            "home": str(lab.home.root), "campaign_id": lab.state.campaign_id, "lane": self.lane,
            "agent": self.plan.name, "seed": self.seed, "options": dict(self.plan.options), "work": str(self._work),
            "own": asdict(self._limits), "shared": {"tokens": budget.tokens, "money": budget.money},
        }  # fmt: skip
        durable.make_folder(self._work)
        durable.write(self.folder / "session.json", json.dumps(job).encode())
        self.starts, self.started_s = self.starts + 1, time.monotonic()
        arguments, log = [str(self.folder), "--die-with-parent"], self.folder / "log.txt"
        own = key_variables(AGENTS.load(self.plan.name))
        limits = ProcessLimits(nice=10, oom_score=1000)
        self.process = start_python(PROGRAM, arguments, log, limits, single_core_environment(*own))
        sandbox = "bubblewrap" if bubblewrap() else "none"
        lab.write(AgentStarted(lane=self.lane, agent=self.plan.name, start=self.starts, sandbox=sandbox))

    @property
    def _limits(self) -> ModelLimits:
        """What the session may spend on language models. Its option `tokens` is a limit, too; the smaller one holds."""
        limits = (self.plan.tokens, token_limit(AGENTS.load(self.plan.name), self.plan.options))
        return ModelLimits(tokens=min(filter(None, limits), default=0), money=self.plan.money)

    @property
    def _work(self) -> Path:
        """The session's folder for its log, and for the agent's files where there is no sandbox."""
        return self.folder / "work"

    def _ended(self, lab: Lab, code: int) -> None:
        """Record the end. Exit code 0 means that the agent is done; otherwise plan a restart."""
        self.process, now_s = None, time.monotonic()
        earlier = self.ends if now_s - self.started_s < STEADY_S else 0
        self.ends = earlier + 1 if code else MAX_RESTARTS + 1
        self.due_s = now_s + PAUSE_S * 2 ** (self.ends - 1)
        restarts = self.ends <= MAX_RESTARTS
        why = f"its process ended with code {code}; its log is {self.folder / 'log.txt'}"
        lab.write(AgentEnded(lane=self.lane, agent=self.plan.name, why=why, again=restarts))


def agent_sessions_of(lab: Lab) -> list[AgentProcess]:
    """The agent sessions that the campaign file asks for, not yet started."""
    lanes: list[AgentProcess] = []
    for plan in lab.campaign.agents:
        for lane in plan.lane_names:
            folder = lab.home.root / "agents" / file_name(lab.state.campaign_id, "a campaign")
            folder = folder / file_name(lane, "an agent session")
            seed = lab.campaign.seed * 1000 + len(lanes)
            lanes.append(AgentProcess(lane=lane, plan=plan, folder=folder, seed=seed))
    return lanes


def require_agents(campaign: Campaign) -> None:
    """Check that the agents of a campaign can work, before anything is written.

    Raises:
        UnknownName: no agent has that name.
        MissingExtra: an agent needs a package that is not installed.
        FileProblem: options of an agent are wrong.
        UsageError: the recipe declares no search space, a provider of language models has no key, or an agent wrote
            the campaign's task.
    """
    if (author := author_of(campaign.task)) in {plan.name for plan in campaign.agents}:
        raise UsageError(
            f"The agent {author} wrote the task {campaign.task}, so it cannot experiment in a campaign of this task: "
            "an agent never judges its own experiments. Use other agents."
        )
    for plan in campaign.agents:
        part = AGENTS.load(plan.name)
        require_ready(providers_of(part, plan.options), plan.name)
        token_limit(part, plan.options)
    if campaign.agents and not campaign.branches.recipes and not read_recipe(campaign.recipe).space:
        raise UsageError(
            f"The campaign {campaign.name!r} has agents, but its recipe {campaign.recipe!r} declares no `space` of "
            "settings that they may change. Add a `space` to the recipe file, or remove `agents` from the campaign."
        )
