"""Take the pictures of docs/first-hour.md from the real page: `python -m benchmarks.first_hour_pictures`.

The page shows the campaign of `enpire serve --example`, so the pictures are of a campaign that ran.
"""

from __future__ import annotations

import html
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from benchmarks.page import ARGUMENTS
from enpire.queries import campaigns
from enpire.service.example import example_home
from enpire.service.watching import LiveLab
from enpire.store.order_page import Page as Filter
from web_ui.server import Server

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images" / "first-hour"
SIZE = (1180, 740)
TYPED = {"doctor": "enpire doctor", "show": "enpire campaign show"}
"""Picture -> the command whose output it shows."""
TERMINAL = """<body style="margin:0;background:#16181d;color:#d7dae0;font:14px/1.45 'DejaVu Sans Mono',monospace">
<pre style="margin:0;padding:16px 20px;white-space:pre-wrap"><b style="color:#7fb7ff">$ %s</b>\n%s</pre></body>"""
LINES = 30
"""Most lines of a command's output in a picture."""
QUALITY = 72
"""Of the JPEG files, in percent."""


def main() -> None:
    """Serve the example and take one picture for each step."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    with example_home() as home, sync_playwright() as driver:
        live = LiveLab(home)
        live.update(None)
        server = Server(home.root, live, example=True)
        server.start()
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=list(ARGUMENTS))
        try:
            page = browser.new_page(viewport={"width": SIZE[0], "height": SIZE[1]}, reduced_motion="reduce")
            for name, path, shows in steps(home.root):
                take(page, server.address + path, shows, IMAGES / f"{name}.jpg")
            page = browser.new_page(viewport={"width": SIZE[0], "height": SIZE[1]})  # without the policy of the server
            for name, command in TYPED.items():
                type_out(page, command, home.root, IMAGES / f"{name}.jpg")
        finally:
            browser.close()
            server.stop()


def steps(home: Path) -> list[tuple[str, str, str]]:
    """(name of the picture, path of the page, what must be visible before and comes to the top)."""
    with campaigns.open_records(home) as records:
        campaign_id = campaigns.find_campaign(records, "")
        rows = records.reading.episodes(Filter(campaign_id=campaign_id, outcome="failure", purpose="gate", limit=50))
        shown = [one.order.order_id for one in rows]
    folder = home / "episodes" / campaign_id
    episode = next(one for one in shown if any((folder / one).glob("*.zip")))
    campaign = f"/campaigns/{campaign_id}"
    return [
        ("result", "/", "section[aria-label='Latest campaign']"),
        ("campaign", campaign, ".uplot"),
        ("hypotheses", campaign, "section[aria-label=Hypotheses]"),
        ("gates", campaign, "h2 >> text=Gates"),
        ("episode", f"/episodes/{episode}", ".clips img"),
        ("failures", f"{campaign}/failures?starts=train", ".map"),
        ("report", f"{campaign}/report", "article.report .lead"),
    ]


def type_out(page: Page, command: str, home: Path, path: Path) -> None:
    """Save a picture of a terminal with a command and the first lines of its output."""
    shown = [sys.executable, "-m", "enpire.cli", *command.split()[1:]]
    environment = os.environ | {"ENPIRE_HOME": str(home), "COLUMNS": "120"}
    done = subprocess.run(shown, capture_output=True, text=True, env=environment, check=False)
    written = (done.stdout or done.stderr).replace(str(home), ".enpire").replace(str(Path.cwd()), ".")
    lines = re.sub(r"(?<=\s)/\S+/", "", written).splitlines()  # no folder of this machine
    text = "\n".join([*lines[:LINES], *(["…"] if len(lines) > LINES else [])])
    page.set_content(TERMINAL % (html.escape(command), html.escape(text)))
    page.locator("pre").screenshot(path=path, type="jpeg", quality=QUALITY)


def take(page: Page, address: str, shows: str, path: Path) -> None:
    """Save one picture as JPEG."""
    page.goto(address)
    at = page.locator(shows).first
    at.wait_for()
    page.wait_for_load_state("networkidle")
    top = at.evaluate("(one) => one.getBoundingClientRect().top + scrollY")
    page.evaluate("(y) => scrollTo(0, y)", max(0.0, float(top) - 90.0) if float(top) > SIZE[1] * 0.6 else 0.0)
    page.screenshot(path=path, type="jpeg", quality=QUALITY)


if __name__ == "__main__":
    main()
