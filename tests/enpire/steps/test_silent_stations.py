"""Stations that are away when a campaign goes on, learners that are killed: nothing waits for them for ever."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from enpire.codec import order_fields
from enpire.home import open_home
from enpire.steps import record as step
from enpire.steps.improve import MAX_RESTARTS
from enpire.store.ledger import SqliteLedger
from tests.chaos.harness import until
from tests.enpire.test_loop import lab_of, lab_seat
from tests.fakes.fake_fleet import FakeFleet
from tests.fakes.sample_events import write


def test_orders_of_a_station_that_does_not_come_back_after_a_restart_end_as_unknown(tmp_path: Path) -> None:
    home = open_home(tmp_path / "home")
    ledger = SqliteLedger(home.ledger)
    lab = lab_of(home, ledger, fleet=FakeFleet(home.versions, names=("two",)))
    orders = lab.scheduler.next_orders(lab.state, lab_seat())
    write(lab, ("order issued", {"orders": [order_fields(order) for order in orders]}))
    step.record(lab)
    assert len(lab.state.open) == len(orders), "it may still come back"
    lab.began_s = time.monotonic() - step.SILENT_S - 1.0
    step.record(lab)
    assert not lab.state.open
    assert {lab.state.ended[order.order_id] for order in orders} == {"unknown"}
    ledger.close()


def test_a_learner_that_is_killed_again_and_again_goes_on_and_then_counts_as_failed(tmp_path: Path) -> None:
    from enpire.interfaces import ImprovementJob
    from enpire.processes.training_process import TrainingProcess

    work = tmp_path / "job"
    job = ImprovementJob(
        recipe={"name": "reach", "learner": "tests.chaos.point_lab:Reach", "settings": {}}, task="coin", parent=None,
        episodes=(), work=work, output=work / "version", round=0, seed=0,
    )  # fmt: skip
    run = TrainingProcess.begin(job)
    for number in range(2):
        os.kill(run.process.pid, signal.SIGKILL)
        until(run.was_killed, "the end of the process")
        assert run.restarts == number < MAX_RESTARTS
        run = run.again(TrainingProcess.begin, job)
    until(lambda: run.metrics() is not None, "the result of the run that was left alone")
    assert not run.was_killed()
    assert run.failure() == ""
