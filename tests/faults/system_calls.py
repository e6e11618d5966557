"""Run a program under strace: record its file operations in one folder, or let one system call fail."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tests.fakes.point_task import environment

STRACE = shutil.which("strace")
WHY_NOT = "strace is not installed (apt-get install strace), so no system call can be recorded or refused"
CHANGES = (
    "openat,write,pwrite64,writev,fsync,fdatasync,syncfs,ftruncate,rename,renameat,renameat2,unlink,unlinkat,mkdir,"
    "mkdirat,rmdir,lseek"
)
Kind = Literal["create", "write", "truncate", "rename", "unlink", "mkdir", "sync", "sync all", "said"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """One file operation, or one line that the program printed. Paths are relative to the folder."""

    kind: Kind
    path: str = ""
    to: str = ""
    offset: int = 0
    """Offset of a write, or new size of a truncation."""
    data: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One line of strace that names a file of the folder."""

    name: str
    number: int
    """Number of this call among the calls of its name."""


def record(module: str, folder: Path, *arguments: str) -> list[Op]:
    """File operations of `python -m module FOLDER ARGUMENTS` in the folder, in order."""
    trace = folder.parent / f"{folder.name}.strace"
    whole = ["-xx", "-s", "100000000", "-e", f"trace={CHANGES}"]
    strace = ["strace", "-f", "-y", "--seccomp-bpf", "-o", str(trace), *whole]
    run([*strace, sys.executable, "-m", module, str(folder), *arguments])
    reader = _Reader(str(folder))
    with trace.open() as lines:
        return [op for line in lines for op in reader.read(line)]


def calls(module: str, folder: Path, names: Sequence[str]) -> list[Call]:
    """Every call of these names that touches the folder, in a run without faults."""
    trace = folder.parent / f"{folder.name}.strace"
    strace = ["strace", "-f", "-y", "--seccomp-bpf", "-s", "4096", "-o", str(trace), "-e", f"trace={','.join(names)}"]
    run([*strace, sys.executable, "-m", module, str(folder)])
    counted = dict.fromkeys(names, 0)
    found: list[Call] = []
    for line in trace.read_text().splitlines():
        name = re.match(r"\d+ +(\w+)\(", line)
        if name and name[1] in counted:
            counted[name[1]] += 1
            if f"{folder}/" in line or f"{folder}>" in line or f'{folder}"' in line:
                found.append(Call(name=name[1], number=counted[name[1]]))
    return found


def refuse(module: str, folder: Path, call: Call, error: str) -> subprocess.CompletedProcess[str]:
    """Run the program with one call that fails."""
    strace = ["strace", "-f", "--seccomp-bpf", "-o", f"{folder}.strace", "-e", f"trace={call.name}"]
    inject = ["-e", f"inject={call.name}:error={error}:when={call.number}"]
    return run([*strace, *inject, sys.executable, "-m", module, str(folder)], check=False)


def run(command: Sequence[str], *, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, env=environment())
    assert not check or done.returncode == 0, done.stderr
    return done


class _Reader:
    """Turns lines of strace into operations on the files of one folder."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._at: dict[int, int] = {}
        self._path: dict[int, str] = {}
        self._end: dict[str, int] = {}

    def read(self, line: str) -> list[Op]:
        found = re.match(r"\d+ +(\w+)\((.*)\) += (-?\d+)", line)
        assert found or "unfinished" not in line, "two threads wrote at once; the record needs one"
        if not found or int(found[3]) < 0:
            return []
        name, arguments, result = found[1], found[2], int(found[3])
        if name == "openat":
            return self._open(arguments, result)
        if name in ("write", "writev") and arguments.startswith("1<"):
            return [Op(kind="said", data=line) for line in b"".join(_texts(arguments)).splitlines()]
        if name in ("rename", "renameat", "renameat2", "unlink", "unlinkat", "mkdir", "mkdirat", "rmdir"):
            return self._names(name, [self._below(text.decode()) for text in _texts(arguments)])
        return self._file(name, arguments, result)

    def _open(self, arguments: str, descriptor: int) -> list[Op]:
        path = self._below(_texts(arguments)[-1].decode())
        self._path.pop(descriptor, None)
        if not path:
            return []
        self._path[descriptor], self._at[descriptor] = path, self._end.get(path, 0) if "O_APPEND" in arguments else 0
        made = [Op(kind="create", path=path)] if "O_CREAT" in arguments else []
        return made + ([Op(kind="truncate", path=path)] if "O_TRUNC" in arguments else [])

    def _names(self, name: str, paths: list[str]) -> list[Op]:
        if not paths[-1]:
            return []
        if name.startswith("rename"):
            return [Op(kind="rename", path=paths[-2], to=paths[-1])]
        return [Op(kind="mkdir" if name.startswith("mkdir") else "unlink", path=paths[-1])]

    def _file(self, name: str, arguments: str, result: int) -> list[Op]:
        descriptor = int(re.match(r"(\d+)", arguments)[1])  # pyright: ignore[reportOptionalSubscript]
        path = self._path.get(descriptor)
        if name == "syncfs":
            return [Op(kind="sync all")]
        if path is None or not self._below(_shown(arguments)):
            return []
        last = arguments.rsplit(",", 1)[-1].strip()
        match name:
            case "lseek":
                self._at[descriptor] = result
                return []
            case "write":
                offset, self._at[descriptor] = self._at[descriptor], self._at[descriptor] + result
                self._end[path] = offset + result
                return [Op(kind="write", path=path, offset=offset, data=_texts(arguments)[0][:result])]
            case "pwrite64":
                return [Op(kind="write", path=path, offset=int(last), data=_texts(arguments)[0][:result])]
            case "ftruncate":
                return [Op(kind="truncate", path=path, offset=int(last))]
            case _:
                return [Op(kind="sync", path=path)]

    def _below(self, path: str) -> str:
        """The path relative to the folder ("." for itself); empty when it is elsewhere."""
        path = path.removesuffix(" (deleted)")
        if path == self._root:
            return "."
        return path[len(self._root) + 1 :] if path.startswith(f"{self._root}/") else ""


def _shown(arguments: str) -> str:
    found = re.match(r"\d+<((?:\\x[0-9a-f]{2})*)>", arguments)
    return bytes.fromhex(found[1].replace("\\x", "")).decode() if found else ""


def _texts(arguments: str) -> list[bytes]:
    return [bytes.fromhex(text.replace("\\x", "")) for text in re.findall(r'"((?:\\x[0-9a-f]{2})*)"', arguments)]
