"""Lines about events, for a terminal or a log file."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TextIO


def print_line(line: str, stream: TextIO | None = None) -> None:
    """Print one line at once, by default on stdout.

    A stream may refuse it: its disk is full, or its reader has ended. Then the line is lost or comes later, and the
    process continues: it may be moving robots.
    """
    with suppress(OSError):
        print(line, file=stream or sys.stdout, flush=True)
