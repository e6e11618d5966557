"""Lines about events, for a terminal or a log file."""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from typing import TextIO

_LONG = re.compile(r"(\S{200})\S{200,}(\S{100})")
"""A word that no sentence needs whole, such as a path of 5000 characters."""


def one_line(sentence: str) -> str:
    """The sentence of an error as one line: control characters are escaped, words of 500 characters are shortened."""
    shown = (sign if sign.isprintable() or _is_surrogate(sign) else repr(sign)[1:-1] for sign in sentence)
    return _LONG.sub(r"\1...\2", "".join(shown))


def printable(text: str) -> str:
    """The text without control characters, which could command a terminal; line ends stay."""
    return "".join(letter if letter.isprintable() or letter in "\n\t" else "�" for letter in text)


def encodable(text: str) -> str:
    """The text without halves of characters, which names of files and foreign JSON may contain and no file can hold."""
    return text.encode(errors="replace").decode()


def _is_surrogate(sign: str) -> bool:
    """Whether it stands for a byte that is not UTF-8; the stream decides how it is printed."""
    return "\ud800" <= sign <= "\udfff"


def print_line(line: str, stream: TextIO | None = None) -> None:
    """Print one line at once, by default on stdout.

    A stream may refuse it: its disk is full, or its reader has ended. Then the line is lost or comes later, and the
    process continues: it may be moving robots.
    """
    with suppress(OSError):
        print(line, file=stream or sys.stdout, flush=True)
