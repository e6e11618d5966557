"""Runs command lines of `enpire`, each watched: a helper process of test_hostile_lines.

It has the libraries loaded and forks a process for each line, so that a line which dies or serves for ever is found.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import select
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import typer

LIMIT_S = 300
"""A line that needs longer is ended; the longest takes less than a second on a quiet machine."""
LATE = 2
"""So many lines that are ended end their batch."""
TOUCHED = {"ledger.lock", "looked_at", "web.db"}
"""Files of an existing home that say nothing about a campaign: whoever opens it may write them."""
LIBRARIES = (
    "agent_loop.mcp_server", "agent_loop.session", "enpire.doctor", "enpire.report.report",
    "enpire.service.auditing", "enpire.service.datasets", "enpire.service.offline",
    "enpire.service.processes", "enpire.service.reading", "enpire.service.running", "enpire.service.stations",
    "enpire.service.watching", "enpire.policy_server.policy_server", "enpire.station.station",
    "robot_drivers.serving", "sim.tasks.pin_insertion", "web_ui.server",
)  # fmt: skip
"""Loaded once, for all lines."""


def contents(folder: Path) -> dict[str, tuple[int, int]]:
    """Name -> (size, time of change in ns) of everything in `folder`."""
    found: dict[str, tuple[int, int]] = {}
    for entry in _entries(str(folder)):
        state = entry.stat(follow_symlinks=False)
        found[entry.path] = (0, 0) if entry.is_dir(follow_symlinks=False) else (state.st_size, state.st_mtime_ns)
    return found


def _entries(folder: str) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            yield entry
            if entry.is_dir(follow_symlinks=False):
                yield from _entries(entry.path)


def _run(line: Sequence[str], program: Callable[..., Any], outputs: Sequence[int]) -> NoReturn:
    """In a forked process: run one line, as the `enpire` script does, and end with its exit code."""
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, output in enumerate(outputs, 1):
        os.dup2(output, number)
    code: object = 0
    try:
        program(line, prog_name="enpire")
    except SystemExit as end:
        code = end.code
    except BaseException:  # noqa: BLE001 (what the interpreter would print)
        traceback.print_exc()
        code = 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)


def _result(line: Sequence[str], program: Callable[..., Any]) -> dict[str, object]:
    """Run one line in a process of its own; that process and all that it started have ended then."""
    outputs = [os.memfd_create(name) for name in ("stdout", "stderr")]
    child = os.fork()
    if child == 0:
        _run(line, program, outputs)
    ending = os.pidfd_open(child)
    select.select([ending], [], [], LIMIT_S)
    os.close(ending)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    stdout, stderr = (os.pread(output, 100_000, 0).decode(errors="replace") for output in outputs)
    for output in outputs:
        os.close(output)
    return {"code": os.waitstatus_to_exitcode(status), "stdout": stdout, "stderr": stderr}


def _results(lines: Sequence[Sequence[str]], program: Callable[..., Any], watched: Path) -> list[dict[str, object]]:
    """The results of the lines up to the third that did not end in time."""
    results: list[dict[str, object]] = []
    before = contents(watched)
    for line in lines:
        result, after = _result(line, program), contents(watched)
        changed = (path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
        result["changed"] = sorted(path for path in changed if os.path.basename(path) not in TOUCHED)  # noqa: PTH119
        results.append(result)
        before = after
        if sum(one["code"] == -signal.SIGKILL for one in results) == LATE:
            break
    return results


def serve() -> None:
    """Answer each batch of lines with one JSON line."""
    warnings.filterwarnings("ignore", "This process .* is multi-threaded")  # by pyarrow's allocator, which takes forks
    for name in LIBRARIES:
        importlib.import_module(name)
    from enpire.cli import app

    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # pyright: ignore[reportAttributeAccessIssue]
    program = typer.main.get_command(app)
    for name in list(program.commands):  # pyright: ignore[reportAttributeAccessIssue]
        program.commands[name]  # pyright: ignore[reportAttributeAccessIssue]
    gc.freeze()  # a collection in a child would copy every page that it shares with this process
    for request in sys.stdin:
        asked = json.loads(request)
        results = _results(asked["lines"], program, Path(asked["watched"]))
        print(json.dumps(results), flush=True)


if __name__ == "__main__":
    serve()
