"""Counts lost and doubled episodes under random failures: `python -m benchmarks.chaos [--events 200] [--seed 1]`.

Real processes of one campaign on the point task: the orchestrator, four stations of its own, one that connects through
a faulty network and records a camera, one whose robot is behind a guard, and a learner. At random moments one process
is killed (-9), the orchestrator most often inside a commit of its ledger; all are killed at once, the network is cut or
stalls, the orchestrator hangs, or a disk is full. After a kill the same command starts again, with or without another
command before it; nothing else is repaired. In between, an operator stops all robots while requests and connections
flood the lab. A witness reads every spool, so it knows which episodes must not be lost; at the end, ledger and files
are audited against it. Full disks need root (a tmpfs), and kills inside a commit need strace; otherwise they are left
out. `--keep FILE` adds up several runs, with another seed each.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

from benchmarks.chaos_pieces import Piece, check, keep, stops_of, summary
from benchmarks.chaos_stops import LIMIT_MS, Stops, stop_in_a_flood
from benchmarks.chaos_world import OFTEN, World
from benchmarks.machine import commit, describe
from enpire.commands.runs import GOAL_MISSED
from enpire.errors import UsageError
from tests.chaos.harness import VERDICTS, audit


def break_things(world: World, stops: Stops, done: Counter[str], asked: argparse.Namespace) -> None:
    """Cause failures one after the other, each while the campaign works, and count them in `done`."""
    flooded = lambda: stop_in_a_flood(world.home, world.address, world.robots, stops)  # noqa: E731
    known = {
        name: happen for name, happen in {**world.events(), "stop in a flood": flooded}.items() if asked.only in name
    }
    began = time.monotonic()
    world.works_again()
    while done.total() < asked.events and time.monotonic() - began < asked.limit_s:
        time.sleep(world.draw.uniform(0.0, 1.0))
        # The rarest first, so that the learner, which seldom runs, is killed too.
        for name in sorted(known, key=lambda name: (done[name] / OFTEN.get(name, 1), world.draw.random())):
            if known[name]():
                done[name] += 1
                print(f"{done.total():4d}  {time.monotonic() - began:6.0f} s  {name}", file=sys.stderr, flush=True)
                break
        world.works_again()


def main() -> int:
    """Cause failures, audit, print; returns 1 if a run broke off, lost, doubled, left open or differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit-s", type=float, default=9000.0)
    parser.add_argument("--only", default="", help="only events with these words in their name")
    parser.add_argument("--keep", type=Path, help="add the result to this file, and print the sum of all its results")
    arguments = parser.parse_args()
    at = commit()
    if arguments.keep:
        try:
            check(arguments.keep, arguments.seed, at)
        except UsageError as problem:
            parser.error(str(problem))
    print(describe([arguments.seed]))
    began, stops, done, found, code, error = time.monotonic(), Stops(), Counter[str](), None, None, ""
    with tempfile.TemporaryDirectory(prefix="enpire-chaos-") as folder:
        world = World(Path(folder), random.Random(arguments.seed))
        try:
            world.start()
            break_things(world, stops, done, arguments)
            code = world.end()
            world.close()
            found = audit(world.home, world.witness)
            if found.problems() or code != GOAL_MISSED:
                print(world.logs(), file=sys.stderr)
        except Exception as problem:  # noqa: BLE001 - it counts in the sum of all runs
            traceback.print_exc()
            print(world.logs(), file=sys.stderr)
            error = f"{type(problem).__name__}: {problem}"
        finally:
            world.close()
            for disk in world.disks.values():
                disk.close()
    piece = Piece(
        seed=arguments.seed, wall_s=time.monotonic() - began, events=dict(done), in_commit=dict(world.hot),
        restarted=dict(world.restarted), found=found, stops=stops,
        code=code, error=error, commit=at,
        verdicts=sum(outcome in VERDICTS for outcome in world.witness.seen.values()),
    )  # fmt: skip
    pieces = keep(arguments.keep, piece) if arguments.keep else [piece]
    print(summary(pieces))
    problems = [problem for one in pieces for problem in one.problems()]
    if stops_of(pieces).slow:
        problems.append(f"the p99 of the stops is above {LIMIT_MS:.0f} ms")
    for problem in problems:
        print(f"PROBLEM   {problem}")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
