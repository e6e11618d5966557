"""Every subcommand, with arguments that name nothing or cannot be: one sentence, exit code 1 or 2, and nothing made.

The subcommands and their parameters come from the command line itself, so a new one is tested as soon as it exists. A
value that is right for a parameter stands in `RIGHT`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
import typer

from enpire.cli import app
from enpire.home import open_home
from tests.fakes.point_task import environment, write_policy
from tests.fakes.sample_campaign import BASE, record_campaign

SENTENCE = 1000
"""Most characters of an error, whatever was typed."""
GOOD: Mapping[str, str] = {
    "policy check folder": "{top}/checkpoint", "policy check task": "pin_insertion",
    "run campaign": "pin_insertion", "station file": "simulated_pins", "learner folder": "{top}/odd/folder",
    "improve recipe": "filtered_bc", "gate champion": "scripted:expert", "gate candidate": "scripted:expert",
    "policy show policy": BASE[:12], "policy promote policy": BASE[:12], "policy export policy": BASE[:12],
    "policy export target": "{top}/here/out", "policy import checkpoint": "{top}/checkpoint",
    "policy connect address": "ws://127.0.0.1:9", "policy connect task": "pin_insertion",
    "episodes show episode": f"01J{77:023}", "episodes replay episode": f"01J{77:023}",
    "episodes judge episode": f"01J{77:023}", "episodes judge outcome": "success",
    "episodes export target": "{top}/here/out", "episodes import source": "{top}/odd/folder",
    "task show task": "pin_insertion", "verifier report task": "pin_insertion",
    "verifier fit task": "pin_insertion", "robot check robot": "simulated_pins",
    "robot serve robot": "simulated_pins", "robot status card": "{top}/none.json",
    "robot stop card": "{top}/none.json", "robot resume card": "{top}/none.json",
    "robot code folder": "{top}/none", "agent run name": "search",
}  # fmt: skip
"""Required arguments and options: what stands there while another parameter gets its hostile value."""
NAMES = {"unknown", "controls", "no UTF-8", "format", "NaN", "infinite", "negative", "30 digits"}
"""Hostile values that a new file or a new home can have as its name."""
PLACES = NAMES | {"nothing", "above", "folder"}
"""Hostile values that a home can have as its path."""
UNUSED = PLACES | {"empty file", "bytes", "pipe", "unreadable", "below a file"}
"""Hostile values of a home for a subcommand that neither reads nor makes it, or first examines the machine."""
WORDS = {"unknown", "NaN", "infinite", "negative", "30 digits"}
"""Hostile values that a host, a station or an agent session can have as its name."""
RIGHT: Mapping[str, set[str]] = {
    "demo home": UNUSED,
    "run home": UNUSED,
    "doctor home": UNUSED,
    "gate home": UNUSED,
    "policy check home": UNUSED,
    "serve name": WORDS,
    "mcp lane": WORDS,
    "report output": NAMES | {"empty file", "bytes"},
    "ledger head out": NAMES,
    "home backup file": NAMES,
    "campaign export file": NAMES,
    "campaign follow folder": PLACES,
    "campaign follow project": WORDS,
    "agent code-template folder": PLACES,
    "policy import home": PLACES,
    "policy serve home": PLACES,
    "robot code folder": PLACES,
    "robot serve home": PLACES,
    "verifier fit out": PLACES,
}
"""Values that are right for a parameter: lines with them are not run."""
IN_A_TYPO = {"unknown", "folder", "negative"}
"""The values that are also tried in a home whose name was mistyped."""


def hostile(top: Path) -> dict[str, str]:
    """Name -> a value that no parameter expects."""
    odd = top / "odd"
    return {
        "unknown": "no-such-thing", "nothing": "", "NUL": "a\0b", "controls": "a\x1b[31m\r\nb\x07", "long": "x" * 5000,
        "deep": "/".join(["d"] * 3000), "no UTF-8": "a\udcff", "format": "%s{0}%(x)d", "above": "..",
        "folder": f"{odd}/folder", "empty file": f"{odd}/empty", "bytes": f"{odd}/bytes", "pipe": f"{odd}/pipe",
        "unreadable": f"{odd}/circle", "below a file": f"{odd}/empty/below", "NaN": "nan", "infinite": "1e400",
        "negative": "-1", "30 digits": "9" * 30, "5000 digits": "9" * 5000,
    }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    option: str
    """How it is typed; empty for an argument."""
    required: bool
    default: object


@dataclass(frozen=True, slots=True)
class Subcommand:
    words: str
    """As typed, such as `policy show`."""
    parameters: Sequence[Parameter]
    """Those that take a value, in order."""

    def line(self, top: Path, home: Path, values: Mapping[str, str]) -> list[str]:
        """A line with these values; what is required and not among them has a good one."""
        typed: list[str] = []
        arguments: list[str] = []
        for parameter in self.parameters:
            value = values.get(parameter.name)
            if value is None and parameter.name == "home":
                value = str(home)
            elif value is None and parameter.required:
                value = GOOD.get(f"{self.words} {parameter.name}", "no-such-thing").format(top=top)
            if value is not None and parameter.option:
                typed += [parameter.option, value]
            elif value is not None:
                arguments.append(value)
        return [*self.words.split(), *typed, "--", *arguments]


def subcommands() -> Iterator[Subcommand]:
    yield from _below(typer.main.get_command(app), ())


def _below(command: Any, path: tuple[str, ...]) -> Iterator[Subcommand]:
    if below := getattr(command, "commands", None):
        for name, one in below.items():
            yield from _below(one, (*path, name))
        return
    taken = [one for one in command.params if not getattr(one, "is_flag", False)]
    typed = {one.name: max(one.opts, key=len) if one.param_type_name == "option" else "" for one in taken}
    parameters = [Parameter(one.name, typed[one.name], one.required, one.default) for one in taken]
    yield Subcommand(" ".join(path), parameters)


@pytest.fixture(scope="module")
def top(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a recorded home, an empty folder to type in, and odd files."""
    top = tmp_path_factory.mktemp("top")
    for name in ("home", "here", "odd", "odd/folder"):
        (top / name).mkdir()
    record_campaign(open_home(top / "home").root)
    write_policy(top / "checkpoint")
    (top / "odd" / "empty").touch()
    (top / "odd" / "bytes").write_bytes(bytes(range(256)) * 40)
    os.mkfifo(top / "odd" / "pipe")
    (top / "odd" / "circle").symlink_to("circle")
    return top


