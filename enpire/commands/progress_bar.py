"""What every verb shows that takes longer than two seconds: a bar, the time left, a running rate, where files go."""

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
"""A verb that is done sooner shows nothing."""
DRAW_S = 0.1
QUIET_S = 5.0
"""A terminal is drawn at most so often; where nobody watches, a line is said so often."""


class Bar:
    """The progress of one verb on stderr, as a context; call it with every report of what runs inside.

    A bar per stage in a terminal, a line every few seconds elsewhere. Metrics named `successes` and `trials` become a
    rate with its 95 % Wilson interval.
    """

    def __init__(self, title: str, files: object = "", out: TextIO | None = None) -> None:
        """Say `title` until the first report, and that files go to `files`, where there are any."""
        self._out = out or sys.stderr
        self._watched = self._out.isatty()
        self._files = f"Files go to {files}" if files else ""
        self._told = Progress(stage=title, done=0, total=0, metrics={})
        self._began_s = self._said_s = self._stage_s = time.monotonic()
        self._shown_s = 0.0
        self._live: Live | None = None
        self._row: TaskID | None = None
        self._guard = threading.RLock()
        self._opening = threading.Timer(DELAY_S, self._open)

    def __enter__(self) -> Self:
        """Show the bar if the verb takes long enough."""
        if self._watched:
            self._opening.daemon = True
            self._opening.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Leave the last bars standing."""
        self._opening.cancel()
        with self._guard:
            if self._live is not None:
                self._live.stop()
                self._live = None

    def __call__(self, progress: Progress) -> None:
        """Show one report."""
        with self._guard:
            if progress.stage != self._told.stage:
                self._finish()
                self._stage_s, self._shown_s = time.monotonic(), 0.0
            self._told, now = progress, time.monotonic()
            done = 0 < progress.total <= progress.done
            if self._live is not None and (done or now - self._shown_s >= DRAW_S):
                self._shown_s = now
                self._draw(self._live)
            elif not self._watched and now - self._said_s >= QUIET_S:
                self._say(now)

    def show(self, stage: str, done: int, total: int) -> None:
        """Show a report without metrics."""
        self(Progress(stage=stage, done=done, total=total, metrics={}))

    def _open(self) -> None:
        """From the timer's thread; `rich` draws from a thread of its own, so the clock goes on between reports."""
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
        told = self._told
        if self._row is None:
            self._row = live.add_task(told.stage, total=None, count="", note="")
        live.update(
            self._row, total=told.total or None, completed=told.done, count=_count(told), note=", ".join(self._notes())
        )

    def _finish(self) -> None:
        """The stage on the screen is over; the next report begins another."""
        if self._live is not None and self._row is not None:
            done = self._told.done or 1
            self._live.update(self._row, total=done, completed=done, note="")
        self._row = None

    def _say(self, now: float) -> None:
        if self._said_s == self._began_s and self._files:
            print(self._files, file=self._out)
        self._said_s = now
        facts = [f"{self._told.stage} {_count(self._told)}".rstrip(), duration(now - self._began_s), *self._notes()]
        print(", ".join(facts), file=self._out, flush=True)

    def _notes(self) -> list[str]:
        told, spent_s = self._told, time.monotonic() - self._stage_s
        left = []
        if 0 < told.done < told.total:
            left = [f"{duration(spent_s * (told.total - told.done) / told.done)} left"]
        return left + _notable(told.metrics)


def _count(told: Progress) -> str:
    return f"{told.done}/{told.total}" if told.total else ""


def _notable(metrics: Mapping[str, float]) -> list[str]:
    """Success with its interval, and the first three other metrics, as text."""
    rest = {name: value for name, value in metrics.items() if name not in {"successes", "trials"}}
    told = [f"{name} {value:.3g}" for name, value in rest.items()][:3]
    if metrics.get("trials"):
        rate = wilson(int(metrics["successes"]), int(metrics["trials"]))
        told.insert(0, f"success {rate.rate:.1%} [{rate.low:.1%}, {rate.high:.1%}] in {rate.n}")
    return told
