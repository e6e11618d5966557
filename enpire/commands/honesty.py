"""`enpire cheat-suite`: attacks of dishonest experiments against this installation."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from enpire.commands.options import LARGEST_SEED, AsJson, answer, table

NOT_CAUGHT = 3
"""Exit code when an attack was not caught, or too many honest twins were accused."""


def add_to(app: typer.Typer) -> None:
    """Register the subcommand."""
    app.command("cheat-suite")(cheat_suite)


def cheat_suite(
    twins: Annotated[int, typer.Option(help="Honest twins of each attack.", min=1, max=10_000)] = 12,
    seed: Annotated[int, typer.Option(help="Of the honest twins.", min=0, max=LARGEST_SEED)] = 1,
    as_json: AsJson = False,
) -> None:
    """Try 33 ways to cheat, each with honest twins, and print what caught them (docs/honesty.md)."""
    from enpire.honesty.cheats import CHEATS
    from enpire.honesty.suite import SuiteResult, run

    with TemporaryDirectory(prefix="enpire-cheats-") as folder:
        result = SuiteResult(rows=tuple(run(CHEATS, Path(folder), twins, seed)))
    rows = [
        (
            str(row.number), row.name, row.caught_by or "NOT CAUGHT",
            f"{row.twins - row.false_alarms} of {row.twins}", f"ACCUSED: {row.alarm}" if row.alarm else row.evidence,
        )
        for row in result.rows
    ]  # fmt: skip
    head = ("#", "attack", "caught by", "twins passed", "evidence")
    text = f"{table(head, [(*row[:4], row[4][:100]) for row in rows])}\n\n{result.sentence}"
    answer({"caught": result.caught, "twins": result.twins, "false_alarms": result.false_alarms, "rows": result.rows},
           as_json=as_json, text=text)  # fmt: skip
    if not result.passed:
        raise typer.Exit(NOT_CAUGHT)
