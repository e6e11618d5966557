"""A chart of success draws no point below ten trials, one line for each kind of start, and always the interval."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from enpire.monitor.lab_snapshot import RoundLine
from enpire.types import Interval
from tests.end_to_end.conftest import NEEDED, set_up
from tests.end_to_end.watch import Watch
from tests.web_ui.scripted_lab import ScriptedLab
from web_ui.server import Server

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = [*NEEDED]
COLUMN = """([share, rates]) => {
  const over = document.querySelector(".u-over"), ratio = devicePixelRatio;
  const ink = document.querySelector(".uplot canvas").getContext("2d");
  const x = Math.round((over.offsetLeft + share * over.clientWidth + 1) * ratio);
  const y = (rate) => Math.round((over.offsetTop + (1 - rate) * over.clientHeight) * ratio);
  return rates.map((rate) => [...ink.getImageData(x, y(rate), 1, 1).data].join());
}"""
"""Colours of the pixels at these rates, one pixel right of a share of the x axis: beside its grid line."""


def test_a_point_has_ten_trials_its_interval_and_its_numbers_on_hover(
    server: tuple[Server, ScriptedLab], context: BrowserContext
) -> None:
    running, lab = server
    lab.more_rounds = (
        RoundLine(round=4, purpose="collect", interval=Interval(successes=2, n=2, low=0.342, high=1.0)),
        RoundLine(
            round=4, purpose="hidden", id="c" * 64, interval=Interval(successes=180, n=200, low=0.851, high=0.934)
        ),
    )
    expect, watch, page = playwright.expect, Watch(), context.new_page()
    watch.follow(page)
    set_up(page, running)
    chart = page.get_by_role("region", name="Success by round")
    expect(chart).to_contain_text("1 with fewer than 10 trials is not drawn.")
    expect(chart.get_by_role("img")).to_have_attribute(
        "aria-label",
        "Success by round: aaaaaaaa on hidden starts: 38.0 % [33.4 %, 42.8 %], n = 400; "
        "round 1, collection on training starts: 41.0 % [31.9 %, 50.8 %], n = 100; "
        "round 2, collection on training starts: 78.0 % [68.9 %, 85.0 %], n = 100; "
        "round 3, collection on training starts: 91.0 % [83.8 %, 95.2 %], n = 100; "
        "cccccccc on hidden starts: 90.0 % [85.1 %, 93.4 %], n = 200",
    )
    legend = chart.locator(".legend > span")
    expect(legend).to_have_text(["hidden starts, champions", "training starts, data collection", "goal"])
    plot = chart.locator(".u-over")
    box = plot.bounding_box()
    assert box is not None
    for share, note in (
        (2 / 4, "round 2, collection on training starts: 78.0 % [68.9 %, 85.0 %], n = 100"),
        (4 / 4, "cccccccc on hidden starts: 90.0 % [85.1 %, 93.4 %], n = 200"),
    ):
        page.mouse.move(box["x"] + share * (box["width"] - 2) + 1, box["y"] + 20)
        expect(chart.locator(".tip")).to_have_text(note)
    page.mouse.move(0, 0)
    expect(chart.locator(".tip")).to_have_count(0)
    low, high, below, above = page.evaluate(COLUMN, [2 / 4, [0.72, 0.835, 0.55, 0.9]])
    assert low == high != below == above
    assert watch.complaints == []
