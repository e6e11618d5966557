"""Attacks with datasets of other tools, through `enpire episodes import`."""

from __future__ import annotations

import random
import subprocess
import sys

from benchmarks.attacks import Result, Run, attack
from enpire.home import open_home
from enpire.store.episodes import FolderStore
from tests.enpire.datasets.hostile_datasets import ATTACKS
from tests.fakes.sample_campaign import CAMPAIGN, begin

PATIENCE_S = 120.0
"""A pipe or a device that is opened holds the command for ever."""


@attack("a dataset from a download", "leaves its folder, blocks the command, or teaches harmful commands")
def a_dataset_that_is_more_than_data(run: Run) -> Result:
    """Import hostile datasets: each must end in one sentence, with exit code 1 and no episode."""
    home = open_home(run.folder / "home")
    begin(home.root).flush()
    names = random.Random(run.seed).sample(sorted(ATTACKS), 4) if run.quick else sorted(ATTACKS)
    lost: list[str] = []
    for number, name in enumerate(names):
        make, words = ATTACKS[name]
        make(root := run.folder / f"set-{number}")
        said = _imported([str(root), "--campaign", CAMPAIGN, "--home", str(home.root)])
        if words not in said or list(FolderStore(home.episodes).ids()):
            lost.append(f"{name}: {said[-300:]}")
    held = len(names) - len(lost)
    evidence = f"{held} of {len(names)} imports ended with one sentence and no episode"
    return Result(tried=len(names), held=held, evidence=f"{evidence}. {lost[0]}" if lost else evidence)


def _imported(words: list[str]) -> str:
    """The sentence with which the command refused; another text where it did something else."""
    command = [sys.executable, "-m", "enpire.cli", "episodes", "import", *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    except subprocess.TimeoutExpired:
        return f"the command did not end within {PATIENCE_S:g} s"
    sentences = [line for line in done.stderr.splitlines() if line.startswith("enpire: ")]
    if done.returncode != 1 or len(sentences) != 1 or "Traceback" in done.stderr:
        return f"(exit code {done.returncode}) {done.stderr}"
    return sentences[0]
