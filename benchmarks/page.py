"""The page beside a running demo: how fast it is, and what it costs the robots: `python -m benchmarks.page`.

Each seed runs `enpire demo` twice in fresh homes, with the page in a headless Chromium on the same machine. In the
first run the page is open and closed in turns, and robot utilisation is compared between the turns; in the second run
single stations are stopped and resumed by clicks. Times of events at stations come from the ledger, times of painting
from the page itself; both clocks are this machine's.
"""

from __future__ import annotations

import argparse
import gzip
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright
from playwright.sync_api import Error as PlaywrightError

from benchmarks.machine import describe
from benchmarks.tuning_seeds import machine_verdict
from enpire.store.ledger import SqliteLedger
from enpire.types import WORKING
from web_ui.routes.page import BUILT

PAINT_S, PIXEL_S, STOP_S, USE_POINTS, BUNDLE_KB = 1.0, 0.5, 0.3, 2.0, 150.0
ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run")
NAME, PASSWORD = "ada", "correct horse"
SETTLED_S = 2.0
"""Seconds after the page was opened, before its measurements count."""
SPY = """
window.spy = {painted: [], tiles: 0, clicked: 0, effective: {}};
const after = (action) => requestAnimationFrame(() => setTimeout(action, 0));  // after the frame was painted
const seen = {};
new MutationObserver(() => after(() => {
  const now = Date.now();
  for (const tile of document.querySelectorAll("[data-station]")) {
    if (!spy.tiles) spy.tiles = performance.now();
    const count = Number(tile.querySelector(".facts b").textContent.replace(/\\D/g, ""));
    const name = tile.dataset.station;
    if (seen[name] !== count) { seen[name] = count; spy.painted.push([now, name, count]); }
  }
  for (const command of document.querySelectorAll('[data-state="effective"]'))
    spy.effective[command.dataset.id] ??= performance.now();
})).observe(document, {subtree: true, childList: true, characterData: true, attributes: true});
addEventListener("click", () => { spy.clicked = performance.now(); }, true);
"""


@dataclass(slots=True)
class Turn:
    """A stretch of the run with the page open or closed; wall-clock seconds."""

    open: bool
    began_s: float
    ended_s: float = 0.0


@dataclass(slots=True)
class Figures:
    """What one seed gave."""

    first_paint_s: list[float] = field(default_factory=list[float])
    """Page load with a cold cache until the first contentful paint."""
    tiles_s: list[float] = field(default_factory=list[float])
    """The same until the stations are on the screen."""
    pixel_s: list[float] = field(default_factory=list[float])
    """An episode's end at the station until the tile counts it."""
    stop_s: list[float] = field(default_factory=list[float])
    """Click on a station's Stop until the page says effective."""
    use: dict[bool, float] = field(default_factory=dict[bool, float])
    """Page open? -> robot utilisation, in percent."""
    rate: dict[bool, float] = field(default_factory=dict[bool, float])
    """Page open? -> episodes per minute, all stations together."""


