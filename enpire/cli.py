"""The entry point of the command line. The subcommands are in `enpire.commands`."""

from __future__ import annotations

import importlib
import io
import os
import select
import sys
import traceback
from collections.abc import Iterator, MutableMapping
from typing import Annotated

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from enpire import __version__
from enpire.errors import EnpireError
from enpire.log_lines import one_line

EPILOG = (
    "The state is kept in a home folder: --home DIR after the subcommand, else $ENPIRE_HOME, else ./.enpire. Exit "
    "codes: 0 done, 1 a problem (one sentence on stderr), 2 wrong usage, 3 the campaign ended without its goal, "
    "130 interrupted (the state is kept)."
)
MODULES = {
    "demo": "runs", "run": "runs", "serve": "pages", "station": "stations", "learner": "stations",
    "report": "campaigns", "doctor": "doctor", "improve": "offline", "gate": "offline", "mcp": "agents",
    "cheat-suite": "honesty", "campaign": "campaigns", "policy": "policies", "episodes": "episodes", "study": "studies",
    "task": "tasks", "verifier": "tasks", "robot": "robots", "ledger": "ledgers", "home": "homes", "agent": "agents",
    "experiment": "experiments", "hypothesis": "hypotheses",
}  # fmt: skip
"""Subcommand -> its module in `enpire.commands`, in the order of `--help`. Only the one that is needed is imported."""


class _LazyCommands(MutableMapping[str, TyperCommand | TyperGroup]):
    """The subcommands by name; the module of one is imported, and its parser made, when the subcommand is asked for."""

    def __init__(self) -> None:
        self._made: dict[str, TyperCommand | TyperGroup] = {}

    def __getitem__(self, name: str) -> TyperCommand | TyperGroup:
        if name not in self._made:
            app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
            importlib.import_module(f"enpire.commands.{MODULES[name]}").add_to(app)
            self._made.update(get_group(app).commands)  # pyright: ignore[reportCallIssue, reportArgumentType]
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in MODULES

    def __iter__(self) -> Iterator[str]:
        return iter(MODULES)

    def __len__(self) -> int:
        return len(MODULES)

    def __setitem__(self, name: str, command: TyperCommand | TyperGroup) -> None:
        self._made[name] = command

    def __delitem__(self, name: str) -> None:
        del self._made[name]


class Subcommands(TyperGroup):
    """The top-level group. Here, and only here, an error becomes a sentence and an exit code."""

    def __init__(self, **settings: object) -> None:
        super().__init__(**settings)  # pyright: ignore[reportArgumentType]
        self.commands = _LazyCommands()

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Accept `--debug` anywhere on the line; refuse what no system passes as an argument."""
        if any("\0" in item for item in args):
            ctx.fail("An argument holds a NUL character; give ids, names and paths without it.")
        if "--debug" in args:
            args = ["--debug", *(item for item in args if item != "--debug")]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: typer.Context) -> object:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Run a subcommand; an EnpireError or an OSError becomes one sentence on stderr and exit code 1."""
        try:
            done = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            _check_reader()
            raise typer.Exit from None
        except UnicodeEncodeError as problem:
            _say(f"{problem.object[:80]!r} holds bytes that are not UTF-8; give ids, names and paths in UTF-8.")
            raise typer.Exit(1) from None
        except (EnpireError, OSError) as problem:
            if ctx.params.get("debug"):
                traceback.print_exc()
            _say(str(problem) if isinstance(problem, EnpireError) else _refusal(problem))
            raise typer.Exit(1) from None
        except KeyboardInterrupt:
            print("enpire: interrupted. The state is kept: the same command resumes.", file=sys.stderr)
            raise typer.Exit(130) from None
        return done


def _say(sentence: str) -> None:
    print(f"enpire: {one_line(sentence)}", file=sys.stderr)


def _refusal(problem: OSError) -> str:
    """A path or an address that the system refuses, as a sentence."""
    named = f" for {str(problem.filename)[:200]!r}" if problem.filename else ""
    return f"The system refused{named}: {problem.strerror or problem}. Check the path; --debug shows where."


def _check_reader() -> None:
    """Accept that the reader of stdout ended (`| head`); raise BrokenPipeError again for another pipe."""
    stdout = select.poll()
    stdout.register(sys.stdout.fileno(), 0)
    if not any(event & select.POLLERR for _, event in stdout.poll(0)):
        raise  # noqa: PLE0704 - called while a BrokenPipeError is handled.
    # The interpreter flushes the rest of the buffer at exit: send it nowhere.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


app = typer.Typer(
    name="enpire",
    cls=Subcommands,
    help="Improve a robot policy in a closed loop: reset, roll out, verify, improve, gate, deploy.",
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
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Take the global options; `Subcommands.invoke` reads `debug`."""


def main() -> None:
    """Entry point of the `enpire` script. Names that are no UTF-8, such as of files, are printed with escapes."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    app(prog_name="enpire")


if __name__ == "__main__":
    main()
