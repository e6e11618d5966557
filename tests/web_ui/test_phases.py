"""Phase clocks: when a stay began, and what is usual."""

from __future__ import annotations

import time

from web_ui.phases import ENOUGH, PhaseClocks


def test_a_clock_runs_on_while_the_phase_stays_and_begins_again_with_the_next() -> None:
    clocks = PhaseClocks()
    began = clocks.since_ms("sim-1", "rollout")
    time.sleep(0.02)
    assert clocks.since_ms("sim-1", "rollout") == began
    assert clocks.since_ms("sim-2", "rollout") > began
    assert clocks.since_ms("sim-1", "reset") > began


def test_percentiles_are_told_once_enough_was_seen() -> None:
    clocks = PhaseClocks(update_every_s=0)
    assert clocks.usual_s() == {}
    for _ in range(ENOUGH + 1):
        clocks.since_ms("sim-1", "rollout")
        clocks.since_ms("sim-1", "reset")
    usual = clocks.usual_s()
    assert set(usual) == {"rollout", "reset"}
    slow_s, stuck_s = usual["rollout"]
    assert 0 <= slow_s <= stuck_s < 20
