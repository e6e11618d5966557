"""`enpire task list | check` and `enpire verifier report | fit`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol, cast

import typer

from enpire.commands.options import AsJson, answer, table

if TYPE_CHECKING:
    from enpire.interfaces import Task

TaskName = Annotated[str, typer.Argument(help="Name of a task, or module:attribute of your own.", metavar="TASK")]
Episodes = Annotated[int, typer.Option(help="Rollouts to simulate and label by the simulator's truth.", min=40)]
Examples = Annotated[
    Path | None,
    typer.Option(help="Use these instead: a folder with success/*.npz and failure/*.npz, sorted by a person."),
]


class FindingLine(Protocol):
    """What one check found."""

    @property
    def line(self) -> str:
        """For a terminal."""
        ...


class Checked(Protocol):
    """What the contract suite found on one task."""

    @property
    def conforms(self) -> bool:
        """Whether no check failed."""
        ...

    @property
    def summary(self) -> str:
        """One sentence."""
        ...


class Told(Protocol):
    """A document that also reads as text."""

    @property
    def text(self) -> str:
        """For a terminal."""
        ...


def add_to(app: typer.Typer) -> None:
    """Register the groups."""
    group = typer.Typer(help="Tasks: list, check.", no_args_is_help=True)
    group.command("list")(list_all)
    group.command("check")(check)
    app.add_typer(group, name="task")
    verifiers = typer.Typer(help="Verifiers: report, fit.", no_args_is_help=True)
    verifiers.command("report")(report)
    verifiers.command("fit")(fit)
    app.add_typer(verifiers, name="verifier")


def list_all(as_json: AsJson = False) -> None:
    """List the tasks that are built in or installed."""
    from enpire import plugins

    specs = [cast("Callable[[], Task]", plugins.load("tasks", name))().spec for name in plugins.names("tasks")]
    rows = [
        (spec.name, str(spec.state_dim), str(spec.action_dim), f"{spec.limit_ticks * spec.period_s:.1f} s",
         spec.instruction)
        for spec in specs
    ]  # fmt: skip
    answer(specs, as_json=as_json, text=table(("task", "state", "action", "limit", "instruction"), rows))


def check(
    task: Annotated[str, typer.Argument(help="One task; all of them when left out.", metavar="[TASK]")] = "",
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show the checks that passed, too.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check that a task keeps the rules that stations, gates and learners rely on; exit code 1 when it does not."""
    from enpire import plugins

    run = cast("Callable[[str, Callable[[FindingLine], None]], Checked]", plugins.load("inspections", "task"))

    def say(finding: FindingLine) -> None:
        if not as_json and (verbose or not finding.line.startswith("ok")):
            typer.echo(finding.line)

    reports: list[Checked] = []
    for name in [task] if task else plugins.names("tasks"):
        reports.append(run(name, say))
        if not as_json:
            typer.echo(reports[-1].summary)
    if as_json:
        answer(reports, as_json=True, text="")
    if not all(found.conforms for found in reports):
        raise typer.Exit(1)


def report(task: TaskName, episodes: Episodes = 500, examples: Examples = None, as_json: AsJson = False) -> None:
    """Measure a verifier: precision, recall, false positives and latency against the truth."""
    _tell("verifier", task, episodes, examples, as_json)


def fit(task: TaskName, episodes: Episodes = 400, examples: Examples = None, as_json: AsJson = False) -> None:
    """Search a verifier's thresholds on labelled examples; half of them are kept for the comparison."""
    _tell("thresholds", task, episodes, examples, as_json)


def _tell(what: str, task: str, episodes: int, examples: Path | None, as_json: bool) -> None:
    from enpire import plugins

    made = cast("Callable[[str, int, Path | None], Told]", plugins.load("inspections", what))(task, episodes, examples)
    answer(made, as_json=as_json, text=made.text)
