"""Runs tests on a mutant: in a copy of the tree, in a process that is forked with the large packages loaded."""

from __future__ import annotations

import importlib
import os
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

from benchmarks.mutants import ROOT, Mutant

PRELOADED = ("pytest", "hypothesis", "numpy", "yaml", "msgpack", "sqlite_utils", "xdist", "httpx")
"""Loaded once; no package of this project is among them."""
OURS = ("enpire", "sim", "policies", "robot_drivers", "agent_loop", "web_ui", "tests", "benchmarks")
Verdict = Literal["killed", "survived", "too slow"]


class Tree:
    """A copy of the tracked files in which one file at a time is a mutant."""

    def __init__(self, folder: Path) -> None:
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for name in filter(None, listed.split("\0")):
            if (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, folder / name)
        built = ROOT / "web_ui" / "static"
        if built.is_dir():
            shutil.copytree(built, folder / "web_ui" / "static", dirs_exist_ok=True)
        self._folder, self._output = folder, folder.with_suffix(".txt")

    def passes(self, tests: Sequence[str], limit_s: float) -> tuple[bool, float]:
        """Whether the tests pass on the tree as it is, and how many seconds they took."""
        began_s = time.monotonic()
        return self._status(tests, limit_s) == 0, time.monotonic() - began_s

    def try_mutant(self, mutant: Mutant, limit_s: float) -> Verdict:
        """What the tests say about a mutant. One that needs more than `limit_s` seconds has changed what they see."""
        path = self._folder / mutant.file
        original = path.read_text(encoding="utf-8")
        path.write_text(mutant.source, encoding="utf-8")
        try:
            status = self._status(mutant.tests, limit_s)
        finally:
            path.write_text(original, encoding="utf-8")
        return "too slow" if status is None else "survived" if status == 0 else "killed"

    @property
    def output(self) -> str:
        """The output of the last run."""
        return self._output.read_text(encoding="utf-8", errors="replace")

    def _status(self, tests: Sequence[str], limit_s: float) -> int | None:
        """Exit status of pytest; None after `limit_s` seconds."""
        child = os.fork()
        if child == 0:
            _run_tests(self._folder, self._output, tests)
        ends_s = time.monotonic() + limit_s
        while True:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                with suppress(ProcessLookupError):
                    os.killpg(child, signal.SIGKILL)  # what the tests started and left
                return os.waitstatus_to_exitcode(status)
            if time.monotonic() > ends_s:
                os.killpg(child, signal.SIGKILL)
                os.waitpid(child, 0)
                return None
            time.sleep(0.02)


def preload() -> None:
    """Load the large packages that tests need."""
    for name in PRELOADED:
        importlib.import_module(name)


def _run_tests(folder: Path, output: Path, tests: Sequence[str]) -> None:
    """In the forked child: run pytest in the copy, and end."""
    status = 99
    try:
        os.setsid()
        with output.open("w") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        os.chdir(folder)
        os.environ |= {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
        sys.dont_write_bytecode = True
        sys.path[:] = [str(folder), *(path for path in sys.path if path and Path(path).resolve() != ROOT)]
        for name in [name for name in sys.modules if name.partition(".")[0] in OURS]:
            del sys.modules[name]
        pytest = importlib.import_module("pytest")
        loaded = "ignore::pytest.PytestAssertRewriteWarning"  # hypothesis is loaded already
        status = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-W", loaded, *tests]))
    except BaseException:  # noqa: BLE001 (the process ends here, whatever happened)
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
