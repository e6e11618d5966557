"""Make the file of `enpire serve --example` from a campaign that runs now: `python -m benchmarks.example_run`.

The file has the whole ledger, the report, and the recordings of a few episodes, some with camera images; those of the
other episodes are left out, so that it stays small. Keys, secrets and policy versions are left out, too.
"""

from __future__ import annotations

import argparse
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

from enpire.queries import campaigns
from enpire.queries.campaigns import Records
from enpire.service.example import PACKED
from enpire.store.order_page import Page

CAMPAIGN = Path(__file__).with_suffix(".yaml")
WITH_IMAGES = 6
"""Episodes whose camera images are kept."""
WITH_ARRAYS = 16
"""Failures and successes whose states and actions are kept."""
MOST_BYTES = 2_000_000


def main() -> None:
    """Run the campaign, or take one that ran, and pack it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="seed of the campaign")
    parser.add_argument("--home", type=Path, help="a home in which the campaign ran already; default: run it")
    parser.add_argument("--to", type=Path, default=PACKED, help="the file to write")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        home = asked.home or Path(scratch) / "home"
        if asked.home is None:
            _enpire("run", str(CAMPAIGN), "--seed", str(asked.seed), "--headless", "--home", str(home))
        size = pack(home, asked.to)
    print(f"{asked.to}: {size} bytes")
    if size > MOST_BYTES:
        raise SystemExit(f"It has more than {MOST_BYTES} bytes: choose a campaign with fewer episodes.")


def pack(home: Path, to: Path) -> int:
    """Pack the newest campaign of a home; returns the size of the file in bytes."""
    with campaigns.open_records(home) as records:
        campaign_id = campaigns.find_campaign(records, "")
        kept = chosen(records, campaign_id)
    for order_id in kept[:WITH_IMAGES]:
        _enpire("episodes", "replay", order_id, "--home", str(home))
    _enpire("report", campaign_id, "--home", str(home))
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch)
        with sqlite3.connect(home / "ledger.db") as ledger:
            ledger.execute("vacuum into ?", (str(copy / "ledger.db"),))
        shutil.copytree(home / "reports", copy / "reports")
        for order_id in kept:
            folder = Path("episodes") / campaign_id / order_id
            if (home / folder).is_dir():
                shutil.copytree(home / folder, copy / folder)
        with tarfile.open(to, "w:xz", preset=9) as packed:
            for path in sorted(copy.iterdir()):
                packed.add(path, arcname=path.name, filter=_anonymous)
    return to.stat().st_size


def chosen(records: Records, campaign_id: str) -> list[str]:
    """The episodes whose recordings are kept: the newest of each kind, in turns."""
    found: list[list[str]] = []
    for outcome, purpose in (("failure", "gate"), ("success", "confirm"), ("failure", "base"), ("success", "base")):
        page = Page(campaign_id=campaign_id, outcome=outcome, purpose=purpose, limit=WITH_ARRAYS // 4)
        found.append([row.order.order_id for row in records.reading.episodes(page)])
    turns = zip(*(one for one in found if one), strict=False)
    return [order_id for turn in turns for order_id in turn]


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """A member of the file without the names of this machine."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def _enpire(*arguments: str) -> None:
    done: Sequence[str] = [sys.executable, "-m", "enpire.cli", *arguments]
    subprocess.run(done, check=False)


if __name__ == "__main__":
    main()
