"""Plugin of the test runs in CI: a test that cannot run has failed, and every failure is written to a file."""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from _pytest.reports import CollectReport, TestReport

MAY_SKIP = (
    "root may write everywhere",
    "only root can become another user",
    "mounting needs root",
    "mounting a small disk needs root",
    "no control group for memory here",
    "this user may make no control groups",
    "this machine has a GPU",
    "a write-ahead log leaves no half-written database",
    "ACT reads no instruction",
    "no ROS 2 is sourced",
)
"""Beginnings of the reasons for which a test may be skipped in CI: this machine cannot have what the test needs, or the
parameters of the test exclude it. A program or a package that is missing is not among them."""
NEVER_REALTIME = ("tests/chaos/", "tests/faults/", "tests/enpire/store/")
"""Tests here may not be marked `realtime`: a fault that shows once in many runs is what they look for."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--failures FILE`: write every failure to FILE, one JSON object a line (for .ci/repeat)."""
    parser.addoption("--failures", metavar="FILE", default="", help="write every failure to FILE, one JSON a line")


def pytest_configure(config: pytest.Config) -> None:
    """Begin the file of failures. Worker processes leave it to the process that started them."""
    path = config.getoption("--failures")
    if path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Failures(Path(path)))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse the mark `realtime` where it would forgive a fault.

    Raises:
        UsageError: A test of chaos, faults or store carries it.
    """
    marked = [item.nodeid for item in items if item.get_closest_marker("realtime")]
    wrong = [name for name in marked if name.startswith(NEVER_REALTIME)]
    if wrong:
        raise pytest.UsageError(f"These tests may not be marked realtime: {', '.join(wrong)}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, TestReport, TestReport]:
    """In CI, a skipped test has failed unless its reason is allowed."""
    del item
    return _without_skips((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, CollectReport, CollectReport]:
    """In CI, a skipped module has failed unless its reason is allowed."""
    del collector
    return _without_skips((yield))


def _without_skips[R: (TestReport, CollectReport)](report: R) -> R:
    if report.outcome != "skipped" or hasattr(report, "wasxfail") or os.environ.get("CI") != "true":
        return report
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    if not reason.removeprefix("Skipped: ").startswith(MAY_SKIP):
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid} was skipped ({reason}). With CI=true every test must run: install it."
    return report


class Failures:
    """Writes the failures of a run to a file: the test, whether it is marked `realtime`, and the text."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")

    def pytest_runtest_logreport(self, report: TestReport) -> None:
        """A test, its setup or its teardown has ended."""
        self._take(report, "realtime" in report.keywords)

    def pytest_collectreport(self, report: CollectReport) -> None:
        """A module has been collected."""
        self._take(report, False)

    def _take(self, report: TestReport | CollectReport, realtime: bool) -> None:
        if report.failed:
            entry = {"test": report.nodeid, "realtime": realtime, "text": report.longreprtext}
            with self._path.open("a") as file:
                file.write(json.dumps(entry) + "\n")