@pytest.fixture(scope="module")
def helper(top: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.enpire.commands.hostile_lines"]
    surroundings = {**environment(), "ENPIRE_HOME": str(top / "nowhere")}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=surroundings, cwd=top / "here"
    ) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


def results(helper: subprocess.Popen[str], watched: Path, lines: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
    """What became of each line; fewer results when a line ended its process."""
    assert helper.stdin is not None
    assert helper.stdout is not None
    helper.stdin.write(json.dumps({"lines": lines, "watched": str(watched)}) + "\n")
    helper.stdin.flush()
    return cast("list[dict[str, Any]]", json.loads(helper.stdout.readline()))


def lines_of(subcommand: Subcommand, top: Path, every: int) -> Iterator[tuple[str, list[str]]]:
    """(what is hostile, the line) for every parameter, in a home and in one whose name was mistyped.

    Each parameter gets each `every`th value, and each one begins at another: over all parameters every value is tried
    often, and the other values of a parameter only with `every` 1, in the slow test.
    """
    has_home = any(parameter.name == "home" for parameter in subcommand.parameters)
    for home in (top / "home", top / "typo")[: 1 + has_home]:
        words = len(subcommand.words.split())
        whole = subcommand.line(top, home, {})
        yield f"an unknown option, {home.name}", [*whole[:words], "--no-such-option", *whole[words:]]
        yield f"too many arguments, {home.name}", [*whole, *["a\0b"] * 9]
        for parameter in subcommand.parameters:
            right = RIGHT.get(f"{subcommand.words} {parameter.name}", set())
            first = zlib.crc32(f"{subcommand.words} {parameter.name}".encode()) % every
            for name, value in list(hostile(top).items())[first::every]:
                is_right = name in right or value == parameter.default
                is_tried = home.name == "home" or (name in IN_A_TYPO and parameter.name != "home")
                if is_tried and not is_right:
                    line = subcommand.line(top, home, {parameter.name: value})
                    yield f"{parameter.name}: {name}, {home.name}", line


def fault(result: Mapping[str, Any]) -> str:
    """What is wrong with the answer to a hostile line; empty if nothing is."""
    code, stdout, stderr = result["code"], str(result["stdout"]), str(result["stderr"])
    printed = stderr.splitlines()
    faults = {
        f"exit code {code}": code not in (1, 2),
        "a traceback": "Traceback" in stderr,
        "something on stdout": stdout != "",
        "no sentence": not printed or not (printed[-1].endswith((".", "?")) or printed[-1].startswith("Error: ")),
        "several lines": code == 1 and len(printed) != 1,
        "too long": code == 1 and len(stderr) > SENTENCE,  # a usage error quotes the whole value
        "control characters": any(ord(sign) < 32 and sign != "\n" for sign in stderr),
        f"changed {result['changed'][:3]}": bool(result["changed"]),
    }
    found = [name for name, is_so in faults.items() if is_so]
    return f"{', '.join(found)}: {stderr[-300:]!r} {stdout[-100:]!r}" if found else ""


@pytest.mark.parametrize("every", [10, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("subcommand", list(subcommands()), ids=lambda one: one.words)
def test_a_line_that_cannot_be_is_answered_with_a_sentence(
    subcommand: Subcommand, every: int, top: Path, helper: subprocess.Popen[str]
) -> None:
    lines = list(lines_of(subcommand, top, every))
    found = results(helper, top, [line for _, line in lines])
    faults = [f"{what}: {why}" for (what, _), one in zip(lines, found, strict=False) if (why := fault(one))]
    assert not faults, "\n".join([f"{len(faults)} of {len(lines)} lines, {len(found)} ran:", *faults])
