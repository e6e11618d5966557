"""`enpire study plan | run | report | export | pool`."""

from __future__ import annotations

import getpass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from enpire.commands.options import AsJson, Home, answer, existing_home, log, table

if TYPE_CHECKING:
    from enpire.service.studies import StudyPower
    from enpire.service.study_evidence import PooledStudy
    from enpire.study.results import StudyReport

NOT_SHOWN = 3
"""Exit code of a report in which no comparison shows a difference."""
INTERRUPTED = 130
File = Annotated[Path, typer.Argument(help="Study file (docs/studies.md).", metavar="FILE")]


def add_to(app: typer.Typer) -> None:
    """Register the group."""
    group = typer.Typer(help="Studies of versions at stations: plan, run, report, export, pool.", no_args_is_help=True)
    for name, function in (("plan", plan), ("run", run), ("report", report), ("export", export), ("pool", pool)):
        group.command(name)(function)
    app.add_typer(group, name="study")


def plan(
    file: File,
    control: Annotated[
        float, typer.Option(help="Assumed success rate of the control, between 0 and 1.", min=0.0, max=1.0)
    ] = 0.7,
    blocks: Annotated[
        list[int] | None, typer.Option(help="Also show this number of blocks; repeatable.", min=1, max=2000)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what a number of trials can tell: how probably the study shows a gain that there is."""
    from enpire.service.studies import plan_power, read_plan

    found = plan_power(read_plan(file), control, blocks or ())
    answer(found, as_json=as_json, text=_power_text(found))


def run(
    file: File,
    amend: Annotated[
        str, typer.Option(metavar="REASON", help="Accept that the file changes the plan, for this reason.")
    ] = "",
    home: Home = None,
) -> None:
    """Run a study, or resume it, until its test ends. The terminal shows neither arms nor outcomes."""
    from enpire.home import open_home
    from enpire.service.studies import read_plan, run_study

    wanted = read_plan(file)
    folder = open_home(home)
    ending = run_study(wanted, folder, getpass.getuser(), amend, log)
    if not ending.over:
        log(f"Stopped ({ending.reason}). The same command resumes the study.")
        raise typer.Exit(INTERRUPTED)
    log(f"The study has ended: {ending.reason}. `enpire study report {wanted.name}` shows it.")


def report(
    study: Annotated[str, typer.Argument(help="Name of the study, or id of its campaign.", metavar="NAME")],
    reveal: Annotated[
        str, typer.Option("--open", metavar="REASON", help="Show results before the end; the ledger records it.")
    ] = "",
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Show a study. "Better" stands here only if its test says so; exit code 3 if no difference is shown."""
    from enpire.home import Home as HomeFolder
    from enpire.service.studies import open_results, read_report

    place = HomeFolder(existing_home(home))
    if reveal:
        open_results(place, study, getpass.getuser(), reveal)
    found = read_report(place, study)
    answer(found, as_json=as_json, text=_report_text(found))
    if found.comparisons and not any(one.answer in {"better", "worse"} for one in found.comparisons):
        raise typer.Exit(NOT_SHOWN)


def export(
    study: Annotated[str, typer.Argument(help="Name of the study, or id of its campaign.", metavar="NAME")],
    file: Annotated[Path, typer.Argument(help="The new file, such as site-a.zip.")],
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Write the evidence of a study that has ended into one file, which `enpire study pool` reads at any site."""
    from enpire.files import shown_path
    from enpire.home import Home as HomeFolder
    from enpire.service.study_evidence import export_study

    found = export_study(HomeFolder(existing_home(home)), study, file, getpass.getuser())
    shown = shown_path(file)
    text = f"{shown} holds the study, in a ledger up to {found.head}.\nTogether with another site's: enpire study pool"
    answer(found, as_json=as_json, text=f"{text} {shown} OTHER.zip")


def pool(
    files: Annotated[list[Path], typer.Argument(help="Files of `enpire study export`, one of each site.")],
    as_json: AsJson = False,
) -> None:
    """Show what the same study shows at several sites together; exit code 3 if no difference is shown."""
    from enpire.service.study_evidence import pool_files

    found = pool_files(files)
    answer(found, as_json=as_json, text=_pool_text(found))
    if not any(one.answer in {"better", "worse"} for one in found.comparisons):
        raise typer.Exit(NOT_SHOWN)


def _pool_text(found: PooledStudy) -> str:
    lines = [f"One study of {found.task} at {len(found.files)} sites (alpha {found.alpha:g}), read once."]
    for one in found.comparisons:
        head = (f"{one.arm} against {one.control}", "blocks", "won", "lost", "difference", "confidence sequence")
        rows = [
            (
                name, str(part.blocks), str(part.wins), str(part.losses), f"{100 * part.difference:+.1f}",
                f"[{100 * part.low:+.1f}, {100 * part.high:+.1f}]",
            )
            for name, part in zip((*found.files, "all sites"), (*one.sites, one.counts), strict=True)
        ]  # fmt: skip
        lines += [one.sentence, table(head, rows)]
    return "\n".join(lines)


def _power_text(found: StudyPower) -> str:
    plan = found.plan
    head = ("blocks", "trials", *(f"+{100 * gain:g} points" for gain in found.gains))
    rows = [
        (str(n), str(n * len(plan.arms)), *(f"{one.better:.0%} (n {one.blocks:.0f})" for one in row))
        for n, row in zip(found.blocks, found.power, strict=True)
    ]
    return "\n".join(
        [
            f"{plan.name}: {plan.test}, {len(plan.others)} comparison(s) with {plan.reference!r}; equal arms are "
            f"called different in at most {plan.alpha:.1%} of studies.",
            f"Probability that the study calls an arm better, if {plan.reference!r} succeeds in {found.control:.0%} "
            "and the arm in so many points more (n: mean blocks until it ends):",
            table(head, rows),
            "Starts that decide the outcome alike for both arms need fewer blocks.",
        ]
    )


def _report_text(found: StudyReport) -> str:
    state = f"ended: {found.ended}" if found.ended else "has not ended"
    lines = [
        f"Study {found.name} ({found.test}, alpha {found.alpha:g}): {found.blocks} of {found.planned} blocks, {state}."
    ]
    if found.hypothesis:
        lines.append(f"Hypothesis: {found.hypothesis}")
    if not found.arms:
        lines.append("The results are hidden until the study ends; --open REASON shows them now and records it.")
    lines += [one.sentence for one in found.comparisons]
    if found.arms:
        head = ("arm", "version", "success", "95 % sequence", "unsafe", "aborted or invalid", "repeated")
        rows = [
            (
                one.name, one.version[:12], f"{one.successes} of {one.n}", f"[{one.low:.1%}, {one.high:.1%}]",
                str(one.unsafe), str(one.other), str(one.repeats),
            )
            for one in found.arms
        ]  # fmt: skip
        lines.append(table(head, rows))
    lines += [f"After block {one.after}, {one.by}: {one.what} ({one.reason})." for one in found.changes]
    if found.waits_for_label:
        lines.append(f"Waits for labels of {len(found.waits_for_label)} episodes, first {found.waits_for_label[0]}.")
    return "\n".join(lines)
