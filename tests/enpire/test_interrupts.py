"""Ctrl-C while a session starts ends it in good order, wherever in its start it comes."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from enpire import session
from enpire.home import open_home
from enpire.steps.ending import INTERRUPTED
from tests.chaos.point_lab import write_campaign


class Dropped:
    """An object that gets a signal while Python removes it, where an exception of a handler would be lost."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __del__(self) -> None:
        """Get the signal."""
        os.kill(os.getpid(), self.number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("step", ["open_lab", "_connected", "begin_or_resume"])
def test_a_signal_before_the_lab_is_open_ends_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, step: str
) -> None:
    whole = getattr(session, step)

    def interrupted(*given: object, **more: object) -> object:
        Dropped(number)
        return whole(*given, **more)

    monkeypatch.setattr(session, step, interrupted)
    handlers = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    ending = session.run_campaign(write_campaign(tmp_path / "files", stations=0), open_home(tmp_path / "home"))
    assert (ending.reason, ending.over) == (INTERRUPTED, False)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == handlers
