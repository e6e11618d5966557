"""How long the reading verbs of the command line take, from the typed command to its end: at most 0.3 s each.

`python -m benchmarks.verbs [--home DIR] [--repeats N]`: every verb N times in a process of its own, on a lab with a
recorded campaign, or on DIR. Once with compiled bytecode, as pip and the first call leave it, and once where none of
ENPIRE's may be kept (PYTHONDONTWRITEBYTECODE on a fresh checkout). For `mcp` the time until its client is greeted
counts, at most 1 s. PASS when the 95th percentile is within the limit; exit code 1 otherwise.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

from benchmarks.machine import describe
from tests.fakes.sample_campaign import record_campaign

LIMIT_S = 0.3
MCP, MCP_LIMIT_S = "mcp", 1.0
ROOT = Path(__file__).resolve().parent.parent
VERBS = (
    "--help", "--version", "campaign list", "campaign show", "campaign show --json", "episodes list",
    "episodes show {}", "policy list", "policy show {}", "ledger verify --ledger-only", "ledger head",
    "ledger tail", "task list", "robot list", "agent list", MCP,
)  # fmt: skip
"""`{}` stands for the first id that the verb's `list` names."""


def main() -> int:
    """Time the verbs; 1 when one is over the limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", type=Path, help="a lab with a campaign; a recorded one when left out")
    parser.add_argument("--repeats", type=int, default=20)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        home = asked.home or Path(scratch) / "home"
        if asked.home is None:
            record_campaign(home)
        print(f"{describe()}\n          typer {version('typer')}, home {home}, {_events(home)} events\n")
        print(f"{'verb':<22} {'bytecode':<9} {'median':>8} {'p95':>8} {'processor':>10}   limit {1e3 * LIMIT_S:.0f} ms")
        passed = [
            timed(words, asked.repeats, environment(home, cache))
            for cache in (f"{scratch}/bytecode", "")
            for words in typed(home)
        ]
    return 0 if all(passed) else 1


def typed(home: Path) -> list[list[str]]:
    """The verbs with the ids of this home."""
    found = {
        "episodes": str(_answer(home, "episodes list", "rows")["order_id"]),
        "policy": str(_answer(home, "policy list")["id"]),
    }
    return [[found[verb.split()[0]] if word == "{}" else word for word in verb.split()] for verb in VERBS]


def environment(home: Path, cache: str) -> Mapping[str, str]:
    """Where bytecode is kept, and which lab is read; an empty cache means that nothing is kept."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    bytecode = {"PYTHONPYCACHEPREFIX": cache} if cache else {"PYTHONDONTWRITEBYTECODE": "1"}
    return kept | {"ENPIRE_HOME": str(home)} | bytecode


def timed(words: Sequence[str], repeats: int, surroundings: Mapping[str, str]) -> bool:
    """One verb's line; whether its 95th percentile is within the limit."""
    command = [sys.executable, "-c", "from enpire.cli import main; main()", *words]
    limit_s = MCP_LIMIT_S if words[0] == MCP else LIMIT_S
    walls: list[float] = []
    processors: list[float] = []
    for _ in range(repeats + 1):
        before, began_s = os.times(), time.perf_counter()
        if words[0] == MCP:
            walls.append(greeted(command, surroundings) - began_s)
        else:
            subprocess.run(command, check=True, capture_output=True, env=surroundings, cwd=ROOT)
            walls.append(time.perf_counter() - began_s)
        after = os.times()
        processors.append(sum(after[2:4]) - sum(before[2:4]))
    # The first run compiles, and reads what no cache holds yet.
    p95_s = statistics.quantiles(walls[1:], n=20, method="inclusive")[-1]
    kept = "compiled" if "PYTHONDONTWRITEBYTECODE" not in surroundings else "none"
    shown = " ".join(word if len(word) < 16 else f"{word[:4]}…{word[-4:]}" for word in words)
    figures = [statistics.median(walls[1:]), p95_s, statistics.median(processors[1:])]
    median, p95, processor = (f"{1e3 * figure:.0f} ms" for figure in figures)
    verdict = "PASS" if p95_s <= limit_s else "FAIL"
    print(f"{shown:<22} {kept:<9} {median:>8} {p95:>8} {processor:>10}   {verdict}", flush=True)
    return p95_s <= limit_s


def greeted(command: Sequence[str], surroundings: Mapping[str, str]) -> float:
    """When a new MCP server answered its client's first message, by `time.perf_counter`; the server has ended."""
    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "verbs", "version": "1"}}
    ask = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=surroundings, cwd=ROOT
    ) as server:  # fmt: skip
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps(ask).encode() + b"\n")
        server.stdin.flush()
        answer = json.loads(server.stdout.readline())
        at_s = time.perf_counter()
        server.stdin.close()
    assert answer["result"]["serverInfo"]["name"] == "enpire", answer
    return at_s


def _events(home: Path) -> int:
    return int(str(_answer(home, "ledger verify --ledger-only")["events"]))


def _answer(home: Path, verb: str, key: str = "") -> Mapping[str, object]:
    """A verb's document, or the first item where it is a list (below `key`, where there is one)."""
    command = [sys.executable, "-m", "enpire.cli", *verb.split(), "--json", "--home", str(home)]
    document = json.loads(subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout)
    items = document[key] if key else document
    return items[0] if isinstance(items, list) else items


if __name__ == "__main__":
    sys.exit(main())
