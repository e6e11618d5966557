"""Success gained over the base per robot-hour."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from enpire.gate.intervals import newcombe, wilson
from enpire.queries import texts
from enpire.queries.campaigns import campaign_view, open_records
from enpire.queries.gain import gain_of
from enpire.queries.gates import success
from enpire.report.report import render
from tests.fakes.sample_campaign import BASE, CAMPAIGN, SECOND, begin, record_campaign


def test_the_gain_is_the_difference_over_the_robot_hours() -> None:
    gain = gain_of(success("b", 40, 100), success("c", 90, 100), 2.0)
    assert gain is not None
    assert (gain.delta, gain.per_robot_h) == (pytest.approx(0.5), pytest.approx(0.25))
    assert (gain.low, gain.high) == newcombe(wilson(90, 100), wilson(40, 100))
    assert (gain.per_robot_h_low, gain.per_robot_h_high) == (gain.low / 2, gain.high / 2)
    assert texts.gained(gain).startswith("+50.0 points [+37.")
    assert "+25 [" in texts.gained(gain)


def test_there_is_no_gain_without_trials_robot_time_or_another_champion() -> None:
    base, champion = success("b", 40, 100), success("c", 90, 100)
    assert gain_of(None, champion, 1.0) is None
    assert gain_of(base, None, 1.0) is None
    assert gain_of(base, success("c", 0, 0), 1.0) is None
    assert gain_of(base, champion, 0.0) is None
    assert gain_of(base, base, 1.0) is None
    assert texts.gained(None) == "-"


def test_a_campaign_shows_its_gain_in_text_json_and_report(tmp_path: Path) -> None:
    record_campaign(tmp_path)
    with open_records(tmp_path) as records:
        view = campaign_view(records, CAMPAIGN)
        count = {version: [0, 0] for version in (BASE, SECOND)}
        for purpose in ("base", "gate", "confirm"):
            for version, found in count.items():
                counted = records.reading.successes(CAMPAIGN, purpose, version)
                found[0], found[1] = found[0] + counted[0], found[1] + counted[1]
        report = render(records, CAMPAIGN)
    assert view.gain is not None
    rates = {version: found[0] / found[1] for version, found in count.items()}
    assert view.gain.delta == pytest.approx(rates[SECOND] - rates[BASE])
    assert view.gain.robot_h == pytest.approx(2 * 16 * 60 / 3600)
    assert texts.gained(view.gain) in texts.campaign(view)
    assert texts.gained(view.gain) in report
    assert json.loads(json.dumps(asdict(view)))["gain"]["per_robot_h"] == pytest.approx(view.gain.per_robot_h)


def test_a_campaign_whose_base_is_its_champion_has_no_gain(tmp_path: Path) -> None:
    begin(tmp_path).flush()
    with open_records(tmp_path) as records:
        assert campaign_view(records, CAMPAIGN).gain is None
