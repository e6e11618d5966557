"""The code with which a person resumes a real robot: people keep it, the robot's computer only what checks it.

So nothing that runs on that computer, the policy least of all, finds there what it would need to resume a robot.
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
"""Letters of a code: 8.5e11 codes, each of which takes a tenth of a second to try, also for who has read the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeCheck:
    """What tells the right code from all others, and gives none away."""

    salt: str
    sha256: str

    def key(self, code: str) -> str:
        """What the guard is shown of a code, made at the person's side (scrypt, RFC 7914); case and '-' are free."""
        letters = code.replace("-", "").replace(" ", "").lower()
        stretched = hashlib.scrypt(letters.encode(), salt=self.salt.encode(), n=2**15, r=8, p=1, maxmem=2**26)
        return stretched.hex()

    def allows(self, key: str) -> bool:
        """Whether a key was made of the right code."""
        return secrets.compare_digest(hashlib.sha256(key.encode()).hexdigest(), self.sha256)


def make(folder: Path) -> str:
    """A new code for the robot of a guard's folder, kept nowhere; the old one ends when the guard starts anew."""
    code = "".join(secrets.choice(LETTERS) for _ in range(LENGTH))
    keep(folder, code)
    return f"{code[: LENGTH // 2]}-{code[LENGTH // 2 :]}"


def keep(folder: Path, code: str) -> None:
    """Write down, durably, what checks a code."""
    salt = secrets.token_hex(16)
    key = ResumeCheck(salt=salt, sha256="").key(code)
    check = ResumeCheck(salt=salt, sha256=hashlib.sha256(key.encode()).hexdigest())
    durable.make_folder(folder)
    durable.write(_path(folder), json.dumps(plain(check)).encode())


def read(folder: Path) -> ResumeCheck:
    """What checks the code of a robot; RobotProblem when it has none, or the file is damaged."""
    try:
        return parse(ResumeCheck, read_json(_path(folder)), str(_path(folder)))
    except FileProblem as problem:
        raise RobotProblem(
            f"Nobody can resume this robot without a code. {problem} Make one with `enpire robot code {folder}`, then"
            " start its station again."
        ) from problem


def _path(folder: Path) -> Path:
    return folder / "resume.json"
