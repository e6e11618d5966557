"""Robots begin before agents, and at the end no process waits for another."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from enpire.campaign.campaign import AgentPlan
from enpire.home import open_home
from enpire.lab import Lab, StationStatus
from enpire.steps import evolve
from enpire.steps.ending import shut_down
from enpire.steps.evolve import STATIONS_FIRST_S
from enpire.store.ledger import SqliteLedger
from tests.enpire.test_loop import CAMPAIGN, lab_of

PATIENCE_S = 10.0


@dataclass
class Ends:
    """A session that ends only when all others are ending, too."""

    together: threading.Barrier
    ended: bool = False

    def turn(self, lab: Lab) -> None:
        """Nothing."""

    def end(self) -> None:
        self.together.wait(PATIENCE_S)
        self.ended = True


def test_sessions_end_together(tmp_path: Path) -> None:
    home = open_home(tmp_path / "home")
    ledger = SqliteLedger(home.ledger)
    lab = lab_of(home, ledger)
    together = threading.Barrier(12)
    sessions = [Ends(together) for _ in range(12)]
    lab.agent_sessions.extend(sessions)
    shut_down(lab)
    assert all(session.ended for session in sessions)
    ledger.close()


def test_an_error_of_a_session_that_ends_is_not_lost_and_the_robot_time_is_written(tmp_path: Path) -> None:
    home = open_home(tmp_path / "home")
    ledger = SqliteLedger(home.ledger)
    lab = lab_of(home, ledger)
    lab.agent_sessions.append(Ends(threading.Barrier(1)))
    lab.agent_sessions.append(Ends(_Broken()))
    with pytest.raises(threading.BrokenBarrierError):
        shut_down(lab)
    assert [event.kind for event in ledger.events()][-1] == "robot time"
    ledger.close()


class _Broken(threading.Barrier):
    def __init__(self) -> None:
        super().__init__(2)
        self.abort()


@dataclass
class Begun:
    """A session that counts its turns."""

    turns: int = 0

    def turn(self, lab: Lab) -> None:
        self.turns += 1

    def end(self) -> None:
        """Nothing."""


@pytest.mark.parametrize("joined", [True, False])
def test_agents_wait_for_the_stations_of_the_campaign_but_not_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, joined: bool
) -> None:
    home = open_home(tmp_path / "home")
    ledger = SqliteLedger(home.ledger)
    stations = replace(CAMPAIGN.stations, count=2)
    lab = lab_of(home, ledger, replace(CAMPAIGN, agents=(AgentPlan(name="search"),), stations=stations))
    now = [lab.began_s]
    lab.clock = lambda: now[0]
    begun = Begun()
    monkeypatch.setattr(evolve, "agent_sessions_of", lambda lab: [begun])

    def later(seconds: float) -> None:
        now[0] += seconds
        evolve.evolve(lab)

    for name in ("sim-1", "elsewhere"):
        lab.stations[name] = StationStatus(name=name, lanes=4, lease=1, facts={})
    later(1.0)
    assert not begun.turns
    if joined:
        lab.stations["sim-2"] = StationStatus(name="sim-2", lanes=4, lease=1, facts={})
    later(1.0 if joined else STATIONS_FIRST_S)
    assert begun.turns == 1
    ledger.close()
