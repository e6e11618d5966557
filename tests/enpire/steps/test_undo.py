"""A label is withdrawn while the campaign runs: the one before it counts again."""

from __future__ import annotations

from pathlib import Path

from enpire.campaign.apply_events import rebuilt
from enpire.home import open_home
from enpire.requests import operator_commands
from tests.agent_loop.pretend_lab import Running


def test_the_label_before_the_newest_counts_again_and_then_none(tmp_path: Path) -> None:
    with Running(open_home(tmp_path / "home")) as lab:
        state = lab.lab.state
        lab.until(lambda _: any(outcome == "success" for outcome in state.ended.values()))
        episode = next(one for one, outcome in state.ended.items() if outcome == "success")

        def label(what: str) -> str:
            """The label that counts after a command; the reason where it is refused."""
            sent = operator_commands.leave(lab.lab.home.inbox, f"judge {what}", episode, operator="ada")
            kinds = ("command effective", "command refused")
            lab.until(lambda _: any(one.body["command_id"] == sent for one in lab.ledger.events(kinds=kinds)))
            last = list(lab.ledger.events(kinds=kinds))[-1]
            return str(last.body.get("why") or state.labels.get(episode, ("", "none"))[1])

        assert [label("success"), label("unsafe"), label("failure")] == ["success", "unsafe", "failure"]
        assert [label("undo"), label("undo")] == ["unsafe", "success"]
        assert label("failure") == "failure"
        assert [label("undo"), label("undo")] == ["success", "none"]
        assert "has no label to withdraw" in label("undo")
        assert rebuilt(lab.ledger, state.campaign_id).labels == state.labels
