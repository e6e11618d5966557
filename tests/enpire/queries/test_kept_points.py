"""What success cost: each session's robot time, tokens and money per point that its promoted candidates gained."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from enpire.queries import campaigns, texts
from enpire.queries.models import CampaignView
from enpire.report.report import write_report
from tests.fakes.sample_branches import GOOD, record_branches, version
from tests.fakes.sample_campaign import BASE, CAMPAIGN, record_campaign

CALL = {
    "author": "anthropic", "provider": "p", "endpoint": "messages", "model": "m", "outcome": "answered", "status": 200,
    "fresh": 900, "cache_read": 60, "cache_write": 30, "output": 10, "bound": 5000, "money": 0.25, "currency": "USD",
}  # fmt: skip


def view_of(home: Path) -> CampaignView:
    with campaigns.open_records(home) as records:
        return campaigns.campaign_view(records, CAMPAIGN)


def test_a_kept_point_has_the_cost_of_its_session(tmp_path: Path) -> None:
    record = record_branches(tmp_path)
    for number, lane in enumerate(("search-1", "search-1", "search-2")):
        record.tell("model called", **{**CALL, "call_id": str(number), "lane": lane})
    record.tell("model called", **{**CALL, "call_id": "lost", "lane": "search-2", "outcome": "lost", "money": None})
    record.flush()
    view = view_of(tmp_path)
    good, bad, more, whole = view.kept_points
    assert view.branches is not None
    assert [one.lane for one in view.kept_points] == ["search-1", "search-2", "search-3", ""]
    assert [(one.experiments, one.kept) for one in view.kept_points] == [(1, 1), (1, 0), (0, 0), (2, 1)]
    points = 100 * (view.gates[0].wins - view.gates[0].losses) / view.gates[0].pairs
    assert good.points == whole.points == pytest.approx(points) != 0
    branch_s = [one.robot_s for one in view.branches.branches]
    assert good.robot_s == pytest.approx(branch_s[0] + view.branches.robot_time["gates"])
    assert (bad.robot_s, more.robot_s) == (pytest.approx(branch_s[1]), pytest.approx(branch_s[2]))
    assert whole.robot_s == pytest.approx(3600 * view.robot_h)
    assert (good.tokens, bad.tokens, more.tokens, whole.tokens) == (2000, 1000 + 5000, 0, 8000)
    assert good.robot_min_per_point == pytest.approx(good.robot_s / 60 / points)
    assert good.tokens_per_point == pytest.approx(2000 / points)
    assert good.money_per_point == {"USD": pytest.approx(0.5 / points)}
    assert (bad.robot_min_per_point, bad.tokens_per_point, bad.money_per_point) == (None, None, None)
    assert (whole.money, whole.money_is_known, whole.money_per_point) == ({"USD": 0.75}, False, None), "one is unknown"
    assert whole.tokens_per_point == pytest.approx(8000 / points)
    json.dumps(asdict(view), allow_nan=False)
    shown = texts.campaign(view)
    each = f"2000 tokens ({2000 / points:.0f} per point), 0.5000 USD ({0.5 / points:.4f} USD per point)"
    assert f"  search-1: 1 experiment, 1 candidate kept, {points:+.1f} points; robot " in shown
    assert each in shown
    assert (
        f"  search-2: 1 experiment, no kept point; robot {bad.robot_s / 60:.1f} min, 6000 tokens, 0.2500 USD\n" in shown
    )
    assert "0.7500 USD (unknown per point)" in shown
    page = write_report(tmp_path).read_text()
    assert f"<td>{0.5 / points:.4f} USD</td>" in page
    assert "<td>unknown</td>" in page


def test_what_was_rolled_back_is_no_kept_point(tmp_path: Path) -> None:
    record = record_branches(tmp_path)
    record.tell("rolled back", policy_id=version(GOOD, 2), to=BASE, reason="it fails", round=2)
    record.flush()
    good, *_, whole = view_of(tmp_path).kept_points
    assert (good.kept, good.points, good.robot_min_per_point, whole.points) == (0, 0, None, 0)
    assert good.robot_s > 0


def test_tokens_of_an_earlier_version_have_no_known_price(tmp_path: Path) -> None:
    record = record_branches(tmp_path)
    record.tell("tokens spent", lane="search-1", author="anthropic", fresh=100, cached=0, output=0, model="m")
    record.flush()
    good = view_of(tmp_path).kept_points[0]
    assert (good.tokens, good.money, good.money_is_known, good.money_per_point) == (100, {}, False, None)
    assert "100 tokens (" in texts.campaign(view_of(tmp_path))
    assert "money unknown (unknown per point)" in texts.campaign(view_of(tmp_path))


def test_a_campaign_without_experiments_has_no_such_rows(tmp_path: Path) -> None:
    record_campaign(tmp_path)
    assert view_of(tmp_path).kept_points == ()
