"""Shared by `enpire task check` and `enpire robot check`: the progress bar, one line per result, the summary."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count

import typer

from enpire.commands.options import answer
from enpire.commands.progress_bar import Bar
from enpire.conformance import CheckResult, ConformanceReport

type OnResult = Callable[[CheckResult], None]


def run_checks(
    what: str, total: int, run: Callable[[OnResult], ConformanceReport], *, verbose: bool, as_json: bool
) -> ConformanceReport:
    """Run the checks of one task or robot under a progress bar.

    Args:
        what: the stage that the bar names.
        total: how many checks there are.
        run: runs them, and calls its argument with each result.
        verbose: print each result when it is known; without, only those that did not pass.
        as_json: print nothing.
    """
    number = count(1)
    with Bar(what) as bar:

        def show(result: CheckResult) -> None:
            bar.show(what, next(number), total)
            if not as_json and (verbose or result.result != "passed"):
                typer.echo(result.line)

        report = run(show)
    if not as_json:
        typer.echo(report.summary)
    return report


def finish(reports: Sequence[ConformanceReport], *, as_json: bool) -> None:
    """Print the reports as one JSON list if that was asked for; exit code 1 if a check failed."""
    if as_json:
        answer(reports, as_json=True, text="")
    if not all(report.conforms for report in reports):
        raise typer.Exit(1)
