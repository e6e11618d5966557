from __future__ import annotations

import io
import os
import pty
import time

import pytest

from enpire.commands import progress_bar
from enpire.commands.progress_bar import Bar
from enpire.interfaces import Progress


def gate(done: int) -> Progress:
    metrics = {"successes": 3 * done // 4, "trials": done, "won": 2}
    return Progress(stage="pairs", done=done, total=40, metrics=metrics)


def test_a_short_verb_says_nothing() -> None:
    out = io.StringIO()
    with Bar("loading", "/somewhere", out) as bar:
        bar(gate(20))
    assert out.getvalue() == ""


def test_where_nobody_watches_a_line_says_how_far_how_long_and_how_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_bar, "QUIET_S", 0.0)
    out = io.StringIO()
    with Bar("loading", "/somewhere", out) as bar:
        bar(gate(0))
        bar(gate(20))
    first, begun, line = out.getvalue().splitlines()
    assert first == "Files go to /somewhere"
    assert begun == "pairs 0/40, 0 s, won 2"
    assert line == "pairs 20/40, 0 s, 0 s left, success 75.0% [53.1%, 88.8%] in 20, won 2"


def test_a_terminal_gets_a_bar_and_the_last_one_stays() -> None:
    reader, terminal = pty.openpty()
    with os.fdopen(terminal, "w", encoding="utf-8") as out:
        with Bar("loading", "/somewhere", out) as bar:
            time.sleep(progress_bar.DELAY_S + 0.5)
            bar(gate(20))
            bar(gate(40))
        shown = ""
        while not shown.endswith("\x1b[?25h"):
            shown += os.read(reader, 1 << 16).decode()
    os.close(reader)
    assert "Files go to /somewhere" in shown
    assert "loading" in shown
    assert "40/40" in shown
    assert "75.0% [59.8%, 85.8%]" in shown.replace("\r\n", " ")
    assert shown.endswith("\x1b[?25h"), "the cursor is back"
