"""`enpire doctor`."""

from __future__ import annotations

import typer

from enpire.commands.options import AsJson, Home, answer


def add_to(app: typer.Typer) -> None:
    """Register the subcommand."""
    app.command()(doctor)


def doctor(home: Home = None, as_json: AsJson = False) -> None:
    """Check this machine and print the fix for each problem; exit code 1 if something must be fixed."""
    from enpire.doctor import FAIL, as_text, examine, stop_time
    from enpire.home import find_home

    checks = (*examine(find_home(home)), stop_time())
    answer(checks, as_json=as_json, text=as_text(checks))
    if any(check.level == FAIL for check in checks):
        raise typer.Exit(1)
