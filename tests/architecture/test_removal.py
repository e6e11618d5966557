"""One module removes files and folders and renames over them: `enpire.store.removal`. Every other call is a fault."""

from __future__ import annotations

import ast
from collections.abc import Mapping

import pytest

from tests.architecture.sources import PACKAGES, files, tree, where

OWNER = "enpire/store/removal.py"
REMOVE, REPLACE = frozenset({"remove", "remove_empty", "try_remove"}), "replace"
CALLERS: Mapping[str, int] = {
    "enpire/service/code.py": 1,
    "enpire/datasets/episode_video.py": 2,
    "enpire/code_candidates/code_learner.py": 2,
    "enpire/datasets/dataset_import.py": 1,
    "enpire/datasets/dataset_repair.py": 1,
    "enpire/datasets/lerobot_export.py": 1,
    "enpire/datasets/recording_export.py": 1,
    "enpire/datasets/remote_files.py": 2,
    "enpire/fleet/learner_on_ray.py": 1,
    "enpire/monitor/image_files.py": 1,
    "enpire/monitor/live_file.py": 1,
    "enpire/policy_server/policy_server.py": 1,
    "enpire/policy_server/version_uploads.py": 2,
    "enpire/processes/room_limits.py": 1,
    "enpire/processes/smoke_run.py": 1,
    "enpire/processes/training_process.py": 1,
    "enpire/requests/campaign_queue.py": 1,
    "enpire/requests/file_queue.py": 2,
    "enpire/requests/model_answers.py": 2,
    "enpire/requests/model_calls.py": 1,
    "enpire/requests/model_leases.py": 1,
    "enpire/service/backups.py": 2,
    "enpire/service/processes.py": 1,
    "enpire/service/remote_copies.py": 1,
    "enpire/service/webhooks.py": 1,
    "enpire/session.py": 1,
    "enpire/sinks/wandb_sink.py": 1,
    "enpire/station/policy_cache.py": 4,
    "enpire/station/spool.py": 6,
    "enpire/steps/record.py": 1,
    "enpire/store/copies.py": 4,
    "enpire/store/evidence_file.py": 1,
    "enpire/store/durable.py": 10,
    "enpire/store/home_backup.py": 1,
    "enpire/store/episodes.py": 1,
    "enpire/store/migrations.py": 1,
    "enpire/store/pictures.py": 1,
    "enpire/store/versions.py": 4,
    "enpire/wire/hand_control.py": 3,
    "policies/habc/critic_outputs.py": 1,
    "policies/image_windows.py": 1,
    "robot_drivers/guard.py": 2,
    "robot_drivers/guard_connections.py": 2,
    "sim/lost_network.py": 1,
}
"""File -> its uses of `removal`. A new one is added here after a look at the folder that it names as its own."""
METHODS = frozenset({"unlink", "rmdir", "rmtree", "removedirs", "rename"})
"""Names that remove or rename, of a path as of `os` and `shutil`."""
OF_MODULES = frozenset({"remove", "replace", "renames", "move", *METHODS})
"""Names of `os` and `shutil` that mean something else elsewhere, as in `list.remove`."""
MODULES = frozenset({"os", "posix", "shutil"})
PROGRAMS = frozenset({"rm", "mv", "rmdir", "unlink", "shred"})


def removals(module: ast.Module) -> list[tuple[int, str]]:
    """(line, name) of everything in a module that removes or renames files by other means than `removal`."""
    found: list[tuple[int, str]] = []
    for node in ast.walk(module):
        match node:
            case ast.Attribute(attr=name) if name in METHODS:
                found.append((node.lineno, name))
            case ast.Attribute(value=ast.Name(id=of), attr=name) if of in MODULES and name in OF_MODULES:
                found.append((node.lineno, name))
            case ast.Call(func=ast.Attribute(value=of, attr="replace"), args=[_], keywords=[]) if not _is_owner(of):
                # Path.replace takes one path; str.replace takes two texts, dataclasses.replace takes keywords.
                found.append((node.lineno, "replace"))
            case ast.ImportFrom(module=of, names=names) if of in MODULES:
                found += [(node.lineno, alias.name) for alias in names if alias.name in OF_MODULES]
            case ast.List(elts=[ast.Constant(value=str(program)), *_]) if program.rpartition("/")[2] in PROGRAMS:
                found.append((node.lineno, program))
            case _:
                pass
    return found


def uses(module: ast.Module) -> int:
    """Uses of `removal` in a module, called or passed on."""
    return sum(
        isinstance(node, ast.Attribute) and _is_owner(node.value) and node.attr in (*REMOVE, REPLACE)
        for node in ast.walk(module)
    )


def _is_owner(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == "removal"


def test_one_module_removes_and_replaces_files() -> None:
    found = {where(path): removals(tree(path)) for path in files(PACKAGES) if where(path) != OWNER}
    assert {path: calls for path, calls in found.items() if calls} == {}, (
        "Call enpire.store.removal instead, with the folder that this code owns."
    )


def test_every_caller_is_listed() -> None:
    counted = {where(path): uses(tree(path)) for path in files(PACKAGES)}
    assert {path: count for path, count in counted.items() if count} == dict(CALLERS)


@pytest.mark.parametrize(
    "line",
    [
        "from os import remove", "from shutil import rmtree", "os.remove(path)", "os.replace(a, b)", "path.unlink()",
        "stack.callback(path.unlink)", "shutil.rmtree(folder)", "shutil.move(a, b)", "path.rename(b)",
        "path.replace(b)", "path.rmdir()", "os.renames(a, b)", "run(['/bin/rm', '-rf', folder])",
    ],
)  # fmt: skip
def test_the_search_finds_every_way_to_remove(line: str) -> None:
    assert len(removals(ast.parse(line))) == 1


def test_the_search_finds_nothing_else() -> None:
    harmless = ast.parse(
        "text.replace('a', 'b')\nreplace(order, lease=1)\nnames.remove(x)\nself.renames\nremoval.replace(a, b, c)\n"
        "stack.callback(removal.remove, a, b)\n"
    )
    assert removals(harmless) == []
    assert uses(harmless) == 2
