"""Plugin of the test runs in CI: a test that cannot run has failed; failures, and what tests cost, go to files."""

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

COST = "cost_s"
"""Property of a report: seconds of CPU of the test so far, in its process and in child processes that have ended."""
BEGAN = pytest.StashKey[float]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--failures FILE`: every failure, one JSON object a line (for .ci/repeat).

    `--costs FILE`: what each test that passed cost, a line of seconds of CPU and test (for .ci/slow_turns.py).
    """
    parser.addoption("--failures", metavar="FILE", default="", help="write every failure to FILE, one JSON a line")
    parser.addoption("--costs", metavar="FILE", default="", help="write to FILE what passed tests cost, seconds of CPU")


def pytest_configure(config: pytest.Config) -> None:
    """Begin the files. Worker processes leave them to the process that started them."""
    if hasattr(config, "workerinput"):
        return
    if failures := config.getoption("--failures"):
        config.pluginmanager.register(Failures(Path(failures)))
    if costs := config.getoption("--costs"):
        config.pluginmanager.register(Costs(Path(costs)))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse the mark `realtime` where it would forgive a fault.

    Raises:
        UsageError: A test of chaos, faults or store carries it.
    """
    marked = [item.nodeid for item in items if item.get_closest_marker("realtime")]
    wrong = [name for name in marked if name.startswith(NEVER_REALTIME)]
    if wrong:
        raise pytest.UsageError(f"These tests may not be marked realtime: {', '.join(wrong)}")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Note what the process and its ended children had cost before the test."""
    item.stash[BEGAN] = _cost_s()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, TestReport, TestReport]:
    """In CI, a skipped test has failed unless its reason is allowed. Each report says what the test has cost so far."""
    report = yield
    report.user_properties.append((COST, _cost_s() - item.stash[BEGAN]))
    return _without_skips(report)


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


def _cost_s() -> float:
    """Seconds of CPU of this process and of its children that have ended."""
    return sum(os.times()[:4])


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


class Costs:
    """Writes what each test that passed cost to a file, a line of seconds of CPU and test."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
        self._failed = set[str]()

    def pytest_runtest_logreport(self, report: TestReport) -> None:
        """A test, its setup or its teardown has ended."""
        if not report.passed:
            self._failed.add(report.nodeid)
        elif report.when == "teardown" and report.nodeid not in self._failed:
            cost_s = dict(report.user_properties)[COST]
            with self._path.open("a") as file:
                file.write(f"{cost_s:.1f} {report.nodeid}\n")
