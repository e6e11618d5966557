"""`enpire doctor`."""

from __future__ import annotations

import typer

from enpire.commands.options import AsJson, Home, answer


def add_to(app: typer.Typer) -> None:
    """Register the verb."""
    app.command()(doctor)


def doctor(home: Home = None, as_json: AsJson = False) -> None:
    """Say what this machine has, and the exact fix for what it lacks; exit code 1 when something must be fixed."""
    from enpire.doctor import FAIL, examine, stopping
    from enpire.home import find_home
    from enpire.queries import texts

    checks = (*examine(find_home(home)), stopping())
    answer(checks, as_json=as_json, text=texts.machine_checks(checks))
    if any(item.level == FAIL for item in checks):
        raise typer.Exit(1)
