"""The example of `enpire serve --example`: a recorded campaign that comes with ENPIRE.

`benchmarks/example_run.py` makes its file from a campaign that ran.
"""

from __future__ import annotations

import lzma
import tarfile
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from enpire.errors import FileProblem
from enpire.home import Home, open_home

PACKED = Path(__file__).with_name("example.tar.xz")


@contextmanager
def example_home() -> Generator[Home]:
    """A home with the example while entered, in a temporary folder. No lab's home is read or written.

    Raises:
        FileProblem: the file of the example is missing or damaged.
    """
    with tempfile.TemporaryDirectory(prefix="enpire-example-") as folder:
        try:
            with tarfile.open(PACKED) as packed:
                packed.extractall(folder, filter="data")
        except (OSError, tarfile.TarError, lzma.LZMAError, EOFError) as problem:
            raise FileProblem(
                f"The example {PACKED} cannot be unpacked ({problem}); install ENPIRE again, or run `enpire demo`."
            ) from problem
        yield open_home(folder)
