"""What the room of an agent prints reaches its log: whole lines, and no command to a terminal."""

from __future__ import annotations

import os
import threading
import time

from enpire.log_lines import printable
from enpire.processes.room import _copy


def test_output_is_shown_line_by_line_however_it_is_written() -> None:
    lines: list[str] = []
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as output:
        copying = threading.Thread(target=_copy, args=(output, lines.append, 100))
        copying.start()
        for part in (b"on", b"e\ntw\xc3", b"\xb6\n", b"", b"\nlast"):
            os.write(writer, part)
            time.sleep(0.05)
        os.close(writer)
        copying.join(300)
    assert lines == ["one", "tw\u00f6", "", "last"]


def test_output_is_shown_without_commands_to_the_terminal() -> None:
    assert printable("a\x1b]52;c;x\x07b\x9bc\u202ed\te\n") == "a�]52;c;x�b�c�d\te\n"
