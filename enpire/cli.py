"""The command line: every verb that the outside may say, typed. The verbs are in `enpire.commands`."""

from __future__ import annotations

import os
import select
import sys
import traceback
from typing import Annotated

import typer
from typer.core import TyperGroup

from enpire import __version__
from enpire.commands import agents, campaigns, doctor, episodes, improving, ledgers, policies, robots, running, tasks
from enpire.errors import EnpireError

EPILOG = (
    "State lives in a home folder: --home DIR after the verb, else $ENPIRE_HOME, else ./.enpire. Exit codes: 0 done, "
    "1 a problem (one sentence on stderr), 2 wrong usage, 3 the campaign ended without its goal, 130 interrupted "
    "(state kept)."
)


class Verbs(TyperGroup):
    """The top-level group: the only place where a problem becomes a sentence and an exit code."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Let `--debug` stand anywhere on the line."""
        if "--debug" in args:
            args = ["--debug", *(item for item in args if item != "--debug")]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: typer.Context) -> object:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Run a verb; an EnpireError is one sentence on stderr and exit code 1."""
        try:
            done = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            _reader_left()
            raise typer.Exit from None
        except EnpireError as problem:
            if ctx.params.get("debug"):
                traceback.print_exc()
            print(f"enpire: {problem}", file=sys.stderr)
            raise typer.Exit(1) from None
        except KeyboardInterrupt:
            kept = "interrupted; what was recorded is kept: the same command goes on from there"
            print(f"enpire: {kept}.", file=sys.stderr)
            raise typer.Exit(130) from None
        return done


def _reader_left() -> None:
    """Whoever read stdout (`| head`) has what they wanted; BrokenPipeError again when it was another pipe."""
    stdout = select.poll()
    stdout.register(sys.stdout.fileno(), 0)
    if not any(event & select.POLLERR for _, event in stdout.poll(0)):
        raise  # noqa: PLE0704 - called while a BrokenPipeError is handled.
    # What is still buffered has nowhere to go, also when the interpreter ends.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


app = typer.Typer(
    name="enpire",
    cls=Verbs,
    help="A robot policy improves itself in a closed loop: reset, roll out, verify, improve, gate, deploy.",
    epilog=EPILOG,
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"enpire {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of a problem.")] = False,
) -> None:
    """Nothing happens before the verb; `debug` is read where a problem is printed."""


running.add_to(app)
campaigns.add_to(app)
doctor.add_to(app)
policies.add_to(app)
episodes.add_to(app)
improving.add_to(app)
tasks.add_to(app)
robots.add_to(app)
ledgers.add_to(app)
agents.add_to(app)


def main() -> None:
    """Entry point of the `enpire` script."""
    app(prog_name="enpire")


if __name__ == "__main__":
    main()
