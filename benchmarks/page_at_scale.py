"""The page with 1,000 stations and 1,000,000 episodes: `python -m benchmarks.page_at_scale [--minutes 10]`.

The page's server serves a home with so many episodes, and a scripted lab whose stations all change twice a second. The
lab makes a command effective at once, so that a stop measures page and server. Chromium holds the Fleet page open.
Measured meanwhile: pages of the list of episodes over HTTP, first paint of both pages, stops of single stations from
the click until the page shows them as effective, and the memory of the tab after a garbage collection.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from benchmarks.episode_list import ARGUMENTS, FILTERS, LIMIT_MS, PAINT_MS, PAINTED, PASSWORD, answer, fill
from benchmarks.machine import describe
from benchmarks.measured import Measured, report
from benchmarks.page import until
from tests.fakes.sample_campaign import CAMPAIGN, record_campaign
from tests.web_ui.scripted_lab import ScriptedLab
from web_ui.accounts import Accounts
from web_ui.server import Server

STOP_MS, GROWTH = 300.0, 10.0
"""Promised: p95 of a stop in milliseconds; growth of the tab's memory from the first third to the last in percent."""
EVERY_S = 10.0
"""Time between two looks at the tab's memory."""


@dataclass(slots=True)
class Samples:
    """What was measured."""

    list_ms: list[float] = field(default_factory=list[float])
    paint_ms: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    """Path of the page -> first contentful paints."""
    stop_ms: list[float] = field(default_factory=list[float])
    heap_mb: list[float] = field(default_factory=list[float])


def main() -> int:
    """Measure and print; 1 when a promise is not kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stations", type=int, default=1000)
    parser.add_argument("--episodes", type=int, default=1_000_000)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--stops", type=int, default=60)
    parser.add_argument("--paints", type=int, default=10)
    asked = parser.parse_args()
    print(describe(), flush=True)
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as driver:
        home = Path(scratch) / "home"
        record_campaign(home)
        fill(home / "ledger.db", asked.episodes, 0)
        accounts = Accounts(home / "web.db")
        accounts.redeem_setup(accounts.mint_setup(), "ada", PASSWORD)
        token = accounts.open_key("token", "ada", "benchmark")
        accounts.close()
        names = tuple(f"robot-{number:04}" for number in range(1, asked.stations + 1))
        server = Server(home, ScriptedLab(campaign_id=CAMPAIGN, names=names, effective_s=0.0))
        server.start()
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=list(ARGUMENTS))
        try:
            print(f"home      {asked.episodes:,} episodes, {asked.stations:,} stations", flush=True)
            samples = measure(browser, server.address, token, asked)
        finally:
            browser.close()
            server.stop()
    return report(numbers(samples))


def measure(browser: Browser, address: str, token: str, asked: argparse.Namespace) -> Samples:
    """Everything, with the Fleet page open."""
    found = Samples()
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    context.set_default_timeout(120_000)
    page = context.new_page()
    page.goto(address)
    page.fill("[name=name]", "ada")
    page.fill("[name=password]", PASSWORD)
    page.click("button.primary")
    page.wait_for_selector(".wall [data-station]")
    for path, shows in (("/", ".wall [data-station]"), ("/episodes", "tr.pick")):
        found.paint_ms[path] = [paint(context, address + path, shows) for _ in range(asked.paints)]
    began_s, turn = time.monotonic(), 0
    while time.monotonic() < began_s + 60 * asked.minutes or turn < asked.stops:
        if turn < asked.stops:
            found.stop_ms.append(stop(page, f"robot-{turn % 150 + 1:04}"))
        wanted = FILTERS[turn % len(FILTERS)]
        found.list_ms += [answer(address, token, wanted)[1] for _ in range(2)]
        turn += 1
        if turn > asked.stops:
            page.wait_for_timeout(1000 * EVERY_S)
        found.heap_mb.append(heap_mb(context, page))
    return found


def paint(context: BrowserContext, address: str, shows: str) -> float:
    """Milliseconds of one load until something is on the screen; waits for the content, too."""
    page = context.new_page()
    page.goto(address)
    page.wait_for_selector(shows)
    taken = float(page.evaluate(PAINTED))
    page.close()
    return taken


def stop(page: Page, station: str) -> float:
    """Milliseconds from the click on Stop for one chosen station until the page shows the command as effective."""
    box = page.get_by_label(f"Select {station}")
    box.check()
    known = page.locator("[data-command=stop][data-state=effective]").first
    before = known.get_attribute("data-id") if known.count() else ""
    page.evaluate(WAIT, [before])
    page.locator("section.stations .head").get_by_role("button", name="■ Stop").click()
    until(page, "window.stopped > 0")  # the page's policy allows no `eval` of its own
    taken = float(page.evaluate("window.stopped"))
    box.uncheck()
    return taken


WAIT = """([before]) => {
  window.stopped = 0;
  let clicked = 0;
  addEventListener("click", () => { clicked = performance.now(); }, {capture: true, once: true});
  const look = () => {
    const newest = document.querySelector("[data-command=stop][data-state=effective]");
    if (clicked && newest && newest.dataset.id !== before) window.stopped = performance.now() - clicked;
    else requestAnimationFrame(look);
  };
  look();
}"""


def heap_mb(context: BrowserContext, page: Page) -> float:
    """Memory of the tab's objects after a garbage collection, in MB."""
    protocol = context.new_cdp_session(page)
    protocol.send("HeapProfiler.collectGarbage")
    used = float(protocol.send("Runtime.getHeapUsage")["usedSize"]) / 1e6
    protocol.detach()
    return used


def p95(name: str, values: Sequence[float], most: float) -> Measured:
    """The 95th percentile with its bootstrap interval."""
    draws = np.random.default_rng(0).choice(values, (2000, len(values)))
    low, high = np.quantile(np.quantile(draws, 0.95, axis=1), (0.025, 0.975))
    return Measured(name=name, value=float(np.quantile(values, 0.95)), unit="ms", low=low, high=high, most=most)


def numbers(found: Samples) -> list[Measured]:
    """The promises."""
    third = max(1, len(found.heap_mb) // 3)
    first, last = statistics.median(found.heap_mb[:third]), statistics.median(found.heap_mb[-third:])
    return [
        p95(f"list of episodes: p95 of {len(found.list_ms)}", found.list_ms, LIMIT_MS),
        *(
            Measured(
                name=f"first paint of {path}: median", value=statistics.median(taken), unit="ms", low=min(taken),
                high=max(taken), most=PAINT_MS,
            )
            for path, taken in found.paint_ms.items()
        ),
        p95(f"stop: p95 of {len(found.stop_ms)}", found.stop_ms, STOP_MS),
        Measured(name="memory of the tab: first third", value=first, unit="MB"),
        Measured(name="memory of the tab: growth", value=100 * (last / first - 1), unit="%", most=GROWTH),
    ]  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
