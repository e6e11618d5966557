"""A lab that has begun, for what people and agents ask of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from enpire.home import Home, open_home
from enpire.lab import Lab
from enpire.loop import turn
from tests.enpire.test_loop import open_lab


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return open_home(tmp_path / "home")


@pytest.fixture
def lab(home: Home) -> Iterator[Lab]:
    """Its first turn is over: both stations have joined."""
    with open_lab(home) as lab:
        turn(lab)
        yield lab
