"""`enpire improve` and `enpire gate`: one learner run, one comparison, outside a campaign."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from enpire.commands.options import AsJson, Home, answer, existing_home, tell

if TYPE_CHECKING:
    from enpire.gate import Decision
    from enpire.interfaces import Progress

PROMOTED_NOT = 3
"""Exit code of a comparison that does not prefer the candidate."""

Policy = Annotated[str, typer.Argument(help="Version: a folder, an id (or its beginning), or scripted:expert.")]
Recipe = Annotated[str, typer.Argument(help="Recipe file, or the name of a shipped one.")]


def add_to(app: typer.Typer) -> None:
    """Register the verbs."""
    app.command()(improve)
    app.command()(gate)


def improve(
    recipe: Recipe,
    parent: Annotated[str, typer.Option(help="Version to start from; the recipe makes a base when left out.")] = "",
    campaign: Annotated[str, typer.Option(help="Whose episodes to learn from; the latest campaign's.")] = "",
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Run one learner on the recorded episodes of a campaign and keep the version that it makes."""
    from enpire.one_run import learn

    made = learn(existing_home(home), recipe, parent, campaign, ProgressLines())
    answer(made, as_json=as_json, text=made.policy_id)


def gate(  # noqa: PLR0913 - the options of a verb are its parameters
    champion: Policy,
    candidate: Policy,
    task: Annotated[str, typer.Option(help="Task in which both are tried, in simulation.")] = "pin_insertion",
    pairs: Annotated[int, typer.Option(help="Pairs that may be spent.", min=1)] = 400,
    lanes: Annotated[int, typer.Option(help="Robots that move in step.", min=1)] = 16,
    seed: Annotated[int | None, typer.Option(help="Repeat the starts of an earlier comparison.")] = None,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Compare two versions from the same fresh starts until the evidence decides; exit code 3 unless promoted."""
    from enpire.commands import texts
    from enpire.home import open_home
    from enpire.one_comparison import Comparison, compare

    asked = Comparison(task=task, champion=champion, candidate=candidate, pairs=pairs, lanes=lanes, seed=seed)
    decision = compare(open_home(home), asked, _say_decision)
    answer(decision.body(), as_json=as_json, text=texts.decision(decision))
    if decision.kind != "promote":
        raise typer.Exit(PROMOTED_NOT)


class ProgressLines:
    """A learner's progress: a bar in a terminal, a line every few seconds elsewhere."""

    def __init__(self) -> None:
        self._began_s = self._said_s = time.monotonic()

    def __call__(self, progress: Progress) -> None:
        """Show one report."""
        now = time.monotonic()
        live = sys.stderr.isatty()
        if now - self._said_s < (0.2 if live else 5.0) and progress.done < progress.total:
            return
        self._said_s = now
        share = progress.done / max(1, progress.total)
        line = f"{progress.stage:<16} {'█' * round(30 * share):·<30} {progress.done}/{progress.total}"
        line += f"  {now - self._began_s:.0f} s"
        print(f"\r{line}\x1b[K" if live else line, end="" if live and share < 1 else "\n", file=sys.stderr, flush=True)


def _say_decision(decision: Decision) -> None:
    more = "" if decision.final or decision.more is None else f", about {decision.more} more decide"
    tally = decision.tally
    evidence = f"evidence {decision.log_e:.2f} of {decision.log_need:.2f}"
    tell(f"{tally.pairs} pairs: +{tally.wins} -{tally.losses}, {evidence}{more}")