@contextmanager
def demo(seed: int, home: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """`enpire demo` in a fresh home: the process and the page's one-time link."""
    log = home.with_suffix(".log")
    command = [sys.executable, "-m", "enpire.cli", "demo", "--seed", str(seed), "--home", str(home)]
    with log.open("wb") as written:
        process = subprocess.Popen(command, env=os.environ.copy(), stdout=written, stderr=subprocess.STDOUT)
    try:
        deadline_s = time.monotonic() + 60
        while not (found := re.search(r"Page: (http\S+)", log.read_text(errors="replace"))):
            if time.monotonic() > deadline_s or process.poll() is not None:
                raise TimeoutError(f"The demo printed no address: {log.read_text(errors='replace')[-500:]}")
            time.sleep(0.05)
        yield process, found[1]
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(60)


def enter(browser: Browser, link: str) -> BrowserContext:
    """A browser profile that is signed in."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    context.set_default_timeout(60_000)
    page = context.new_page()
    page.goto(link)
    page.fill("[name=name]", NAME)
    page.fill("[name=password]", PASSWORD)
    page.click("button.primary")
    page.wait_for_selector("[data-station]")
    page.close()
    context.add_init_script(SPY)
    return context


def until(page: Page, expression: str) -> None:
    """Wait until something is true in the page, whose policy allows no `eval` of its own."""
    deadline_s = time.monotonic() + 60
    while not page.evaluate(expression):
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"The page never came to {expression}.")
        page.wait_for_timeout(20)


def cold_load(browser: Browser, context: BrowserContext, address: str, figures: Figures) -> None:
    """Load the page in a profile without a cache that has only the session."""
    fresh = browser.new_context(viewport={"width": 1440, "height": 900}, storage_state=context.storage_state())
    fresh.add_init_script(SPY)
    page = fresh.new_page()
    page.goto(address)
    until(page, "spy.tiles > 0")
    paint = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? performance.now()"
    figures.first_paint_s.append(page.evaluate(paint) / 1000)
    figures.tiles_s.append(page.evaluate("spy.tiles") / 1000)
    fresh.close()


def take_turns(browser: Browser, seed: int, home: Path, turn_s: float, most: int, figures: Figures) -> None:  # noqa: PLR0913
    """One demo, the page open and closed in turns: `most` of them, or until the demo has reached its goal."""
    turns: list[Turn] = []
    painted: list[tuple[int, str, int]] = []
    with demo(seed, home) as (process, link):
        address = link.partition("/setup")[0]
        context = enter(browser, link)
        for _ in range(3):
            cold_load(browser, context, address, figures)
        while process.poll() is None and len(turns) < most:
            turn = Turn(open=len(turns) % 2 == 0, began_s=time.time())
            page = opened(context, address, process) if turn.open else None
            while time.time() < turn.began_s + turn_s and process.poll() is None:
                if page:
                    page.wait_for_timeout(250)
                else:
                    time.sleep(0.25)
            turn.ended_s = time.time()
            turns.append(turn)
            if page:
                painted += [(int(at), name, count) for at, name, count in page.evaluate("spy.painted")]
                page.close()
        context.close()
    figures.pixel_s = to_pixel(home, turns, painted)
    figures.use, figures.rate = robot_use(home, turns)


def opened(context: BrowserContext, address: str, process: subprocess.Popen[bytes]) -> Page | None:
    """The page; None when the demo has just ended and its server with it."""
    page = context.new_page()
    try:
        page.goto(address)
    except PlaywrightError:
        process.wait(10)
        return None
    return page


def to_pixel(home: Path, turns: Sequence[Turn], painted: Sequence[tuple[int, str, int]]) -> list[float]:
    """For every episode that ended while the page was open: seconds until the tile counted it."""
    ahead_s = time.time() - time.monotonic()
    waits: list[float] = []
    for station, ends in episode_ends(home).items():
        shown = [(at / 1000, count) for at, name, count in sorted(painted) if name == station]
        for number, end_s in enumerate((end + ahead_s for end in ends), 1):
            inside = [
                turn for turn in turns if turn.open and turn.began_s + SETTLED_S < end_s < turn.ended_s - SETTLED_S
            ]
            if inside:
                seen = [at for at, count in shown if count >= number and at >= inside[0].began_s]
                waits.append((seen[0] if seen else inside[0].ended_s) - end_s)
    return waits


def episode_ends(home: Path) -> Mapping[str, Sequence[float]]:
    """Station -> monotonic seconds at which its episodes ended, in the order in which they were counted."""
    ends: dict[str, list[float]] = {}
    stations: dict[str, str] = {}
    for kind, body, _ in history(home, "order issued", "orders ended"):
        if kind == "order issued":
            stations |= {order["order_id"]: order["station"] for order in body["orders"]}
        else:
            for episode in body["episodes"]:
                ends.setdefault(stations[episode["order_id"]], []).append(episode["ended_s"])
    return ends


def robot_use(home: Path, turns: Sequence[Turn]) -> tuple[dict[bool, float], dict[bool, float]]:
    """Robot use and episodes a minute with the page open and closed; the first turn warms up and does not count."""
    moving: dict[bool, float] = {True: 0.0, False: 0.0}
    wall: dict[bool, float] = {True: 0.0, False: 0.0}
    ended: dict[bool, int] = {True: 0, False: 0}
    lasted: dict[bool, float] = {True: 0.0, False: 0.0}
    stacks = [(body, at_s) for _, body, at_s in history(home, "robot time")]
    counts = [(len(body["episodes"]), at_s) for _, body, at_s in history(home, "orders ended")]
    for turn in turns[1:-1]:
        within = [body for body, at_s in stacks if turn.began_s <= at_s <= turn.ended_s]
        if len(within) > 1:
            first, last = within[0], within[-1]
            moving[turn.open] += _moving_s(last) - _moving_s(first)
            wall[turn.open] += last["wall_s"] - first["wall_s"]
        ended[turn.open] += sum(count for count, at_s in counts if turn.began_s <= at_s <= turn.ended_s)
        lasted[turn.open] += turn.ended_s - turn.began_s
    use = {key: 100 * moving[key] / wall[key] if wall[key] else float("nan") for key in wall}
    return use, {key: 60 * ended[key] / lasted[key] if lasted[key] else float("nan") for key in lasted}


def _moving_s(body: Mapping[str, Any]) -> float:
    """Seconds in motion, mean over the stations."""
    stations = body["stations"].values()
    return sum(seconds.get(phase, 0.0) for seconds in stations for phase in WORKING) / len(stations)


def history(home: Path, *kinds: str) -> Iterator[tuple[str, Mapping[str, Any], float]]:
    """(kind, body, wall-clock seconds) of the events of some kinds."""
    ledger = SqliteLedger(home / "ledger.db", read_only=True)
    try:
        for event in ledger.events(kinds=kinds):
            yield event.kind, event.body, event.stamp_ns / 1e9
    finally:
        ledger.close()


def stop_and_resume(browser: Browser, seed: int, home: Path, trials: int, figures: Figures) -> None:
    """One demo in which single stations are stopped and resumed by clicks."""
    with demo(seed, home) as (_, link):
        context = enter(browser, link)
        page = context.new_page()
        page.goto(link.partition("/setup")[0])
        until(page, "spy.tiles > 0")
        names = sorted(page.eval_on_selector_all("[data-station]", "all => all.map((one) => one.dataset.station)"))
        for trial in range(trials):
            station = names[trial % len(names)]
            figures.stop_s.append(clicked_until_effective(page, "Stop", station))
            clicked_until_effective(page, "Resume", station)
            page.wait_for_timeout(37 * (trial % 11))  # not in step with the heartbeats
        context.close()


def clicked_until_effective(page: Page, verb: str, station: str) -> float:
    """Seconds from the click until the page shows that the command is effective."""
    known = len(page.evaluate("Object.keys(spy.effective)"))
    page.get_by_role("button", name=f"{verb} {station}", exact=True).click()
    until(page, f"Object.keys(spy.effective).length > {known}")
    return page.evaluate("Math.max(...Object.values(spy.effective)) - spy.clicked") / 1000


def bundle_kb() -> float:
    """Size of the files of a first visit, gzipped, in kB."""
    files = [path for path in BUILT.rglob("*") if path.is_file()]
    return sum(len(gzip.compress(path.read_bytes())) for path in files) / 1000


def spread(name: str, values: Sequence[float]) -> str:
    """One line of statistics, in milliseconds."""
    p50, p95 = np.percentile(values, [50, 95]) * 1000
    return f"{name}: p50 {p50:.0f} ms, p95 {p95:.0f} ms, max {max(values) * 1000:.0f} ms over {len(values)}"


def requirements(all_figures: Sequence[Figures]) -> list[tuple[str, bool]]:
    """Each requirement with its measurement, and whether it holds."""
    tiles = [value for one in all_figures for value in one.tiles_s]
    paints = [value for one in all_figures for value in one.first_paint_s]
    pixel = [value for one in all_figures for value in one.pixel_s]
    stops = [value for one in all_figures for value in one.stop_s]
    costs = [one.use[False] - one.use[True] for one in all_figures]
    size = bundle_kb()
    uses = ", ".join(
        f"{one.use[True]:.1f} % open, {one.use[False]:.1f} % closed ({one.rate[True]:.0f} and {one.rate[False]:.0f} "
        "episodes/min)" for one in all_figures
    )  # fmt: skip
    return [
        (f"first paint within {PAINT_S:g} s; {spread('first contentful', paints)}; {spread('stations shown', tiles)}",
         max(tiles) <= PAINT_S),
        (f"station to pixel within {PIXEL_S * 1000:.0f} ms (p95); {spread('episode end to tile', pixel)}",
         bool(np.percentile(pixel, 95) <= PIXEL_S)),
        (f"stop effective within {STOP_S * 1000:.0f} ms (p95); {spread('click to effective', stops)}",
         bool(np.percentile(stops, 95) <= STOP_S) and len(stops) >= 40),
        (f"robot utilisation at most {USE_POINTS:g} points lower with the page open: {np.mean(costs):+.2f}; {uses}",
         float(np.mean(costs)) <= USE_POINTS),
        (f"bundle at most {BUNDLE_KB:g} kB gzipped: {size:.1f} kB", size <= BUNDLE_KB),
    ]  # fmt: skip


def main() -> int:
    """Measure and print a line for each requirement; returns 1 when one does not hold."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--turn-s", type=float, default=11.0, help="how long the page stays open, then closed")
    parser.add_argument("--turns", type=int, default=9, help="at most so many; the first and the last do not count")
    parser.add_argument("--stops", type=int, default=48, help="stops per seed")
    parser.add_argument("--browser", default=shutil.which("chromium"), help="the Chromium to use")
    parser.add_argument("--keep", type=Path, help="folder for the homes; a temporary one when left out")
    given = parser.parse_args()
    folder = given.keep or Path(tempfile.mkdtemp(prefix="enpire-page-"))
    folder.mkdir(parents=True, exist_ok=True)
    print(f"{describe(given.seeds)}")
    print("intervals none: times and load of this machine, judged on its repetitions and not on seeds")
    all_figures: list[Figures] = []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=given.browser, args=list(ARGUMENTS))
        print(f"browser   chromium {browser.version}, headless, on the same machine, live images shown")
        for seed in given.seeds:
            figures = Figures()
            take_turns(browser, seed, folder / f"turns-{seed}", given.turn_s, given.turns, figures)
            stop_and_resume(browser, seed, folder / f"stops-{seed}", given.stops, figures)
            all_figures.append(figures)
        browser.close()
    kept = requirements(all_figures)
    for what, holds in kept:
        print(f"{'PASS' if holds else 'FAIL'}  {what}")
    every = all(holds for _, holds in kept)
    print(machine_verdict(every, sum(len(one.tiles_s) for one in all_figures)))
    return 0 if every else 1


if __name__ == "__main__":
    sys.exit(main())
