"""The code with which an operator resumes a real robot. Operators keep the code, the robot's computer a check of it.

So no process on that computer, and no policy, can read there what it needs to resume the robot.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from dataclasses import dataclass
from pathlib import Path

from enpire.errors import FileProblem, RobotProblem
from enpire.files import parse, plain, read_json
from enpire.store import durable

LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"
LENGTH = 8
"""Letters of a code. There are 8.5e11 codes; one try takes 0.1 s, also for a process that has read the file."""
COST = 2**15
"""Of scrypt: what makes a try slow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeCheck:
    """Tests a code without containing it."""

    salt: str
    sha256: str

    def key(self, code: str) -> str:
        """The key that is sent to the guard instead of the code (scrypt, RFC 7914); case and '-' do not matter."""
        letters = code.replace("-", "").replace(" ", "").lower()
        stretched = hashlib.scrypt(letters.encode(), salt=self.salt.encode(), n=COST, r=8, p=1, maxmem=2**26)
        return stretched.hex()

    def allows(self, key: str) -> bool:
        """Whether a key was made from the right code."""
        return secrets.compare_digest(hashlib.sha256(key.encode()).hexdigest(), self.sha256)


def make(folder: Path) -> str:
    """Make a code for the robot of a guard's folder; it is not stored. The old code ends when the guard restarts."""
    code = "".join(secrets.choice(LETTERS) for _ in range(LENGTH))
    keep(folder, code)
    return f"{code[: LENGTH // 2]}-{code[LENGTH // 2 :]}"


def keep(folder: Path, code: str) -> None:
    """Write the check of a code to disk."""
    salt = secrets.token_hex(16)
    key = ResumeCheck(salt=salt, sha256="").key(code)
    check = ResumeCheck(salt=salt, sha256=hashlib.sha256(key.encode()).hexdigest())
    durable.make_folder(folder)
    durable.write(_path(folder), json.dumps(plain(check)).encode())


def read(folder: Path) -> ResumeCheck:
    """The check of a robot's code; RobotProblem when there is none, or the file is damaged."""
    try:
        return parse(ResumeCheck, read_json(_path(folder)), str(_path(folder)))
    except FileProblem as problem:
        raise RobotProblem(
            f"This robot cannot be resumed without a code. {problem} Make one with `enpire robot code {folder}`, then"
            " restart its station."
        ) from problem


def _path(folder: Path) -> Path:
    return folder / "resume.json"
