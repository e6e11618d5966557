"""The progress bar of slow subcommands: stage, time left, success rate, and the folder of the files."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Self, TextIO

from enpire.gate.intervals import wilson
from enpire.interfaces import Progress
from enpire.queries.texts import duration

if TYPE_CHECKING:
    from types import TracebackType

    from rich.progress import Progress as Live
    from rich.progress import TaskID

DELAY_S = 1.0
"""A subcommand that ends sooner shows no bar, in seconds."""
DRAW_S = 0.1
QUIET_S = 5.0
"""Shortest time between two drawings, and between two lines where there is no terminal, in seconds."""


class Bar:
    """The progress of one subcommand on stderr, as a context manager; call it with each progress report.

    In a terminal it draws one bar per stage; elsewhere it prints a line every few seconds. Metrics named `successes`
    and `trials` become a rate with its 95 % Wilson interval.
    """

    def __init__(self, title: str, files: object = "", out: TextIO | None = None) -> None:
        """Show `title` until the first report; `files` is where the files go, empty for none."""
        self._out = out or sys.stderr
        self._terminal = self._out.isatty()
        self._files = f"Files go to {files}" if files else ""
        self._progress = Progress(stage=title, done=0, total=0, metrics={})
        self._began_s = self._printed_s = self._stage_s = time.monotonic()
        self._shown_s = 0.0
        self._live: Live | None = None
        self._row: TaskID | None = None
        self._guard = threading.RLock()
        self._opening = threading.Timer(DELAY_S, self._open)

    def __enter__(self) -> Self:
        """Show the bar after DELAY_S."""
        if self._terminal:
            self._opening.daemon = True
            self._opening.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """End the bars; they stay on the screen."""
        self._opening.cancel()
        with self._guard:
            if self._live is not None:
                self._live.stop()
                self._live = None

    def __call__(self, progress: Progress) -> None:
        """Show one report."""
        with self._guard:
            if progress.stage != self._progress.stage:
                self._finish()
                self._stage_s, self._shown_s = time.monotonic(), 0.0
            self._progress, now = progress, time.monotonic()
            done = 0 < progress.total <= progress.done
            if self._live is not None and (done or now - self._shown_s >= DRAW_S):
                self._shown_s = now
                self._draw(self._live)
            elif not self._terminal and now - self._printed_s >= QUIET_S:
                self._print(now)

    def show(self, stage: str, done: int, total: int) -> None:
        """Show a report without metrics."""
        self(Progress(stage=stage, done=done, total=total, metrics={}))

    def _open(self) -> None:
        """Open the bars, in the timer's thread; `rich` draws the clock in a thread of its own."""
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Live
        from rich.table import Column

        with self._guard:
            live = Live(
                TextColumn("{task.description}"), BarColumn(bar_width=16), TextColumn("{task.fields[count]}"),
                TimeElapsedColumn(), TextColumn("{task.fields[note]}", table_column=Column()),
                console=Console(file=self._out), redirect_stdout=sys.stdout.isatty(),
            )  # fmt: skip
            live.start()
            if self._files:
                live.console.print(self._files, markup=False, highlight=False, soft_wrap=True)
            self._live = live
            self._draw(live)

    def _draw(self, live: Live) -> None:
        progress = self._progress
        if self._row is None:
            self._row = live.add_task(progress.stage, total=None, count="", note="")
        live.update(
            self._row,
            total=progress.total or None,
            completed=progress.done,
            count=_count(progress),
            note=", ".join(self._notes()),
        )

    def _finish(self) -> None:
        """End the stage on the screen; the next report starts another."""
        if self._live is not None and self._row is not None:
            done = self._progress.done or 1
            self._live.update(self._row, total=done, completed=done, note="")
        self._row = None

    def _print(self, now: float) -> None:
        if self._printed_s == self._began_s and self._files:
            print(self._files, file=self._out)
        self._printed_s = now
        facts = [
            f"{self._progress.stage} {_count(self._progress)}".rstrip(),
            duration(now - self._began_s),
            *self._notes(),
        ]
        print(", ".join(facts), file=self._out, flush=True)

    def _notes(self) -> list[str]:
        progress, spent_s = self._progress, time.monotonic() - self._stage_s
        left = []
        if 0 < progress.done < progress.total:
            left = [f"{duration(spent_s * (progress.total - progress.done) / progress.done)} left"]
        return left + _notes_of(progress.metrics)


def _count(progress: Progress) -> str:
    return f"{progress.done}/{progress.total}" if progress.total else ""


def _notes_of(metrics: Mapping[str, float]) -> list[str]:
    """Success with its interval, and the first three other metrics, as text."""
    rest = {name: value for name, value in metrics.items() if name not in {"successes", "trials"}}
    notes = [f"{name} {value:.3g}" for name, value in rest.items()][:3]
    if metrics.get("trials"):
        rate = wilson(int(metrics["successes"]), int(metrics["trials"]))
        notes.insert(0, f"success {rate.rate:.1%} [{rate.low:.1%}, {rate.high:.1%}] in {rate.n}")
    return notes
