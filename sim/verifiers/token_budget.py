"""What a verifier that costs money has spent: in a file that outlives the process, and that stations may share."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from enpire.errors import EnpireError, FileProblem
from enpire.store import durable


class BudgetExceeded(EnpireError):
    """What is asked for is more than is left."""


class TokenBudget:
    """Tokens spent so far; without a file those of this process alone."""

    def __init__(self, most: int, path: Path | None = None) -> None:
        """`most`: tokens that may be spent by all who share the file."""
        self._most, self._path = most, path
        self._here = 0

    @property
    def spent(self) -> int:
        """Tokens."""
        if self._path is None or not self._path.exists():
            return self._here
        text = self._path.read_text(encoding="ascii", errors="replace").strip()
        if not text.isdigit():
            raise FileProblem(f"{self._path} must hold the number of tokens spent, not {text[:40]!r}; write it there.")
        return int(text)

    def take(self, tokens: int) -> None:
        """Spend tokens before they are used; BudgetExceeded when so many are not left."""
        with self._alone():
            spent = self.spent
            if spent + tokens > self._most:
                where = f"; {self._path} holds what was spent, remove it to begin anew" if self._path else ""
                raise BudgetExceeded(
                    f"Of the budget of {self._most} tokens {self._most - spent} are left, and the next question may "
                    f"cost {tokens}: raise `tokens` of the verifier{where}."
                )
            self._write(spent + tokens)

    def give_back(self, tokens: int) -> None:
        """Return what was taken and not used; where more was used, `tokens` is negative."""
        with self._alone():
            self._write(max(0, self.spent - tokens))

    def _write(self, spent: int) -> None:
        self._here = spent
        if self._path is not None:
            durable.write(self._path, f"{spent}\n".encode())

    @contextmanager
    def _alone(self) -> Iterator[None]:
        if self._path is None:
            yield
            return
        durable.make_folder(self._path.parent)
        try:
            lock = self._path.with_suffix(".lock").open("w")
        except OSError as problem:
            raise durable.refusal(problem, self._path) from problem
        with lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
