"""After a hold, the next round learns from the rollouts of the held candidate that it starts from."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from enpire.campaign.learner_data import DataRow
from enpire.home import Home, open_home
from enpire.interfaces import ImprovementJob
from enpire.lab import StationStatus
from enpire.processes.training_process import TrainingProcess
from enpire.steps.improve import improve
from enpire.store.ledger import SqliteLedger
from tests.enpire.store.store_samples import an_order
from tests.enpire.test_loop import CAMPAIGN, lab_of
from tests.fakes.fake_fleet import FakeFleet, delivered

CHAMPION, HELD = "a" * 64, "b" * 64
EPISODES = CAMPAIGN.rounds.episodes


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return open_home(tmp_path / "home")


@pytest.fixture
def ledger(home: Home) -> Iterator[SqliteLedger]:
    opened = SqliteLedger(home.root / "ledger.db")
    yield opened
    opened.close()


class Started(Exception):
    """The training run that begins."""


def begins(job: ImprovementJob) -> TrainingProcess:
    raise Started


@pytest.mark.parametrize("refused_by", [("one",), ("one", "two")])
def test_it_learns_from_the_champion_while_no_station_can_run_the_held_candidate(
    home: Home, ledger: SqliteLedger, refused_by: tuple[str, ...]
) -> None:
    lab = lab_of(home, ledger, CAMPAIGN, FakeFleet(home.versions))
    lab.train = begins
    state = lab.state
    state.champion, state.champions, state.promising = CHAMPION, [CHAMPION], HELD
    for version in (CHAMPION, HELD):
        (home.versions / version).mkdir(parents=True)
        (home.versions / version / "policy.json").write_text(json.dumps({"kind": "coin"}))
    for name in ("one", "two"):
        lab.stations[name] = StationStatus(name=name, lanes=4, lease=1, facts={})

    def collect(version: str) -> None:
        for number in range(EPISODES):
            state.data.add(
                DataRow(
                    order_id=f"{version[:1]}{number:03}", sha256="", round=1, purpose="collect", policy_id=version,
                    success=True,
                )
            )  # fmt: skip

    collect(CHAMPION)
    improve(lab)  # the rollouts of the champion are not those of the round
    refusal = delivered(an_order(policy_id=HELD), "aborted", 0, "refused: no module lerobot").episode
    for name in refused_by:
        for time_s in (0.0, 100.0, 1000.0):
            lab.stations[name].take_episode(refusal, time_s)
    if len(refused_by) == 1:
        improve(lab)
        collect(HELD)
    with pytest.raises(Started):
        improve(lab)
    [started] = ledger.events(kinds=("learner started",))
    learned = Counter(str(name)[0] for name in cast("list[object]", started.body["episodes"]))
    assert learned == {"b" if len(refused_by) == 1 else "a": EPISODES}
    assert started.body["parent"] == HELD
