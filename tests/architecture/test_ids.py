"""An id becomes a path only after `enpire.ids` checked it: a path join with an unchecked id or name is a fault."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

import pytest

from tests.architecture.sources import PACKAGES, files, tree, where

CHECKS = frozenset({"file_name", "version_id", "quoted_name", "folder_name", "mint", "staged_name"})
"""Functions that return a checked or new name."""
ID = re.compile(r"(^|_)(id|ids|name|lane|station|campaign|policy|policy_id|job|parent|session|version|key|uid|item)$")
"""Variables and attributes whose text may come from a file, a message, a request or a command line."""
PATHS = frozenset({"path", "folder", "entry", "target", "staged"})
"""Variables that hold a path: its `name` is one component by itself."""
CHECKED: Mapping[str, str] = {
    "enpire/code_candidates/inside.py f'{name}.py'": "names of files in the source code",
    "enpire/service/code.py name": "names of files of the shipped template",
    "enpire/datasets/dataset_files.py name": "checked to lie below the dataset",
    "enpire/processes/room_limits.py name": "names of files in the source code",
    "enpire/requests/agent_requests.py name": "`folder_name` quotes author and lane",
    "enpire/requests/file_queue.py name": "a new id, or the name of a path",
    "enpire/store/home_backup.py name": "names of files of the home",
    "enpire/store/migrations.py version": "a number",
    "enpire/store/pictures.py name": "names of files in the source code",
    "enpire/store/versions.py name": "`_check_name` refuses folders and hidden files",
    "enpire/wire/private_socket.py name": "names of sockets in the source code",
    "policies/checkpoint_admission.py name": "names of files in the source code",
    "policies/lerobot_files.py f'{LANGUAGE}{name}'": "names of files of a folder, after `language.`",
    "policies/lerobot_files.py name": "names of files in the source code, or of files of the checked version",
    "sim/verifiers/examples.py name": "names of folders in the source code",
}
"""Place of another join -> why its name is safe."""


def joins(module: ast.Module) -> list[tuple[int, str]]:
    """(line, source) of the path joins in a module whose right side holds an unchecked id or name."""
    found: list[tuple[int, str]] = []
    for node in ast.walk(module):
        match node:
            case ast.BinOp(op=ast.Div(), right=right) if any(_is_id(part) for part in _parts(right)):
                found.append((node.lineno, ast.unparse(right)))
            case ast.Call(func=ast.Attribute(attr="joinpath" | "with_name" | "with_stem"), args=given):
                found += [(node.lineno, ast.unparse(part)) for item in given for part in _parts(item) if _is_id(part)]
            case ast.Call(func=ast.Name(id="Path"), args=[_, _, *_]):
                found.append((node.lineno, ast.unparse(node)))
            case _:
                pass
    return found


def _parts(node: ast.expr) -> list[ast.expr]:
    """The expressions whose text is a part of the name."""
    if isinstance(node, ast.JoinedStr):
        return [part.value for part in node.values if isinstance(part, ast.FormattedValue)]
    if isinstance(node, ast.IfExp):
        return [*_parts(node.body), *_parts(node.orelse)]
    return [node]


def _is_id(node: ast.expr) -> bool:
    match node:
        case ast.Attribute(value=ast.Name(id=of), attr="name") if of in PATHS:
            return False
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return ID.search(name) is not None
        case ast.Subscript(value=value):
            return _is_id(value)
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name == "str"
        case _:
            return False


def test_every_id_is_checked_before_it_becomes_a_path() -> None:
    found = {f"{where(path)} {source}" for path in files(PACKAGES) for _, source in joins(tree(path))}
    assert sorted(found - set(CHECKED)) == [], (
        "Wrap the id: folder / version_id(policy_id), or file_name(x, 'a station')."
    )
    assert sorted(set(CHECKED) - found) == [], "Take these out of the list."


@pytest.mark.parametrize(
    "line",
    [
        "folder / order_id", "folder / self.lane", "folder / f'{station.name}.log'", "folder / str(given)",
        "folder / names[0] / policy", "path.with_name(name)", "folder.joinpath('a', job)", "Path(folder, anything)",
        "folder / (lane if lane else 'x')",
    ],
)  # fmt: skip
def test_the_search_finds_every_unchecked_join(line: str) -> None:
    assert joins(ast.parse(line))


def test_the_search_finds_no_checked_join() -> None:
    checked = (
        "folder / version_id(policy_id)\nfolder / f'{file_name(lane, 0)}.log'\nfolder / 'name'\nfolder / path.name\n"
        "seconds / count\npath.with_name(f'.{path.name}')\nPath(folder)\n"
    )
    assert joins(ast.parse(checked)) == []
