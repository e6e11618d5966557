"""The documents are true: every python block runs, and every shell block that is marked `sh run`.

One marked `sh in an empty folder` runs where the python block before it was saved under the name that the text between
them says. The blocks of one document run in order in one process. Other shell blocks must at least name commands that
exist.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from enpire.cli import app

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<code>.*?)^```\s*$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?P<target>[^)#\s]+)[^)]*\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One fenced block of a document."""

    info: str
    code: str
    line: int


def blocks(document: Path, info: str) -> list[Block]:
    text = document.read_text(encoding="utf-8")
    found = [
        Block(info=match["info"].strip(), code=match["code"], line=text.count("\n", 0, match.start()) + 1)
        for match in FENCE.finditer(text)
    ]
    return [block for block in found if block.info == info]


def ids(document: Path) -> str:
    return str(document.relative_to(ROOT))


def run(command: list[str], tmp_path: Path, cwd: Path = ROOT) -> None:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    environment = os.environ | {"PATH": path, "ENPIRE_HOME": str(tmp_path / "home")}
    environment.pop("PYTHONPATH", None)
    if cwd == ROOT:
        environment["PYTHONPATH"] = str(ROOT)
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]


@pytest.mark.parametrize("document", [one for one in DOCUMENTS if blocks(one, "python")], ids=ids)
def test_python_blocks_run(document: Path, tmp_path: Path) -> None:
    text = ""
    for block in blocks(document, "python"):
        # Blank lines in front make the line numbers of a traceback those of the document.
        text += "\n" * (block.line - text.count("\n")) + block.code
    script = tmp_path / f"{document.stem}.py"
    script.write_text(text, encoding="utf-8")
    run([sys.executable, str(script)], tmp_path)


@pytest.mark.parametrize("document", [one for one in DOCUMENTS if blocks(one, "sh run")], ids=ids)
def test_marked_shell_blocks_run(document: Path, tmp_path: Path) -> None:
    bash = shutil.which("bash")
    assert bash is not None
    for block in blocks(document, "sh run"):
        run([bash, "-euo", "pipefail", "-c", block.code], tmp_path)


ALONE = "sh in an empty folder"


@pytest.mark.parametrize("document", [one for one in DOCUMENTS if blocks(one, ALONE)], ids=ids)
def test_tutorials_work_as_a_newcomer_follows_them(document: Path, tmp_path: Path) -> None:
    text = document.read_text(encoding="utf-8").splitlines()
    for block in blocks(document, ALONE):
        code = [one for one in blocks(document, "python") if one.line < block.line][-1]
        between = "\n".join(text[code.line + code.code.count("\n") : block.line])
        name = re.search(r"Saved as `(\w+\.py)`", between)
        assert name is not None, f"{ids(document)}:{block.line}"
        folder = tmp_path / f"line {block.line}"
        folder.mkdir()
        (folder / name[1]).write_text(code.code, encoding="utf-8")
        run(["bash", "-euo", "pipefail", "-c", block.code], tmp_path, folder)


@pytest.mark.parametrize("document", DOCUMENTS, ids=ids)
def test_shell_blocks_name_commands_that_exist(document: Path) -> None:
    made = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for block in [*blocks(document, "sh"), *blocks(document, "sh run"), *blocks(document, ALONE)]:
        for line in block.code.splitlines():
            words = line.split("#")[0].split()
            if words[:1] == ["make"]:
                assert set(words[1:]) <= made, f"{ids(document)}:{block.line}: {line}"
            elif words and words[0].endswith("enpire"):
                verb = [word for word in words[1:3] if re.fullmatch(r"[a-z]+", word)]
                run_help(verb, f"{ids(document)}:{block.line}: {line}")


def run_help(verb: list[str], where: str) -> None:
    answer = CliRunner().invoke(app, [*verb, "--help"])
    assert answer.exit_code == 0, f"{where}: {answer.output}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=ids)
def test_links_point_to_files_that_exist(document: Path) -> None:
    text = FENCE.sub("", document.read_text(encoding="utf-8"))
    targets = [match["target"] for match in LINK.finditer(text) if "://" not in match["target"]]
    missing = [target for target in targets if not (document.parent / target).exists()]
    assert not missing
