"""The bare git repository of a home: one commit for each code candidate, one ref for each experiment.

The harness alone writes it, with git's plumbing: no work tree, no shared index, no hook, no configuration of a user.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from enpire.errors import FileProblem, UsageError
from enpire.ids import file_name, quoted_name
from enpire.store import durable

FOLDER = "code.git"
EXPERIMENTS, SUBMITTED = "refs/experiments", "refs/submitted"
"""Refs of accepted experiments, and of submissions that the loop has not answered yet."""
CHAMPIONS, LANES = "refs/champions", "refs/lanes"
"""Refs of the champions that are code, by campaign and position, and of what each agent session continues."""
LARGEST = 512 * 2**20
"""Bytes of the repository beyond which no further candidate is kept."""
_TIMEOUT_S = 30.0
_SAFE = (
    "-c", "core.hooksPath=/dev/null", "-c", "core.fsync=all", "-c", "gc.auto=0", "-c", "core.fsmonitor=false",
    "-c", "safe.directory=*",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One kept candidate."""

    commit: str
    """Id of the commit."""
    tree: str
    """Id of its content: equal for equal files."""


def git_program() -> str:
    """Path of the program git.

    Raises:
        UsageError: it is not installed.
    """
    if (program := shutil.which("git")) is None:
        raise UsageError("Code candidates need the program git, which is not installed; apt install git.")
    return program


class CodeRepository:
    """The repository of one home; made at the first write."""

    def __init__(self, home: Path) -> None:
        self.folder = home / FOLDER

    def keep(self, files: Mapping[str, str], ref: str, message: str, author: str, parent: str = "") -> Commit:
        """Commit files under a ref; returns the commit.

        Args:
            files: path -> text.
            ref: below EXPERIMENTS or SUBMITTED.
            message: one line or more.
            author: agent session or operator.
            parent: id of the commit that it continues; empty for none.

        Raises:
            UsageError: git is missing or refuses, or the repository is full.
        """
        self._make()
        self._require_space()
        who = f"{_plain(author)} <agent@enpire> now"
        lines = [f"commit {ref}", f"author {who}", f"committer {who}", _data(message)]
        if parent:
            lines.append(f"from {_commit_id(parent)}")
        lines += ["deleteall", *(f"M 100644 inline {path}\n{_data(text)}" for path, text in sorted(files.items()))]
        stream = ("\n".join(lines) + "\ndone\n").encode()
        self._git("fast-import", "--quiet", "--done", "--force", "--date-format=now", given=stream)
        return self.resolve(ref)

    def resolve(self, name: str) -> Commit:
        """The commit of a ref or of an id.

        Raises:
            UsageError: there is none.
        """
        found = self._git("rev-parse", "--end-of-options", f"{name}^{{commit}}", f"{name}^{{tree}}")
        *_, commit, tree = found.decode().split()
        return Commit(commit=commit, tree=tree)

    def parent(self, commit: str) -> str:
        """The commit that a commit continues; empty if it continues none.

        Raises:
            UsageError: there is no such commit.
        """
        shown = self._git("show", "-s", "--format=%P", _commit_id(commit)).decode().split()
        return shown[0] if shown else ""

    def files(self, commit: str) -> dict[str, str]:
        """The files of a commit: path -> text.

        Raises:
            UsageError: there is no such commit.
        """
        listed = self._git("ls-tree", "-r", "-z", "--full-tree", _commit_id(commit)).decode()
        blobs: dict[str, str] = {}
        for line in filter(None, listed.split("\0")):
            (mode, kind, blob), path = line.partition("\t")[0].split(), line.partition("\t")[2]
            if (mode, kind) != ("100644", "blob"):
                raise UsageError(f"The commit {commit[:12]} holds {path!r}, which is not a plain file.")
            blobs[path] = blob
        rest = self._git("cat-file", "--batch", given="".join(f"{blob}\n" for blob in blobs.values()).encode())
        found: dict[str, str] = {}
        for path in blobs:
            head, _, rest = rest.partition(b"\n")
            size = int(head.split()[2])
            found[path], rest = rest[:size].decode(), rest[size + 1 :]
        return found

    def name(self, experiment_id: str, commit: str) -> None:
        """Let the ref of an experiment point to a commit, so that it is kept for good."""
        self.point(experiment_ref(experiment_id), commit)

    def point(self, ref: str, commit: str) -> None:
        """Let a ref point to a commit.

        Raises:
            UsageError: there is no such commit.
        """
        self._git("update-ref", ref, _commit_id(commit))

    def ancestors(self, commit: str, most: int) -> list[str]:
        """A commit and those that it continues, newest first."""
        return self._git("rev-list", "--first-parent", f"--max-count={most}", _commit_id(commit)).decode().split()

    def drop(self, ref: str) -> None:
        """Remove a ref of a submission."""
        if not ref.startswith(f"{SUBMITTED}/"):
            raise UsageError(f"Only refs below {SUBMITTED} are removed, not {ref!r}.")
        self._git("update-ref", "-d", ref)

    def commit_of(self, experiment_id: str) -> str:
        """Id of the commit that the ref of an experiment names; empty if there is none."""
        ref = experiment_ref(experiment_id)
        found = self._git("for-each-ref", "--format=%(objectname)", ref) if self.folder.is_dir() else b""
        return found.decode().strip()

    def _make(self) -> None:
        if (self.folder / "HEAD").is_file():
            return
        durable.make_folder(self.folder)
        self._git("init", "--quiet", "--bare", "--template=", "--initial-branch=main", str(self.folder))

    def _require_space(self) -> None:
        size = sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file())
        if size > LARGEST:
            raise UsageError(
                f"The repository {self.folder} has {size >> 20} MiB; at most {LARGEST >> 20} are allowed: use another "
                "home."
            )

    def _git(self, command: str, *arguments: str, given: bytes = b"") -> bytes:
        """Run one command of git; its output.

        Raises:
            UsageError: git is missing, refused, or did not answer.
        """
        where = {} if command == "init" else {"GIT_DIR": str(self.folder)}
        variables = {
            **where, "PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": "/nonexistent", "LC_ALL": "C",
            "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_TERMINAL_PROMPT": "0",
        }  # fmt: skip
        try:
            done = subprocess.run(
                [git_program(), *_SAFE, command, *arguments], check=False, input=given, capture_output=True,
                env=variables, timeout=_TIMEOUT_S, start_new_session=True,
            )  # fmt: skip
        except subprocess.TimeoutExpired as problem:
            raise UsageError(f"git {command} did not end within {_TIMEOUT_S:.0f} s in {self.folder}.") from problem
        if done.returncode:
            why = " ".join(done.stderr.decode(errors="replace").split())[-300:]
            raise UsageError(f"git {command} failed in {self.folder}: {why}.")
        return done.stdout


