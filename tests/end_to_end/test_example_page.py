"""`enpire serve --example`: a recorded campaign in the browser, without signing in, which nothing changes."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from enpire.service.example import PACKED
from tests.end_to_end.conftest import NEEDED
from tests.end_to_end.watch import Watch

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
EQUAL = re.compile(r"(\d+) decisions and sums recomputed from the records: \1 equal, 0 different")
pytestmark = [*NEEDED]


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """The command in a process of its own; the address that it prints."""
    log = tmp_path / "serve.txt"
    command = [sys.executable, "-m", "enpire.cli", "serve", "--example", "--port", "0"]
    with log.open("wb") as out:
        server = subprocess.Popen(command, stdout=out, stderr=out, cwd=tmp_path)
    try:
        deadline = time.monotonic() + 300
        while not (said := re.search(r"Page: (\S+)\n", log.read_text())) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert said is not None, log.read_text()
        yield said[1]
    finally:
        server.send_signal(signal.SIGINT)
        assert server.wait(600) == 0, log.read_text()
    assert not (tmp_path / ".enpire").exists(), "no lab's home is made"


def test_the_example_is_there_at_once_and_read_only(address: str, context: BrowserContext, artefacts: Path) -> None:
    assert PACKED.stat().st_size < 2_000_000
    watch, page, expect = Watch(), context.new_page(), playwright.expect
    watch.follow(page)
    page.goto(address)
    expect(page.locator(".notice.example")).to_contain_text("read-only")
    latest = page.locator("section[aria-label='Latest campaign']")
    expect(latest).to_contain_text("Goal reached")
    expect(latest).to_contain_text(re.compile(r"at least \d\d\.\d %; goal 93 %"))  # its goal is the measured rate
    expect(page.get_by_role("button", name="Stop fleet")).to_have_count(0)
    page.screenshot(path=artefacts / "example.png", full_page=True)
    latest.get_by_role("link", name="Read the report").click()
    report = page.locator("article.report")
    expect(report).to_contain_text("Goal reached after")
    expect(report).to_contain_text(EQUAL)
    page.screenshot(path=artefacts / "example-report.png", full_page=True)
    page.goto(f"{address}/episodes")
    expect(page.locator("tr.pick").first).to_be_visible()
    assert watch.complaints == []
    page.goto(f"{address}/campaigns")
    page.locator("tr.pick a").first.click()
    page.get_by_role("link", name="compare").first.click()
    expect(page.get_by_text("from the same start (holdout")).to_be_visible()
    picked = page.get_by_role("group", name="Pairs of the gate")
    expect(picked.get_by_label("Pair", exact=True).locator("option:checked")).to_contain_text("won")
    for side in ("Champion", "Candidate"):
        expect(page.get_by_role("group", name=f"Episode {side}")).to_be_visible()
    before = page.url
    picked.get_by_role("button", name="Next").click()
    expect(page).not_to_have_url(before)
    expect(page.get_by_text("from the same start (holdout")).to_be_visible()
    page.screenshot(path=artefacts / "compare-versions.png", full_page=True)
    unrecorded = "404"  # the answer for the recording of an episode that has none
    assert [complaint for complaint in watch.complaints if unrecorded not in complaint] == []
    for path in ("/api/v1/keys", "/api/v1/commands", "/api/v1/session"):
        request = urllib.request.Request(f"{address}{path}", data=b"{}", headers={"content-type": "application/json"})
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(request, timeout=600)
