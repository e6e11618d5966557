"""A real lab in a thread: real ledger, commands, gates and training; only its stations are pretended."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Self

from enpire.campaign.campaign import Goal
from enpire.files import plain
from enpire.home import Home
from enpire.lab import Lab
from enpire.loop import run
from enpire.monitor.live_lab import LiveLab
from enpire.steps.take_snapshot import snapshot
from enpire.store.ledger import SqliteLedger
from tests.enpire.test_loop import CAMPAIGN, lab_of
from tests.fakes.sample_events import append
from tests.fakes.waiting import PATIENCE_S, until

TASK = "tests.fakes.fake_fleet:CoinTask"
PLAN = replace(
    CAMPAIGN, task=TASK, goal=Goal(success=1.0, by="bound", confirm_starts=30, attempt_chance=0.99),
    budget=replace(CAMPAIGN.budget, wall_s=1800.0, rounds=1000),
)  # fmt: skip
"""It never reaches its goal, so it runs until it is ended."""


@dataclass
class RunningLab:
    """Runs while entered; `live` is what the server of a page needs."""

    home: Home
    live: LiveLab = field(init=False)
    problems: list[BaseException] = field(default_factory=list[BaseException])

    def __enter__(self) -> Self:
        self.live = LiveLab(self.home)
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *problem: object) -> None:
        self._leaving.set()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()
        assert not self.problems, self.problems

    def until(self, true: Callable[[], bool], what: str) -> None:
        """Wait for a condition."""
        until(lambda: true() or bool(self.problems), what)
        assert not self.problems, self.problems

    @property
    def champion(self) -> str:
        """Its champion now; empty before the first."""
        now = self.live.snapshot()
        return now.champion if now is not None else ""

    def _run(self) -> None:
        ledger = SqliteLedger(self.home.ledger)
        try:
            body = {"name": PLAN.name, "task": TASK, "campaign": plain(PLAN), "goal": plain(PLAN.goal)}
            append(ledger, [("campaign started", {"campaign_id": "C1", **body})])
            lab = lab_of(self.home, ledger, PLAN)
            lab.tick = lambda: self._show(lab)
            lab.event_observers.append(self.live.note)
            run(lab)
        except BaseException as problem:  # noqa: BLE001  a test reports it
            self.problems.append(problem)
        finally:
            self.live.update(None)
            ledger.close()

    def _show(self, lab: Lab) -> None:
        self.live.update(snapshot(lab))
        if self._leaving.is_set() and not lab.end_reason:
            lab.end_reason = "the test has ended"
