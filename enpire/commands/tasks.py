"""`enpire task list | show | check | authored | score | approve | withdraw` and `enpire verifier report | fit`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from enpire.commands.options import LARGEST_SEED, AsJson, Home, answer, existing_home, log, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from enpire.conformance import ConformanceReport
    from enpire.service.authored_tasks import TaskScore
    from enpire.verifiers import VerifierSettings

Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Print the checks that passed, too.")]
AuthoredId = Annotated[str, typer.Argument(help="Id of the task, or its end.", metavar="TASK")]
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
    group = typer.Typer(
        help="Tasks: list, show, check; of agents: authored, score, approve, withdraw.", no_args_is_help=True
    )
    group.command("list")(list_all)
    group.command("show")(show)
    group.command("check")(check)
    group.command("authored")(authored)
    group.command("score")(score)
    group.command("approve")(approve)
    group.command("withdraw")(withdraw)
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


def authored(home: Home = None, as_json: AsJson = False) -> None:
    """List the tasks that agents wrote in this home, with their score and state."""
    from enpire.files import plain
    from enpire.service.authored_tasks import authored_tasks

    found = authored_tasks(existing_home(home))
    head = ("task", "state", "by", "checks", "precision", "recall", "author", "about")
    rows = [
        (
            one.proposal.task_id, one.state, one.approvals[-1].approval.by if one.approvals else "-",
            *_scored(one.score), one.proposal.author, one.proposal.about[:60],
        )
        for one in found
    ]  # fmt: skip
    damaged = [one.problem for one in found if one.problem]
    text = "\n".join([table(head, rows), *damaged]) if found else "No agent has written a task in this home."
    answer([plain(one) for one in found], as_json=as_json, text=text)


def score(task: AuthoredId, home: Home = None, as_json: AsJson = False) -> None:
    """Measure a task of an agent in a sandbox: conformance checks, and its verifier on labelled episodes."""
    from enpire.files import plain
    from enpire.service.authored_tasks import find_task, score_task

    found = score_task(find_task(existing_home(home), task), log)
    lines = [f"It passes {found.passed} of {found.applied} checks.", *found.failed, found.verifier]
    answer(plain(found), as_json=as_json, text="\n".join(lines))


def approve(
    task: AuthoredId,
    by: Annotated[str, typer.Option(help="Your name.")],
    reason: Annotated[str, typer.Option(help="Why, for those who read the record.")] = "",
    home: Home = None,
) -> None:
    """Approve a task of an agent, whose code you have read: campaigns may use it from then on, outside a sandbox."""
    from enpire.service.authored_tasks import approve as approve_files
    from enpire.service.authored_tasks import find_task

    found = find_task(existing_home(home), task)
    approve_files(found, by, reason)
    log(f"Campaign and station files name it: task: {found.name}")


def withdraw(
    task: AuthoredId,
    by: Annotated[str, typer.Option(help="Your name.")],
    reason: Annotated[str, typer.Option(help="Why, for those who read the record.")] = "",
    home: Home = None,
) -> None:
    """Withdraw the approval of a task of an agent: nothing loads it from then on, and its campaigns do not resume."""
    from enpire.service.authored_tasks import find_task
    from enpire.service.authored_tasks import withdraw as withdraw_approval

    line = withdraw_approval(find_task(existing_home(home), task), by, reason)
    log(f"Withdrawn: {line.task_id}. A campaign that runs keeps what it has loaded; `enpire campaign stop` ends it.")


def _scored(score: TaskScore | None) -> tuple[str, str, str]:
    """Checks, precision and recall for a table."""
    if score is None:
        return "-", "-", "-"
    precision, recall = ("-" if rate is None else f"{rate:.1%}" for rate in (score.precision, score.recall))
    return f"{score.passed} of {score.applied}", precision, recall


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
