"""An acknowledged alarm: the ledger says who has seen it, and nothing else changes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from enpire.campaign.command_events import CommandEffective
from enpire.home import open_home
from enpire.requests.operator_commands import OperatorCommand
from enpire.steps.handle_commands import handle_commands
from tests.enpire.test_loop import open_lab


def test_the_ledger_says_who_has_seen_an_alarm(tmp_path: Path) -> None:
    command = OperatorCommand(
        command_id="one", kind="acknowledge", target="offline", operator="ada", reason="Offline (s1)"
    )
    with open_lab(open_home(tmp_path)) as lab:
        state = replace(lab.state, newest_event=0)
        for _ in range(2):
            lab.inbox.leave(command)
            lab.last_done_s["inbox"] = -1e9
            handle_commands(lab)
        handle_commands(lab)
        [event] = [entry.event for entry in lab.ledger.events(kinds=("command effective",))]
        assert isinstance(event, CommandEffective)
        assert (event.command, event.target, event.by, event.reason) == (
            "acknowledge",
            "offline",
            "ada",
            "Offline (s1)",
        )
        assert replace(lab.state, newest_event=0) == state
