"""What a test does with the inbox of a lab whose loop does not run."""

from __future__ import annotations

from enpire.lab import Lab
from enpire.steps.handle_commands import handle_commands


def handled(lab: Lab) -> None:
    """The commands that wait are handled now."""
    lab.last_done_s["inbox"] = -1e9
    handle_commands(lab)


def refusals(lab: Lab) -> list[str]:
    """Why commands were refused, in order."""
    return [str(event.body["why"]) for event in lab.ledger.events(kinds=("command refused",))]
