"""`enpire task list` and `enpire doctor`."""

from __future__ import annotations

import typer

from enpire.commands import texts
from enpire.commands.options import AsJson, Home, answer, table


def add_to(app: typer.Typer) -> None:
    """Register the verbs."""
    group = typer.Typer(help="Tasks: list.", no_args_is_help=True)
    group.callback()(_tasks)
    group.command("list")(list_tasks)
    app.add_typer(group, name="task")
    app.command()(doctor)


def _tasks() -> None:
    """Keep `list` a verb of its own while it is the only one."""


def list_tasks(as_json: AsJson = False) -> None:
    """List the tasks that campaigns may name: built in and installed."""
    from enpire import plugins

    found = [
        {"name": name, "address": plugins.BUILT_IN["tasks"].get(name, "an installed package")}
        for name in plugins.names("tasks")
    ]
    rows = [(item["name"], item["address"]) for item in found]
    answer(found, as_json=as_json, text=table(("task", "made by"), rows))


def doctor(home: Home = None, as_json: AsJson = False) -> None:
    """Say what this machine has, and the exact fix for what it lacks; exit code 1 when something must be fixed."""
    from enpire.doctor import FAIL, examine
    from enpire.home import find_home

    findings = examine(find_home(home))
    answer(findings, as_json=as_json, text=texts.findings(findings))
    if any(finding.level == FAIL for finding in findings):
        raise typer.Exit(1)
