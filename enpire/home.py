"""The home folder, which holds all state of a lab."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from enpire.errors import FileProblem, UsageError
from enpire.store import secret


@dataclass(frozen=True, slots=True)
class Home:
    """The paths under one home folder; `open_home` makes them."""

    root: Path

    @property
    def ledger(self) -> Path:
        """The ledger."""
        return self.root / "ledger.db"

    @property
    def episodes(self) -> Path:
        """The episode store."""
        return self.root / "episodes"

    @property
    def incoming(self) -> Path:
        """Images that are being received. On the disk of the store, which then takes them without a copy."""
        return self.episodes / ".incoming"

    @property
    def versions(self) -> Path:
        """Policy versions, one folder each, named by their hash."""
        return self.root / "versions"

    @property
    def learning(self) -> Path:
        """Folders of training runs."""
        return self.root / "learning"

    @property
    def stations(self) -> Path:
        """Spools, caches and logs of the stations on this machine."""
        return self.root / "stations"

    @property
    def keys(self) -> Path:
        """Key pairs of the orchestrator and of enrolled stations."""
        return self.root / "keys"

    @property
    def sockets(self) -> Path:
        """Private sockets of the processes of this home; only the home's user can enter the folder."""
        return self.root / "run"

    @property
    def inbox(self) -> Path:
        """Commands of operators that wait for the loop, one file each."""
        return self.root / "inbox"

    @property
    def reports(self) -> Path:
        """Reports."""
        return self.root / "reports"

    @property
    def notes(self) -> Path:
        """Papers and notes of the lab; agents may search them."""
        return self.root / "notes"

    def secret(self) -> bytes:
        """The secret of the lab, from which hidden starts are derived. Created once, readable by its owner only."""
        return secret.lab_secret(self.root)


def find_home(given: str | Path | None = None) -> Path:
    """`given`, else ENPIRE_HOME, else ./.enpire.

    Raises:
        FileProblem: no folder can have this path, or it may not be read.
    """
    path = Path(given or os.environ.get("ENPIRE_HOME") or ".enpire")
    try:
        found = path.expanduser().resolve()
        found.exists()
    except (OSError, ValueError, RuntimeError) as problem:
        raise FileProblem(f"The home {str(path)[:200]!r} cannot be used ({problem}); choose another one.") from problem
    return found


def require_home(given: str | Path | None = None) -> Path:
    """The folder of a home that exists.

    Raises:
        UsageError: the folder is none; the sentence says how to make one.
    """
    root = find_home(given)
    if not ((root / "ledger.db").is_file() or (root / "versions").is_dir()):
        raise UsageError(
            f"{root} is no home of a lab: correct --home, or make one there with `enpire run CAMPAIGN --home {root}`."
        )
    return root


def open_home(given: str | Path | None = None) -> Home:
    """Create the folders of a home.

    Raises:
        FileProblem: the folder cannot be written.
    """
    home = Home(find_home(given))
    try:
        for folder in (home.episodes, home.versions, home.learning, home.stations, home.inbox, home.reports):
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise FileProblem(
            f"The home {home.root} cannot be used ({problem.strerror}); choose another home with --home or ENPIRE_HOME."
        ) from problem
    return home
