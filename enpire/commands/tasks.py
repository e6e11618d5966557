"""`enpire task list | show | check` and `enpire verifier report | fit`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from enpire.commands.options import LARGEST_SEED, AsJson, answer, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from enpire.conformance import ConformanceReport
    from enpire.verifiers import VerifierSettings

Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Print the checks that passed, too.")]
TaskName = Annotated[str, typer.Argument(help="Name of a task, or module:attribute of your own.", metavar="TASK")]
SPEC_HEAD = ("part", "name", "unit", "from", "to")
Episodes = Annotated[
    int, typer.Option(help="Simulated rollouts, labelled with the true state of the simulation.", min=40, max=10**6)
]
Examples = Annotated[
    Path | None,
    typer.Option(help="Use recorded examples instead: a folder with success/*.npz and failure/*.npz."),
]


class Document(Protocol):
    """A document that has a text form."""

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
    """List the built-in and installed tasks."""
    from enpire.plugins import listed

    parts = listed("tasks")
    rows = [(part.name, part.what) for part in parts]
    answer(parts, as_json=as_json, text=table(("task", "what it is"), rows))


def show(task: TaskName, as_json: AsJson = False) -> None:
    """Show one task: instruction, states, actions, rate and longest episode."""
    from enpire.parts import TASKS

    spec = TASKS.make(task).spec
    rows = [
        (part, bounds.name, bounds.unit, f"{bounds.low:g}", f"{bounds.high:g}")
        for part, many in (("state", spec.state), ("action", spec.action))
        for bounds in many
    ]
    head = (
        f"{spec.name}: {spec.instruction}\n{spec.rate_hz:g} actions/s, at most {spec.limit_ticks * spec.period_s:.1f} s"
    )
    answer(spec, as_json=as_json, text=f"{head} per episode.\n\n{table(SPEC_HEAD, rows)}")


def check(
    task: Annotated[str, typer.Argument(help="Name of a task; default: all tasks.", metavar="[TASK]")] = "",
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Check tasks against the rules that stations, gates and learners rely on; exit code 1 if one breaks a rule."""
    from enpire import plugins
    from enpire.commands.conformance import OnResult, finish, run_checks
    from enpire.parts import PartGroup

    checks: PartGroup[[str, OnResult], ConformanceReport] = PartGroup("inspections")
    counts: PartGroup[[], int] = PartGroup("inspections")
    checked, total = checks.load("task"), counts.load("task_checks")()
    names = [task] if task else plugins.names("tasks")
    reports = [
        run_checks(f"checks of {name}", total, partial(checked, name), verbose=verbose, as_json=as_json)
        for name in names
    ]
    finish(reports, as_json=as_json)


def report(  # noqa: PLR0913 - the options of a subcommand are its parameters
    task: TaskName,
    episodes: Episodes = 500,
    examples: Examples = None,
    classifier: Annotated[
        Path | None, typer.Option(help="Measure the classifier in this folder instead of the task's verifier.")
    ] = None,
    agree: Annotated[bool, typer.Option("--agree", help="Measure both together: success needs both.")] = False,
    verifiers: Annotated[
        Path | None, typer.Option(help="Station or campaign file: measure its verifiers.", metavar="FILE")
    ] = None,
    draw: Annotated[
        int,
        typer.Option(
            help="Number of the set of starts and stations; a new number is a set not used before.",
            min=0,
            max=LARGEST_SEED,
        ),
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Measure a verifier against the true outcomes: precision, recall, false positives, latency."""
    from enpire.errors import UsageError
    from enpire.verifiers import TASK_VERIFIER, VerifierSettings

    if agree and classifier is None:
        raise UsageError("--agree needs a classifier: add --classifier FOLDER.")
    plans = [VerifierSettings(name=TASK_VERIFIER)] if agree else []
    if classifier is not None:
        plans.append(VerifierSettings(name="classifier", options={"folder": str(classifier)}))
    if verifiers is not None:
        plans += _verifiers_of(verifiers)
    _tell("verifier", (task, episodes, examples), as_json, plans=plans, draw=draw)


def _verifiers_of(file: Path) -> Sequence[VerifierSettings]:
    """The verifiers that a station or campaign file names."""
    from enpire.files import parse, read_yaml
    from enpire.verifiers import VerifierList

    named = read_yaml(file).get("verifiers", [])
    return parse(VerifierList, {"verifiers": named}, f"The file {file}").verifiers


def fit(
    task: TaskName,
    episodes: Episodes = 400,
    examples: Examples = None,
    out: Annotated[
        Path | None, typer.Option(help="Train an image classifier instead and write it to this folder.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Fit a verifier to labelled examples: its thresholds, or (--out) a classifier of the last images."""
    if out is None:
        _tell("thresholds", (task, episodes, examples), as_json)
    else:
        out.mkdir(parents=True, exist_ok=True)  # before the rollouts: a folder that cannot be made is refused at once
        _tell("classifier", (task, episodes, examples, out), as_json)


def _tell(what: str, asked: tuple[object, ...], as_json: bool, **more: object) -> None:
    from enpire.commands.progress_bar import Bar
    from enpire.parts import PartGroup

    inspections: PartGroup[..., Document] = PartGroup("inspections")
    make = inspections.load(what)
    with Bar("rollouts") as bar:
        made = make(*asked, say=partial(bar.show, "rollouts"), **more)
    answer(made, as_json=as_json, text=made.text)
