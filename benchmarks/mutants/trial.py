"""Runs tests on a mutant: in a copy of the tree, in a process that is forked with all libraries loaded.

The first run, on the tree as it is, leaves compiled files, the time of every test and the names of the libraries that
were loaded. Later runs load nothing twice and begin with the tests that killed most mutants, then the quickest.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from benchmarks.mutants import ROOT, Mutant

if TYPE_CHECKING:
    import pytest

OURS = ("enpire", "sim", "policies", "robot_drivers", "agent_loop", "web_ui", "tests", "benchmarks")
"""Packages of this project: each run loads them anew."""
Verdict = Literal["killed", "survived", "too slow"]


@dataclass(slots=True, eq=False)  # pytest keeps plugins in sets
class _Record:
    """Plugin of one run of pytest: sorts the tests, and keeps what the next run needs to know."""

    order: Mapping[str, float]
    took_s: dict[str, float] = field(default_factory=dict[str, float])
    failed: str = ""
    """The test that killed the mutant."""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Sort the tests by `order`; those that it does not know run last, as they stand."""
        items.sort(key=lambda item: self.order.get(item.nodeid, float("inf")))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add up the seconds of a test, and note the first that failed."""
        self.took_s[report.nodeid] = self.took_s.get(report.nodeid, 0.0) + report.duration
        if report.failed:
            self.failed = self.failed or report.nodeid


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
        self._folder, self._output, self._record = folder, folder.with_suffix(".txt"), folder.with_suffix(".json")
        self._took_s: dict[str, float] = {}
        self._kills = Counter[str]()

    def passes(self, tests: Sequence[str], limit_s: float) -> tuple[bool, float]:
        """Whether the tests pass on the tree as it is, and how many seconds they took."""
        began_s = time.monotonic()
        status, took_s = self._status(tests, limit_s, compiles=True), time.monotonic() - began_s
        if status == 0:
            record = json.loads(self._record.read_text())
            self._took_s |= record["took_s"]
            _load(record["libraries"])
        return status == 0, took_s

    def try_mutant(self, mutant: Mutant, limit_s: float) -> Verdict:
        """What the tests say about a mutant. One that needs more than `limit_s` seconds has changed what they see."""
        path = self._folder / mutant.file
        original, was = path.read_text(encoding="utf-8"), path.stat()
        path.write_text(mutant.source, encoding="utf-8")
        try:
            status = self._status(mutant.tests, limit_s)
        finally:
            path.write_text(original, encoding="utf-8")
            os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))  # the compiled original is valid again
        if status:
            with suppress(FileNotFoundError):  # a mutant may end the process before it writes
                self._kills[json.loads(self._record.read_text())["failed"]] += 1
        return "too slow" if status is None else "survived" if status == 0 else "killed"

    @property
    def output(self) -> str:
        """The output of the last run."""
        return self._output.read_text(encoding="utf-8", errors="replace")

    def _status(self, tests: Sequence[str], limit_s: float, *, compiles: bool = False) -> int | None:
        """Exit status of pytest; None after `limit_s` seconds."""
        self._record.unlink(missing_ok=True)
        order = {test: took_s - 1e6 * self._kills[test] for test, took_s in self._took_s.items()}
        child = os.fork()
        if child == 0:
            sys.dont_write_bytecode = not compiles
            _run_tests(self._folder, tests, _Record(order))
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


def _load(libraries: Sequence[str]) -> None:
    """Import what the tests imported, so that the processes that are forked from now on have it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in libraries:
            with suppress(ImportError):
                importlib.import_module(name)


def _run_tests(folder: Path, tests: Sequence[str], record: _Record) -> None:
    """In the forked child: run pytest in the copy, and end."""
    status = 99
    try:
        os.setsid()
        with folder.with_suffix(".txt").open("w") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        os.chdir(folder)
        os.environ |= {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
        sys.path[:] = [str(folder), *(path for path in sys.path if path and Path(path).resolve() != ROOT)]
        for name in [name for name in sys.modules if name.partition(".")[0] in OURS]:
            del sys.modules[name]
        before = set(sys.modules)
        pytest = importlib.import_module("pytest")
        loaded = "ignore::pytest.PytestAssertRewriteWarning"  # hypothesis is loaded already
        status = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-W", loaded, *tests], plugins=[record]))
        new = [name for name in sys.modules if name not in before and name.partition(".")[0] not in (*OURS, "conftest")]
        libraries = [name for name in new if getattr(sys.modules[name], "__spec__", None)]
        found = {"took_s": record.took_s, "failed": record.failed, "libraries": libraries}
        folder.with_suffix(".json").write_text(json.dumps(found))
    except BaseException:  # noqa: BLE001 (the process ends here, whatever happened)
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
