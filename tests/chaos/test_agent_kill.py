"""kill -9 of the processes of coding agents, during a call of their model, in each phase of branches.

An agent session has two processes: the session itself, and the room inside which the agent's code runs. Both reach the
model through the model gateway, a third one. The agents are two sessions of `anthropic`. A thread of the test submits
the experiments, so that the phases do not depend on what the model answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from tests.chaos.branch_campaign import PHASES, bodies, kill_in_each_phase, running_branches
from tests.chaos.harness import (
    WAIT_S,
    Orchestrator,
    children,
    command_line,
    kill_quietly,
    newest_event,
    until,
)
from tests.chaos.numbered_model import NumberedModel, served, used_tools

pytestmark = [pytest.mark.timeout(2400)]
SESSION, ROOM, GATEWAY = "agent_loop.session", "agent_loop.room", "agent_loop.model_gateway.process"
AGENT = {"name": "anthropic", "lanes": 2, "options": {"model": "a-model", "tokens": 10**9}}
"""Sessions with more tokens than they can use: a lost call counts with the most that it could cost."""
SESSIONS = ("anthropic-1", "anthropic-2")
FAILED = "the turn failed"


@dataclass
class Kills:
    """Kills of one kind of process, each during a call of the model."""

    lab: Orchestrator
    model: NumberedModel
    victim: str
    before: dict[str, int] = field(default_factory=dict[str, int])
    """Agent session of the call -> newest event before the last kill."""
    met: set[int] = field(default_factory=set[int])
    """Gateways that were killed; sessions that were, or whose rooms were."""

    def kill(self, phase: str, present: frozenset[str]) -> Callable[[], object] | None:
        """Kill one. The gateway must work again before the next kill.

        A session may start again during the next kill, which meets the other one or comes in its next call.
        """
        for lane in (lane for lane in SESSIONS if self.model.running[lane]):
            event, owners = newest_event(self.lab.home), self.owners(lane)
            rooms = [pid for owner in owners for pid in descendants(owner) if ROOM in command_line(pid)]
            pids = rooms if self.victim == ROOM else owners
            if pids and not self.met & {*owners} and kill_quietly(pids[-1]):
                self.before[lane] = event
                self.met.update(owners)
                return partial(self.works, lane) if self.victim == GATEWAY else lambda: True
        return None

    def owners(self, lane: str) -> Sequence[int]:
        """The process of the gateway, or of a session, which starts its room; () if it does not run."""
        if self.victim == GATEWAY:
            return children(self.lab.pid, GATEWAY)
        return [pid for pid in children(self.lab.pid, SESSION) if f"/{lane} " in command_line(pid)]

    def works(self, lane: str) -> bool:
        """Whether another process does its work, and the session ended a turn without a failure."""
        turned = bodies(self.lab.home, "agent turned", self.before[lane])
        good = [body for body in turned if body["lane"] == lane and not str(body["text"]).startswith(FAILED)]
        return bool(good) and bool({*self.owners(lane)} - self.met)


@pytest.mark.slow
@pytest.mark.parametrize("victim", [SESSION, ROOM, GATEWAY], ids=["session", "room", "gateway"])
def test_kills_of_processes_of_agents_lose_and_double_nothing(tmp_path: Path, victim: str) -> None:
    model = NumberedModel()
    with served(model) as address:
        key = {"ANTHROPIC_BASE_URL": address, "ANTHROPIC_API_KEY": "none"}
        with running_branches(tmp_path, [AGENT], **key) as running:
            kills = Kills(running.lab, model, victim)
            number = kill_in_each_phase(running.lab, running.events, kills.kill)
            for lane in kills.before:
                until(partial(kills.works, lane), f"a turn of {lane} after its last kill", 2 * WAIT_S)
    home = running.lab.home
    require_each_call_recorded_once(home, model)
    lost = [body for body in bodies(home, "model called") if body["outcome"] == "lost"]
    assert number >= len(PHASES)
    if victim == GATEWAY:
        assert len(lost) >= number
    else:
        assert len(lost) <= len(SESSIONS), "only calls that ran at the end of the campaign"
        assert len(bodies(home, "agent ended")) == number


def descendants(pid: int) -> Sequence[int]:
    """The living processes below a process, each after its parent."""
    return [found for child in children(pid) for found in (child, *descendants(child))]


def require_each_call_recorded_once(home: Path, model: NumberedModel) -> None:
    """Each call that reached the model has one event, and no question reached it twice.

    What the model had a tool do is done once: each conversation that continued after it has its conclusion.
    """
    calls = bodies(home, "model called")
    assert len({call["call_id"] for call in calls}) == len(calls)
    answered = Counter(str(call["model"]) for call in calls if call["outcome"] == "answered")
    assert max(answered.values()) == 1
    without = set(model.names()) - set(answered)
    assert set(answered) <= set(model.names())
    outcomes = Counter(call["outcome"] for call in calls)
    # A gateway that was killed may have recorded a call that it did not send yet.
    assert len(without) <= outcomes["lost"] <= len(without) + 2 * len(PHASES)
    assert outcomes.keys() <= {"answered", "lost"}
    questions = [str(question["messages"]) for question in model.asked]
    assert len(set(questions)) == len(questions)
    posted = Counter(str(body["text"]) for body in bodies(home, "finding posted"))
    assert max(posted.values()) == 1
    used = {str(one["input"]["text"]) for question in model.asked for one in used_tools(question)}
    assert used <= set(posted)
