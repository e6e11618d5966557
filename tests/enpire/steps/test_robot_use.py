"""What the robots did in this session: utilisation, share in motion, real-time factor."""

from __future__ import annotations

from pathlib import Path

import pytest

from enpire.campaign.apply_events import rebuilt
from enpire.home import open_home
from enpire.lab import StationStatus
from enpire.monitor.lab_snapshot import RobotUse
from enpire.steps.take_snapshot import robot_use, snapshot
from enpire.store.ledger import SqliteLedger
from tests.enpire.test_loop import open_lab
from tests.fakes.sample_campaign import CAMPAIGN, begin
from tests.fakes.sample_events import append


def test_the_three_numbers_tell_motion_from_waiting(tmp_path: Path) -> None:
    with open_lab(open_home(tmp_path / "home")) as lab:
        assert robot_use(lab) == RobotUse(), "no station yet"
        lab.began_s = lab.clock() - 1000.0
        times = ({"rollout": 400.0, "reset": 100.0, "wait-policy": 300.0}, {"rollout": 200.0, "wait-order": 800.0})
        for number, seconds in enumerate(times):
            name = f"cell-{number}"
            lab.stations[name] = StationStatus(name=name, lanes=4, lease=1, facts={}, process_s=dict(seconds))
        assert robot_use(lab).real_time_factor is None, "no rollout has ended"
        lab.state.session_ticks = round(4800 / lab.task.spec.period_s)
        use = snapshot(lab).use
        assert use.mru == pytest.approx((0.8 + 0.2) / 2, rel=0.01)
        assert use.motion == pytest.approx((0.5 + 0.2) / 2, rel=0.01)
        assert use.real_time_factor == pytest.approx(4800 / (4 * 600), rel=0.01)
        for station in lab.stations.values():
            station.process_s.pop("wait-policy", None)
        assert robot_use(lab).motion is None, "stations of an older ENPIRE do not report their waits"


def test_ticks_count_from_the_begin_of_the_session(tmp_path: Path) -> None:
    record = begin(tmp_path)  # four demonstrations and forty trials of 40 ticks
    record.end(record.order("collect", "b" * 64, 1, index=7), "failure", ticks=25)
    record.flush()
    ledger = SqliteLedger(tmp_path / "ledger.db")
    try:
        assert rebuilt(ledger, CAMPAIGN).session_ticks == 44 * 40 + 25
        append(ledger, [("campaign resumed", {"campaign_id": CAMPAIGN})])
        assert rebuilt(ledger, CAMPAIGN).session_ticks == 0
    finally:
        ledger.close()
