"""`enpire task list | show | check` and `enpire verifier report | fit`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol, cast

import typer

from enpire.commands.options import AsJson, answer, table

if TYPE_CHECKING:
    from enpire.interfaces import Task

TaskName = Annotated[str, typer.Argument(help="Name of a task, or module:attribute of your own.", metavar="TASK")]
SPEC_HEAD = ("part", "name", "unit", "from", "to")
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
    group = typer.Typer(help="Tasks: list, show, check.", no_args_is_help=True)
    group.command("list")(list_all)
    group.command("show")(show)
    group.command("check")(check)
    app.add_typer(group, name="task")
    verifiers = typer.Typer(help="Verifiers: report, fit.", no_args_is_help=True)
    verifiers.command("report")(report)
    verifiers.command("fit")(fit)
    app.add_typer(verifiers, name="verifier")


def list_all(as_json: AsJson = False) -> None:
    """List the tasks that are built in or installed; `enpire task show TASK` says what one is."""
    from enpire.plugins import listed

    rows = listed("tasks")
    document = [{"name": name, "where": where} for name, where in rows]
    answer(document, as_json=as_json, text=table(("task", "where"), rows))


def show(task: TaskName, as_json: AsJson = False) -> None:
    """Show one task: the instruction, what is sensed, what may be commanded, how long an episode may take."""
    from enpire import plugins

    spec = cast("Callable[[], Task]", plugins.load("tasks", task))().spec
    rows = [
        (part, bounds.name, bounds.unit, f"{bounds.low:g}", f"{bounds.high:g}")
        for part, many in (("state", spec.state), ("action", spec.action))
        for bounds in many
    ]
    head = (
        f"{spec.name}: {spec.instruction}\n{spec.rate_hz:g} commands a second, {spec.limit_ticks * spec.period_s:.1f} s"
    )
    answer(spec, as_json=as_json, text=f"{head} an episode at most.\n\n{table(SPEC_HEAD, rows)}")


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
