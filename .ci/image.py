"""The steps of the Dockerfile without Docker: they run here as they stand there, below a folder instead of below /.

The base image is this machine. What changes a system (packages, users) is not done again: CI installs the packages
itself. An instruction that is not known here is an error, so the Dockerfile cannot say what CI does not run.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

SYSTEM = ("apt-get", "useradd", "install -d -o", "rm -rf /var/lib/apt/lists/")
"""Beginnings of commands that change the system of the image."""


def instructions(dockerfile: str) -> list[tuple[str, str]]:
    """(instruction, arguments) in their order; continued lines are joined."""
    if re.search(r"\\\n\s*#", dockerfile):
        sys.exit("The Dockerfile has a comment inside a continued line; write it above the instruction")
    lines = re.sub(r"\\\n\s*", "", dockerfile).splitlines()
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines) if word and word[0] != "#"]


def commands(arguments: str) -> tuple[list[str], list[str]]:
    """(those that change the system, the others) of a RUN; only && may join them, and paths stand without quotes."""
    if re.search(r"""[;|`$"'<>]|(?<!&)&(?!&)""", arguments):
        sys.exit(f"The Dockerfile has a command that CI cannot run below a folder (only && may join): RUN {arguments}")
    parts = [part.strip() for part in arguments.split("&&")]
    return [part for part in parts if part.startswith(SYSTEM)], [part for part in parts if not part.startswith(SYSTEM)]


def packages(dockerfile: str) -> set[str]:
    """The Debian packages that the images install."""
    parts = [part for word, rest in instructions(dockerfile) if word == "RUN" for part in commands(rest)[0]]
    words = [[word for word in shlex.split(part) if not word.startswith("-")] for part in parts]
    return {word for line in words if line[:2] == ["apt-get", "install"] for word in line[2:]}


def context(checkout: Path) -> list[Path]:
    """What `COPY . .` copies: the files that .dockerignore lets through, relative to the checkout."""
    rules = [line for line in (checkout / ".dockerignore").read_text().splitlines() if line and line[0] != "#"]
    found = []
    for folder, names, files in os.walk(checkout):
        here = Path(folder).relative_to(checkout)
        names[:] = [name for name in names if _sent(here / name, rules)]
        found += [here / name for name in files if _sent(here / name, rules)]
    return found


def _sent(path: Path, rules: list[str]) -> bool:
    sent = True
    for rule in rules:
        pattern = rule.removeprefix("!")
        at_any_depth = pattern.startswith("**/") and fnmatch(path.name, pattern.removeprefix("**/"))
        if at_any_depth or fnmatch(str(path), pattern):
            sent = rule.startswith("!")
    return sent


def below(folder: Path, words: str) -> str:
    """The words with absolute paths below the folder."""
    return re.sub(r"(?<![^\s:=])/(?=\w)", f"{folder}/", words)


def build(checkout: Path, folder: Path) -> tuple[dict[str, str], list[str]]:
    """Carry out the Dockerfile below an empty folder: (variables of the image, its entry point)."""
    variables, entry, here = {}, [], folder
    folder.mkdir(parents=True, exist_ok=True)
    for word, rest in instructions((checkout / "Dockerfile").read_text()):
        if word == "FROM":
            here = folder
        elif word == "WORKDIR":
            here = Path(below(folder, rest))
            here.mkdir(parents=True, exist_ok=True)
        elif word == "COPY":
            _copy(rest, checkout, here)
        elif word == "RUN":
            _run(below(folder, " && ".join(commands(rest)[1])), here)
        elif word == "ENV":
            name, _, value = below(folder, rest).partition("=")
            variables[name] = value.replace(f"${name}", os.environ[name])
        elif word == "ENTRYPOINT":
            entry = json.loads(rest)
        elif word not in ("USER", "CMD"):
            sys.exit(f"The Dockerfile has an instruction that CI does not run: {word} {rest}")
    return variables, entry


def _copy(arguments: str, checkout: Path, here: Path) -> None:
    """Copy the context; what a later stage takes from an earlier one lies where it was made."""
    *source, place, target = shlex.split(arguments)
    if source == ["--from=build"] and place == target:
        return
    if (source, place, target) != ([], ".", "."):
        sys.exit(f"The Dockerfile has an instruction that CI does not run: COPY {arguments}")
    for path in context(checkout):
        (here / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(checkout / path, here / path)


def _run(command: str, here: Path) -> None:
    done = subprocess.run(["bash", "-euc", command], cwd=here, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{command} ended with {done.returncode}:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
