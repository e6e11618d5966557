"""`enpire task list | show | check` and `enpire verifier report | fit`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol, cast

import typer

from enpire.commands.options import AsJson, answer, table

if TYPE_CHECKING:
    from enpire.conformance import ConformanceReport
    from enpire.interfaces import Task

Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Print the checks that passed, too.")]
TaskName = Annotated[str, typer.Argument(help="Name of a task, or module:attribute of your own.", metavar="TASK")]
SPEC_HEAD = ("part", "name", "unit", "from", "to")
Episodes = Annotated[int, typer.Option(help="Rollouts to simulate and label by the simulator's truth.", min=40)]
Examples = Annotated[
    Path | None,
    typer.Option(help="Use these instead: a folder with success/*.npz and failure/*.npz, sorted by a person."),
]


class Document(Protocol):
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

    parts = listed("tasks")
    rows = [(part.name, part.what) for part in parts]
    answer(parts, as_json=as_json, text=table(("task", "what it is"), rows))


def show(task: TaskName, as_json: AsJson = False) -> None:
    """Show one task: the instruction, what is sensed, what may be commanded, how long an episode may take."""
    from enpire import plugins

    spec = cast("Task", plugins.make("tasks", task)).spec
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
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Check that a task keeps the rules that stations, gates and learners rely on; exit code 1 when it does not."""
    from enpire import plugins
    from enpire.commands.conformance import OnResult, finish, run_checks

    checked = cast("Callable[[str, OnResult], ConformanceReport]", plugins.load("inspections", "task"))
    total = cast("Callable[[], int]", plugins.load("inspections", "task_checks"))()
    names = [task] if task else plugins.names("tasks")
    reports = [
        run_checks(f"checks of {name}", total, partial(checked, name), verbose=verbose, as_json=as_json)
        for name in names
    ]
    finish(reports, as_json=as_json)


def report(  # noqa: PLR0913 - the options of a verb are its parameters
    task: TaskName,
    episodes: Episodes = 500,
    examples: Examples = None,
    classifier: Annotated[
        Path | None, typer.Option(help="Measure the classifier in this folder, and not the task's verifier.")
    ] = None,
    agree: Annotated[bool, typer.Option("--agree", help="Measure both, where both must agree.")] = False,
    draw: Annotated[
        int, typer.Option(help="Another set of starts and stations: one that nobody has looked at yet.", min=0)
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Measure a verifier: precision, recall, false positives and latency against the truth."""
    from enpire.errors import UsageError
    from enpire.verifiers import TASK_VERIFIER, VerifierSettings

    if agree and classifier is None:
        raise UsageError("--agree measures a classifier beside the task's own verifier: say --classifier FOLDER, too.")
    plans = [VerifierSettings(name=TASK_VERIFIER)] if agree else []
    if classifier is not None:
        plans.append(VerifierSettings(name="classifier", options={"folder": str(classifier)}))
    _tell("verifier", (task, episodes, examples), as_json, plans=plans, draw=draw)


def fit(
    task: TaskName,
    episodes: Episodes = 400,
    examples: Examples = None,
    out: Annotated[
        Path | None, typer.Option(help="Train an image classifier instead, and write it to this folder.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Build a verifier from labelled examples: its thresholds, or (--out) a classifier of the last pictures."""
    if out is None:
        _tell("thresholds", (task, episodes, examples), as_json)
    else:
        _tell("classifier", (task, episodes, examples, out), as_json)


def _tell(what: str, asked: tuple[object, ...], as_json: bool, **more: object) -> None:
    from enpire import plugins
    from enpire.commands.progress_bar import Bar

    make = cast("Callable[..., Document]", plugins.load("inspections", what))
    with Bar("rollouts") as bar:
        made = make(*asked, say=partial(bar.show, "rollouts"), **more)
    answer(made, as_json=as_json, text=made.text)
