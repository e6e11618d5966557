"""In lockstep the same seed gives the same campaign, independent of the speed of stations."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from agent_loop.session import AgentSession, run_session
from enpire.campaign.apply_events import apply_event
from enpire.campaign.campaign import AgentPlan, Budget, Campaign, Rounds, Stations
from enpire.errors import FileProblem
from enpire.files import parse, plain
from enpire.home import open_home
from enpire.scheduling.lockstep import experiment_first
from enpire.wire.arrivals import Arrival
from tests.agent_loop.pretend_lab import CAMPAIGN, Running
from tests.enpire.campaign.test_quarantine import held, story
from tests.fakes.fake_fleet import FakeFleet
from tests.fakes.sample_events import append, event

LOCKSTEP = replace(
    CAMPAIGN, stations=Stations(count=4, lanes=4, ahead=8), agents=(AgentPlan(name="search"),),
    rounds=Rounds(episodes=30, train_starts=50, hard_starts=0.0, lockstep=True), budget=Budget(wall_s=900, rounds=3),
)  # fmt: skip


class Hurried(FakeFleet):
    """Ends the newest orders first, and at every second poll none."""

    def poll(self, timeout_s: float) -> Sequence[Arrival]:
        self.held = dict(reversed(self.held.items()))
        return super().poll(timeout_s)


def run(folder: Path, fleet: type[FakeFleet]) -> tuple[list[object], list[object], list[object]]:
    """Proposals, gates and training data, in order."""
    home = open_home(folder)
    (home.root / "secret").write_text("5e" * 32)
    with Running(home, campaign=LOCKSTEP) as lab:
        lab.lab.fleet = fleet(home.versions, names=LOCKSTEP.stations.names)
        lab.lab.agent_sessions.append(Nobody())
        session = AgentSession(home=home.root, campaign_id="C1", lane="search-1", agent="search", work=folder, seed=1)
        said: list[str] = []
        thread = threading.Thread(target=run_session, args=(session, said.append), daemon=True)
        thread.start()
        lab.until(
            lambda lab: lab.state.round >= 3 and not (lab.state.training or lab.state.gates or lab.state.candidates)
        )
        append(lab.ledger, [("campaign ended", {"campaign_id": "C1", "reached": False, "reason": "the test"})])
        thread.join(300)
        changes: list[object] = [dict(item.changes) for item in lab.lab.state.proposals.experiments.values()]
        decided = lab.ledger.events(kinds=("gate decided",))
        gates: list[object] = [tuple(e.body[key] for key in ("decision", "pairs", "wins", "losses")) for e in decided]
        learned: list[object] = [event.body["data_hash"] for event in lab.ledger.events(kinds=("learner started",))]
    return changes, gates, learned


class Nobody:
    """Replaces the agent lane that runs in a thread of the test."""

    def turn(self, lab: object) -> None:
        pass

    def end(self) -> None:
        pass


def test_lockstep_is_equal_on_a_fleet_that_delivers_in_another_order(tmp_path: Path) -> None:
    first, again = run(tmp_path / "one", FakeFleet), run(tmp_path / "two", Hurried)
    changes, gates, learned = first
    assert len(gates) >= 2
    assert len(set(learned)) >= 2
    assert again[1:] == (gates, learned)
    # Of three rounds the second is an experiment. The next one may or may not be submitted when the campaign ends.
    both = min(len(changes), len(again[0]))
    assert both >= 1
    assert again[0][:both] == changes[:both]


def test_impossible_lockstep_settings_are_refused() -> None:
    written = plain(LOCKSTEP)
    assert isinstance(written, dict)
    for part, changed, why in (
        ("rounds", {"hard_starts": 0.5}, "hard_starts: 0"),
        ("rounds", {"supervised": 0.1}, "supervised: 0"),
        ("stations", {"count": 0}, "stations count of at least 1"),
        ("budget", {"wall_s": 0}, "set budget wall_s above 0"),
    ):
        with pytest.raises(FileProblem, match=why):
            parse(Campaign, {**written, part: {**written[part], **changed}}, "It")
    with pytest.raises(FileProblem, match="one lane of agents"):
        parse(Campaign, {**written, "agents": [{"name": "search", "lanes": 2}]}, "It")


def test_lockstep_waits_for_an_agent_but_for_no_person() -> None:
    state = story()
    assert experiment_first(state, LOCKSTEP), "an experiment of the session `one` is in its gate"
    apply_event(state, event("agent ended", lane="search-1", agent="search", why="done", again=False), 20)
    assert experiment_first(state, LOCKSTEP), "the experiment is not decided"
    apply_event(state, held("e1", "v1", "operator"), 21)
    assert not experiment_first(state, LOCKSTEP)
    apply_event(state, event("agent started", lane="search-1", agent="search", start=1, sandbox="none"), 22)
    assert experiment_first(state, LOCKSTEP), "the session is free to submit another one"
    state.proposals.experiments["e1"].lane = "search-1"
    assert not experiment_first(state, LOCKSTEP), "what an operator holds blocks its session"
    state.proposals.experiments["e1"].tripwires = frozenset({"critic"})
    assert experiment_first(state, LOCKSTEP), "what a tripwire does not believe does not"
