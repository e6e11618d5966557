"""A browser, a server to look at, and what the tests of the page share."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.web_ui.conftest import cheap_passwords as cheap_passwords
from tests.web_ui.recorded import History, record
from tests.web_ui.scripted_lab import ScriptedLab
from web_ui.routes.page import BUILT
from web_ui.server import Server

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

CHROMIUM = shutil.which("chromium")
ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking", "--no-first-run",
]  # fmt: skip
PATIENCE_MS = 120_000
PASSWORD = "correct horse"
NEEDED = (
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
    pytest.mark.skipif(not (BUILT / "index.html").is_file(), reason="the page is not built: make ui"),
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One Chromium for the tests of a file.

    Playwright runs an event loop in this thread until it ends. With a wider scope, a later test's asyncio.run fails.
    """
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    playwright.expect.set_options(timeout=PATIENCE_MS)
    with playwright.sync_playwright() as driver:
        launched = driver.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS, timeout=PATIENCE_MS)
        try:
            yield launched
        finally:
            launched.close()


@pytest.fixture
def past(tmp_path: Path) -> Iterator[History]:
    """A recorded home; more can be written into it."""
    made = record(tmp_path / "home")
    yield made
    made.ledger.close()


@pytest.fixture
def server(past: History) -> Iterator[tuple[Server, ScriptedLab]]:
    """A server over the recorded home, with a scripted lab behind it."""
    lab = ScriptedLab(campaign_id=past.campaign_id)
    running = Server(past.home, lab)
    running.start()
    try:
        yield running, lab
    finally:
        running.stop()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A fresh profile."""
    opened = browser.new_context(viewport={"width": 1360, "height": 900})
    opened.set_default_timeout(PATIENCE_MS)
    try:
        yield opened
    finally:
        opened.close()


@pytest.fixture
def artefacts() -> Path:
    """Where screenshots are kept to be looked at."""
    folder = Path(__file__).resolve().parents[2] / "test-artefacts" / "page"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def set_up(page: Page, running: Server, stations: int = 4) -> None:
    """Make the first admin, and wait for the fleet."""
    page.goto(running.setup_link)
    page.fill("[name=name]", "ada")
    page.fill("[name=password]", PASSWORD)
    page.click("text=Create the admin")
    page.locator(f".tile >> nth={stations - 1}" if stations else "h1 >> text=Fleet").wait_for()
