"""Fixtures of the simulation's tests."""

from __future__ import annotations

import pytest

from sim.tasks.pin_insertion import PinInsertion

SECRET = b"a secret of the tests"


@pytest.fixture
def pin() -> PinInsertion:
    """The task of most tests."""
    return PinInsertion()
