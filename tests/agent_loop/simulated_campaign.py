"""The shipped campaign with a deliberately bad recipe, on simulated robots in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from enpire.campaign.recipe import read_recipe
from enpire.errors import LedgerProblem
from enpire.files import plain
from enpire.queries import campaigns


@contextmanager
def running(folder: Path, home: Path) -> Iterator[str]:
    """Run it over a home, with its files in a folder; its id, once it takes proposals."""
    with (folder / "run.txt").open("wb") as log:
        said = ["run", str(campaign_file(folder)), "--home", str(home), "--headless"]
        command = [sys.executable, "-m", "enpire.cli", *said]
        campaign = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "OMP_NUM_THREADS": "1"})
    try:
        yield until_it_runs(home, campaign, 120)
    finally:
        campaign.send_signal(signal.SIGINT)
        campaign.wait(600)


def campaign_file(folder: Path) -> Path:
    """search_alone without its agent: two stations, and a space in which a destructive learning rate is possible."""
    recipe = json.loads(json.dumps(plain(read_recipe("habc_timid"))))
    recipe["space"]["learning_rate"] = [1e-7, 1.0, "log"]
    (folder / "timid.yaml").write_text(yaml.safe_dump(recipe))
    campaign = {
        "name": "worse_and_better", "task": "pin_insertion", "recipe": str(folder / "timid.yaml"),
        "stations": {"count": 2, "lanes": 16, "ahead": 12},
        "base": {"demonstrations": 80, "evaluate_starts": 20},
        "rounds": {"episodes": 100, "hard_starts": 0.0, "lockstep": True},
        "gate": {"pairs": 150}, "budget": {"wall_s": 900, "rounds": 40},
    }  # fmt: skip
    path = folder / "campaign.yaml"
    path.write_text(yaml.safe_dump(campaign))
    return path


def until_it_runs(home: Path, campaign: subprocess.Popen[bytes], patience_s: float) -> str:
    """Wait until the recipe's search space is declared, which is when proposals are taken; the campaign's id."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline and campaign.poll() is None:
        if (home / "ledger.db").exists() and campaigns.is_driven(home):
            try:
                with campaigns.open_records(home) as records:
                    for event in records.ledger.events(kinds=("recipe declared",)):
                        return str(event.body["campaign_id"])
            except LedgerProblem:
                continue  # it is being made
        time.sleep(0.5)
    raise AssertionError(f"the campaign did not come up within {patience_s:.0f} s (exit code {campaign.poll()})")
