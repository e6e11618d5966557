"""The smoke check of a version in a process of its own: `python -m enpire.processes.version_check_process REQUEST`.

Where bubblewrap is allowed the process has no network and sees only the version and the episodes; everywhere its
memory, files and time are limited. A version whose inference runs at a server holds no code and no weights, and needs
the network: its process is not in a sandbox.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from enpire import plugins
from enpire.files import configs_root, parse, plain
from enpire.interfaces import Task
from enpire.parts import POLICIES, TASKS, PartGroup
from enpire.processes.credentials import only_allowed
from enpire.processes.room_limits import RoomLimits, limit_this_process
from enpire.processes.sandbox import Sandbox, bubblewrap, python_command, python_files, python_path, sandboxed
from enpire.processes.version_check import LIMIT_S, VersionCheck, check_version
from enpire.store import versions
from enpire.store.load_version import SERVER_KINDS, AllowedKinds

MODULE = "enpire.processes.version_check_process"
OPEN_APPROVED = "enpire.code_candidates.authored_tasks:open_approved_files"
"""Opens the files of a task that an agent wrote."""
LIMITS = RoomLimits(memory_bytes=32 * 2**30, processes=-1, files=1024)
"""Memory is address space here: libraries reserve more of it than they use."""
_RESULT = "enpire version check: "
"""Begins the line with the result; the policy may print other lines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRequest:
    """What to check."""

    folder: Path
    """Of the version."""
    task: str
    episodes: tuple[Path, ...] = ()
    """Folders of the episode store."""
    kinds: tuple[str, ...] = ()
    """Kinds "module:name" that are loaded besides the installed kinds."""
    approved: tuple[Path, str] | None = None
    """Of a task that an agent wrote: the folder of its files, and the digest that a person approved. The process of the
    check may not read the secret of the home, without which no approval holds."""
    sandboxed: bool = False
    """Whether the process of the check runs in a sandbox; a version with the code of an agent then needs no other."""


def check_in_process(request: CheckRequest, limit_s: float = LIMIT_S) -> VersionCheck:
    """Check a version in a process of its own, and wait for it; `why` also says when the process ended without result.

    Raises:
        EnpireError: there is no such task.
    """
    _load_packages(request)
    at_server = versions.is_version(request.folder) and versions.manifest(request.folder)["kind"] in SERVER_KINDS
    request = replace(request, sandboxed=bool(bubblewrap()) and not at_server)
    command = [*python_command(), "-m", MODULE, json.dumps(plain(request))]
    if request.sandboxed:
        files = (request.approved[0],) if request.approved else ()
        sandbox = Sandbox(reads=(*python_files(), configs_root(), request.folder.resolve(), *request.episodes, *files))
        command = sandboxed(sandbox, command)
    variables = {
        **only_allowed(os.environ), "PATH": "/usr/bin:/bin", "PYTHONPATH": os.pathsep.join(map(str, python_path())),
        "HOME": str(Path.home()) if at_server else "/tmp", "PYTHONDONTWRITEBYTECODE": "1", "HF_HUB_OFFLINE": "1",
        "LOGNAME": "enpire",  # torch asks for the user's name, and the sandbox shows no list of users
    }  # fmt: skip
    try:
        done = subprocess.run(
            command, check=False, stdin=subprocess.DEVNULL, capture_output=True, env=variables, timeout=limit_s,
            start_new_session=True,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return VersionCheck(why=f"it did not answer within {limit_s:.0f} s.")
    lines = done.stdout.decode(errors="replace").splitlines()
    written = next((line for line in reversed(lines) if line.startswith(_RESULT)), "")
    if not written:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        return VersionCheck(why=f"its process ended with code {done.returncode}{': ' if last else ''}{''.join(last)}.")
    return parse(VersionCheck, json.loads(written.removeprefix(_RESULT)), "The result of the check")


def _load_packages(request: CheckRequest) -> None:
    """Load the task, and the packages of all policies, but not the policies: what is loaded is visible in the sandbox.

    Raises:
        EnpireError: there is no such task.
    """
    _task(request)
    plugins.listed(POLICIES.name)
    plugins.look_here()
    for kind in request.kinds:
        with contextlib.suppress(ImportError):
            importlib.util.find_spec(kind.partition(":")[0])


def _task(request: CheckRequest) -> Task:
    """The task of a check.

    Raises:
        EnpireError: there is no such task, or its files are not those that were approved.
    """
    if request.approved is None:
        return TASKS.make(request.task)
    folder, digest = request.approved
    opening: PartGroup[[str, str], Task] = PartGroup("tasks")
    return opening.load(OPEN_APPROVED)(str(folder), digest)


def main(arguments: list[str]) -> int:
    """Check one version and print the result."""
    limit_this_process(LIMITS)
    request = parse(CheckRequest, json.loads(arguments[0]), "The request")
    task = _task(request)
    allowed = AllowedKinds(
        kinds=request.kinds, where="repeat this with --allow-kind", unsandboxed=request.sandboxed
    )  # fmt: skip
    found = check_version(request.folder, task, request.episodes, allowed)
    print(f"\n{_RESULT}{json.dumps(asdict(found))}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
