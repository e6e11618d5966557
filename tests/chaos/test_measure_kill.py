"""kill -9 while robots measure a promising champion: each hidden start counts once, and the champion is confirmed."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import cast

from tests.chaos.harness import STATION, WAIT_S, Orchestrator, Witness, audit, rows, until
from tests.chaos.point_lab import write_campaign
from tests.chaos.test_kill import kill_one


def measured(home: Path, which: str) -> list[tuple[str, int]]:
    """(version, start) of the measurements that fit a condition; empty before the campaign has begun."""
    if not (home / "ledger.db").exists():
        return []
    found = rows(home, f"SELECT policy_id, start_index FROM orders WHERE purpose = 'measure' AND {which}")
    return [(str(version), int(start)) for version, start in found]


def test_kills_during_a_measurement_lose_and_double_no_start(tmp_path: Path) -> None:
    home = tmp_path / "home"
    goal = {"success": 0.2, "by": "bound", "confirm_starts": 100, "attempt_chance": 0.999}
    lab = Orchestrator(write_campaign(tmp_path / "files", goal=goal), home)
    witness = Witness.of(home)
    witness.start()
    lab.start()
    try:
        for victim in ("orchestrator", STATION, "power"):
            before = len(measured(home, "outcome <> 'aborted'"))
            until(
                lambda: len(measured(home, "outcome <> 'aborted'")) > before and measured(home, "ended_seq IS NULL"),  # noqa: B023
                f"measurements before the kill of {victim}",
            )
            assert kill_one(lab, victim)
        assert cast("subprocess.Popen[bytes]", lab.process).wait(WAIT_S) == 0, lab.said()[-2000:]
    finally:
        lab.kill_all()
        witness.stop()
    assert audit(home, witness).problems() == []
    judged, all_orders = measured(home, "outcome IN ('success', 'failure')"), measured(home, "1")
    assert len(judged) > 3
    assert len(all_orders) == len(set(all_orders)), "a start was measured twice"
    assert measured(home, "outcome = 'aborted'"), "no kill met a measurement"
