"""The rate and the jitter that a station reports are those of its control periods."""

from __future__ import annotations

import pytest

from enpire.station.pace import MEASURED, Pace


def test_the_rate_and_the_jitter_of_the_newest_periods() -> None:
    now = [0.0]
    pace = Pace(0.02, lambda: now[0])
    assert pace.measured() == (0.0, 0.0), "nothing is known yet"
    for number in range(3 * MEASURED):
        now[0] += 0.025 if number % 10 == 0 else 0.02
        pace.keep(resting=False)
    rate_hz, jitter_ms = pace.measured()
    assert rate_hz == pytest.approx(1 / 0.0205)
    assert jitter_ms == pytest.approx(5.0)
    for _ in range(MEASURED):
        now[0] += 1.0
        pace.keep(resting=True)
    assert pace.measured() == (rate_hz, jitter_ms), "a rest has no periods"
    fast = Pace(0.0, lambda: now[0])
    fast.keep(resting=False)
    assert fast.measured() == (0.0, 0.0), "a fast simulation has no rate"
