"""Inside the second room of a task that an agent wrote: `python -m enpire.code_candidates.verifier_room CHANNEL RELAY`.

The task's verifier judges the episodes that arrive, one at a time. No label arrives here, and nothing is compared here.
"""

from __future__ import annotations

import sys

from enpire.code_candidates.inside import described, enter, load, write_sent
from enpire.code_candidates.task_scoring import evidence_in
from enpire.interfaces import Judge


def main(arguments: list[str]) -> int:
    """Judge until the channel is closed; returns the exit code."""
    frames, first = enter(arguments)
    folder = write_sent(first)
    try:
        judge: Judge = load(folder, "task").Task().verifier()
    except BaseException as problem:  # noqa: BLE001 - the code of an agent may raise anything, also SystemExit
        frames.send({"problem": described(problem, folder)})
        return 1
    frames.send({"ready": True})
    while (message := frames.receive()) is not None:
        try:
            frames.send({"kind": str(judge.judge(evidence_in(message)).kind)})
        except BaseException as problem:  # noqa: BLE001 - as above
            frames.send({"problem": described(problem, folder)})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