def experiment_ref(experiment_id: str) -> str:
    """The ref of an experiment."""
    return f"{EXPERIMENTS}/{file_name(experiment_id, 'an experiment')}"


def champion_ref(campaign_id: str, position: int) -> str:
    """The ref of a campaign's champion: position 1 is the base."""
    return f"{CHAMPIONS}/{_ref_name(campaign_id)}/{position:04d}"


def lane_ref(campaign_id: str, lane: str) -> str:
    """The ref of what an agent session continues."""
    return f"{LANES}/{_ref_name(campaign_id)}/{_ref_name(lane)}"


def submitted_ref(submission_id: str) -> str:
    """The ref of a submission that waits for the loop."""
    return f"{SUBMITTED}/{file_name(submission_id, 'a submission')}"


def is_commit_id(text: str) -> bool:
    """Whether a text has the form of a commit's id."""
    return len(text) in (40, 64) and all(letter in "0123456789abcdef" for letter in text)


def _ref_name(text: str) -> str:
    """Any text as one part of a ref's name, in which git allows neither two dots nor `~`."""
    return quoted_name(text).replace(".", "%2E").replace("~", "%7E")


def _commit_id(text: str) -> str:
    if not is_commit_id(text):
        raise FileProblem(f"{text[:80]!r} is not the id of a commit, which has 40 hexadecimal digits.")
    return text


def _plain(text: str) -> str:
    """A name that the form of a commit allows."""
    return "".join(letter for letter in text if letter.isprintable() and letter not in "<>")[:100] or "unknown"


def _data(text: str) -> str:
    return f"data {len(text.encode())}\n{text}"
