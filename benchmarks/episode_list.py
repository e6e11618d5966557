"""How fast the list of episodes is in a home with many of them: `python -m benchmarks.episode_list`.

A home in a scratch folder gets a recorded campaign whose orders table has `--episodes` more rows, and the page's server
answers requests of its list over HTTP: each filter with its first page, the next one, and one from the middle of the
campaign. Chromium opens the list, in a profile that is signed in. PASS when the 95th percentile of the answers is at
most 150 ms and the median of the first paint at most 1 s; exit code 1 otherwise.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sqlite3
import statistics
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.machine import describe
from benchmarks.measured import Measured, report
from enpire.home import open_home
from enpire.service.watching import LiveLab
from tests.fakes.sample_campaign import CAMPAIGN, SECOND, record_campaign
from web_ui.accounts import Accounts
from web_ui.server import Server

LIMIT_MS, PAINT_MS = 150.0, 1000.0
ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run")
PASSWORD = "correct horse battery"
PAINTED = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
FILTERS: tuple[Mapping[str, str], ...] = (
    {}, {"outcome": "ran"}, {"outcome": "success"}, {"outcome": "unsafe"}, {"outcome": "open"}, {"outcome": "released"},
    {"purpose": "gate"}, {"purpose": "demonstrate"}, {"starts": "train"}, {"starts": "hidden"}, {"label": "any"},
    {"label": "differs"}, {"round": "1"}, {"station": "cell-1"}, {"policy": SECOND},
    {"purpose": "collect", "outcome": "failure", "station": "cell-2"}, {"starts": "hidden", "outcome": "unsafe"},
)  # fmt: skip
"""What the page asks for."""


def main() -> int:
    """Time the list; 1 when it is over the limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=5, help="requests of each page of each filter")
    parser.add_argument("--paints", type=int, default=10, help="loads of the page in Chromium; 0: none")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    print(describe([asked.seed]), flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        home, began_s = Path(scratch) / "home", time.monotonic()
        record_campaign(home)
        fill(home / "ledger.db", asked.episodes, asked.seed)
        print(f"home      {asked.episodes:,} episodes, made in {time.monotonic() - began_s:.0f} s\n", flush=True)
        numbers = measured(home, asked.repeats, asked.episodes, asked.seed, asked.paints)
    return report(numbers)


def fill(ledger: Path, episodes: int, seed: int) -> None:
    """Copy the recorded orders, oldest first, until the campaign has so many more; 1 in 500 has a label."""
    db = sqlite3.connect(ledger)
    columns = [str(row[1]) for row in db.execute("PRAGMA table_info(orders)")]
    copied = [name for name in columns if name not in ("order_id", "person_outcome")]
    rows = db.execute(f"SELECT {', '.join(copied)} FROM orders WHERE campaign_id = ?", (CAMPAIGN,)).fetchall()
    draw = np.sort(np.random.default_rng(seed).integers(0, len(rows), episodes))  # demonstrations are the oldest
    labels = np.random.default_rng(seed + 1).integers(0, 500, episodes)
    places = ", ".join("?" * (len(copied) + 2))
    with db:
        db.executemany(
            f"INSERT INTO orders (order_id, person_outcome, {', '.join(copied)}) VALUES ({places})",
            (
                (f"01K{number:023d}", "success" if labels[number] == 0 else None, *rows[draw[number]])
                for number in range(episodes)
            ),
        )
    db.close()


def measured(home: Path, repeats: int, episodes: int, seed: int, paints: int) -> Sequence[Measured]:
    """The numbers: one of each filter, and of all answers together."""
    accounts = Accounts(home / "web.db")
    accounts.redeem_setup(accounts.mint_setup(), "ada", PASSWORD)
    token = accounts.open_key("token", "ada", "benchmark")
    accounts.close()
    server = Server(home, LiveLab(open_home(home)))
    server.start()
    numbers: list[Measured] = []
    every: list[float] = []
    try:
        for wanted in FILTERS:
            found: list[float] = []
            for _ in range(repeats):
                page, first_ms = answer(server.address, token, wanted)
                found.append(first_ms)
                middle = f"01K{episodes // 2:023d}"
                for before in [one for one in (page["next"], middle) if one]:
                    found.append(answer(server.address, token, {**wanted, "before": str(before)})[1])
            every += found
            name = ", ".join(f"{key} {value[:12]}" for key, value in wanted.items()) or "no filter"
            numbers.append(Measured(name=f"{name}: median", value=statistics.median(found), unit="ms"))
        numbers += painted(server.address, paints)
    finally:
        server.stop()
    draws = np.random.default_rng(seed).choice(every, (2000, len(every)))
    low, high = np.quantile(np.quantile(draws, 0.95, axis=1), (0.025, 0.975))
    p95 = float(np.quantile(every, 0.95))
    numbers.append(Measured(name="list of episodes: p95", value=p95, unit="ms", low=low, high=high, most=LIMIT_MS))
    return numbers


def painted(address: str, loads: int) -> list[Measured]:
    """Loads of the page: until something is on the screen, and until the list is."""
    if not loads:
        return []
    from playwright.sync_api import sync_playwright

    first: list[float] = []
    whole: list[float] = []
    with sync_playwright() as chromium:
        browser = chromium.chromium.launch(executable_path=shutil.which("chromium"), args=list(ARGUMENTS))
        context = browser.new_context(viewport={"width": 1440, "height": 900})
        page = context.new_page()
        page.goto(f"{address}/episodes")
        page.fill("[name=name]", "ada")
        page.fill("[name=password]", PASSWORD)
        page.click("button.primary")
        page.wait_for_selector("tr.pick")
        for _ in range(loads):
            page = context.new_page()
            page.goto(f"{address}/episodes")
            page.wait_for_selector("tr.pick")
            whole.append(float(page.evaluate("performance.now()")))
            first.append(float(page.evaluate(PAINTED)))
            page.close()
        browser.close()
    middle = statistics.median(first)
    return [
        Measured(name="first paint: median", value=middle, unit="ms", low=min(first), high=max(first), most=PAINT_MS),
        Measured(name="list on the screen: median", value=statistics.median(whole), unit="ms"),
    ]


def answer(address: str, token: str, wanted: Mapping[str, str]) -> tuple[Mapping[str, object], float]:
    """One page of the list, and the milliseconds until it was here."""
    request = urllib.request.Request(
        f"{address}/api/v1/episodes?{urllib.parse.urlencode(wanted)}", headers={"Authorization": f"Bearer {token}"}
    )
    began_s = time.perf_counter()
    with urllib.request.urlopen(request, timeout=120) as reply:
        found = json.loads(reply.read())
    return found, 1e3 * (time.perf_counter() - began_s)


if __name__ == "__main__":
    sys.exit(main())
