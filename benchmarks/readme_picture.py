"""README's picture and its lines of the terminal, from one run: `python -m benchmarks.readme_picture [--seed 0]`.

Runs `enpire demo` in a fresh home. The picture shows the page when round 2 has begun. At the end the picture and the
block of lines in README.md are written together, and only if the champion was confirmed.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from benchmarks.page import ARGUMENTS

ROOT = Path(__file__).resolve().parents[1]
README, PICTURE = ROOT / "README.md", ROOT / "docs" / "images" / "fleet.png"
SIZE = (1280, 900)
TAKEN_AT = "round 2:"
"""The line after which the picture is taken."""
SHOWN = (
    "pin_insertion:", "round ", "base policy", "branch ", "gate: ", "the last ", "no round is left", "confirming",
    "confirmation of", "campaign ended", "Head of the ledger", "Reached", "Show its page",
)  # fmt: skip
"""Beginnings of the lines that README shows, after the time."""
BLOCK = re.compile(r"(?<=```text\n)00:00  pin_insertion:.*?(?=```)", re.DOTALL)
TIME = re.compile(r"^(\d+:)?\d\d:\d\d  ")


def main() -> int:
    """Run the demo, and write picture and lines; 1 if it did not reach its goal."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    seed: int = parser.parse_args().seed
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=list(ARGUMENTS))
        home, taken = Path(folder, "home"), Path(folder, "fleet.png")
        command = [sys.executable, "-m", "enpire.cli", "demo", "--seed", str(seed), "--home", str(home), "--port", "0"]
        lines: list[str] = []
        with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as demo:
            for line in demo.stderr or ():
                print(line, end="", flush=True)
                lines.append(line.rstrip())
                if TAKEN_AT in line and not taken.exists():
                    take(browser, setup_link(lines), taken)
        browser.close()
        if demo.returncode or not taken.exists():
            return 1
        shutil.copy(taken, PICTURE)
    text = README.read_text(encoding="utf-8")
    README.write_text(BLOCK.sub(lambda _: shown(lines, str(home)), text, count=1), encoding="utf-8")
    return 0


def take(browser: Browser, link: str, path: Path) -> None:
    """Make the first admin, and save a picture of the fleet."""
    page = browser.new_page(viewport={"width": SIZE[0], "height": SIZE[1]}, reduced_motion="reduce")
    page.goto(link)
    page.fill("[name=name]", "ada")
    page.fill("[name=password]", "a long pass phrase")
    page.click("text=Create the admin")
    page.locator(".tile img >> nth=3").wait_for()
    page.wait_for_load_state("load")
    page.screenshot(path=path)
    page.close()


def setup_link(lines: Iterable[str]) -> str:
    """The link that the demo printed."""
    return next(found[0] for line in lines if (found := re.search(r"http\S+/setup#\S+", line)))


def shown(lines: Iterable[str], home: str) -> str:
    """The lines that README shows, with the names of a run by `make demo`."""
    kept = [line for line in lines if TIME.sub("", line).startswith(SHOWN) and " | " not in line]
    text = "\n".join(kept).replace(home, ".enpire")
    return re.sub(r"(?<=again: )\S.* serve", ".venv/bin/enpire serve", text) + "\n"


if __name__ == "__main__":
    sys.exit(main())
