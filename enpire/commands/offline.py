"""`enpire improve` and `enpire gate`: one training run, one comparison, without a campaign."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from enpire.commands.options import LARGEST_SEED, AllowKind, AsJson, Home, answer, existing_home, require_kinds

if TYPE_CHECKING:
    from enpire.gate.gate import Decision
    from enpire.interfaces import Progress

NOT_PROMOTED = 3
"""Exit code of a comparison that does not promote the candidate."""

Policy = Annotated[str, typer.Argument(help="Version: a folder, an id (or its beginning), or scripted:expert.")]
Recipe = Annotated[str, typer.Argument(help="Recipe file, or the name of a shipped one.")]


def add_to(app: typer.Typer) -> None:
    """Register the subcommands."""
    app.command()(improve)
    app.command()(gate)


def improve(
    recipe: Recipe,
    parent: Annotated[
        str, typer.Option(help="Version to start from; default: none, the recipe makes a base policy.")
    ] = "",
    campaign: Annotated[str, typer.Option(help="Campaign whose episodes are used; default: the latest.")] = "",
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Train one policy version on the recorded episodes of a campaign."""
    from enpire.commands.progress_bar import Bar
    from enpire.service.offline import learn

    folder = existing_home(home)
    with Bar("loading", folder / "versions") as bar:
        made = learn(folder, recipe, parent, campaign, bar)
    answer(made, as_json=as_json, text=made.policy_id)


def gate(  # noqa: PLR0913 - the options of a subcommand are its parameters
    champion: Policy,
    candidate: Policy,
    task: Annotated[str, typer.Option(help="Simulated task of the comparison.")] = "pin_insertion",
    pairs: Annotated[int, typer.Option(help="Most pairs.", min=1, max=10**6)] = 400,
    lanes: Annotated[int, typer.Option(help="Simulated robots that run in step.", min=1, max=1024)] = 16,
    seed: Annotated[
        int | None, typer.Option(help="Seed, to repeat the starts of an earlier comparison.", min=0, max=LARGEST_SEED)
    ] = None,
    allow_kind: AllowKind = None,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Compare two policy versions on paired fresh starts; exit code 3 unless the candidate is promoted."""
    from enpire.commands.progress_bar import Bar
    from enpire.home import Home as HomeFolder
    from enpire.home import find_home
    from enpire.queries import texts
    from enpire.service.offline import Comparison, compare

    asked = Comparison(
        task=task, champion=champion, candidate=candidate, pairs=pairs, lanes=lanes, seed=seed,
        kinds=require_kinds(allow_kind),
    )  # fmt: skip
    with Bar("loading") as bar:
        decision = compare(HomeFolder(find_home(home)), asked, lambda reading: bar(_progress(reading, pairs)))
    answer(decision.body(), as_json=as_json, text=texts.decision(decision))
    if decision.kind != "promote":
        raise typer.Exit(NOT_PROMOTED)


def _progress(decision: Decision, pairs: int) -> Progress:
    """The progress of a comparison: its total is `pairs`, or fewer when the evidence needs fewer."""
    from enpire.interfaces import Progress

    tally = decision.tally
    metrics = {
        "successes": tally.both + tally.wins, "trials": tally.pairs, "won": tally.wins, "lost": tally.losses,
    }  # fmt: skip
    total = tally.pairs if decision.final else min(pairs, tally.pairs + (decision.more or pairs))
    return Progress(stage="pairs", done=tally.pairs, total=total, metrics=metrics)
