"""The token budget of a paid verifier, kept in a file that outlives the process and that stations may share."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from enpire.errors import EnpireError, FileProblem
from enpire.store import durable


class BudgetExceeded(EnpireError):
    """A request may cost more tokens than are left."""


class TokenBudget:
    """Counts the tokens spent so far; without a file, those of this process alone."""

    def __init__(self, most: int, path: Path | None = None) -> None:
        """`most`: tokens that may be spent by all stations that share the file."""
        self._most, self._path = most, path
        self._here = 0

    @property
    def spent(self) -> int:
        """Tokens spent so far.

        Raises:
            FileProblem: the file holds no number.
        """
        if self._path is None or not self._path.exists():
            return self._here
        text = self._path.read_text(encoding="ascii", errors="replace").strip()
        if not text.isdigit():
            raise FileProblem(f"{self._path} must hold the number of tokens spent, not {text[:40]!r}; write it there.")
        return int(text)

    def take(self, tokens: int) -> None:
        """Reserve tokens before they are used.

        Raises:
            BudgetExceeded: fewer are left.
        """
        with self._locked():
            spent = self.spent
            if spent + tokens > self._most:
                where = f"; {self._path} holds what was spent, remove it to start again" if self._path else ""
                raise BudgetExceeded(
                    f"Of the budget of {self._most} tokens {self._most - spent} are left, and the next question may "
                    f"cost {tokens}: raise `tokens` of the verifier{where}."
                )
            self._write(spent + tokens)

    def give_back(self, tokens: int) -> None:
        """Return reserved tokens that were not used; negative where more were used than reserved."""
        with self._locked():
            self._write(max(0, self.spent - tokens))

    def _write(self, spent: int) -> None:
        self._here = spent
        if self._path is not None:
            durable.write(self._path, f"{spent}\n".encode())

    @contextmanager
    def _locked(self) -> Iterator[None]:
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
