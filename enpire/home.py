"""The home folder: where the state of a laboratory lies."""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from enpire.errors import FileProblem
from enpire.store import durable


@dataclass(frozen=True, slots=True)
class Home:
    """The paths under one home folder; `open_home` makes them."""

    root: Path

    @property
    def ledger(self) -> Path:
        """The one history."""
        return self.root / "ledger.db"

    @property
    def episodes(self) -> Path:
        """The episode store."""
        return self.root / "episodes"

    @property
    def incoming(self) -> Path:
        """Pictures of episodes on their way into the store: on its disk, so that it need not copy them."""
        return self.episodes / ".incoming"

    @property
    def versions(self) -> Path:
        """Policy versions, one folder each, named by hash."""
        return self.root / "versions"

    @property
    def learning(self) -> Path:
        """Work folders of training runs."""
        return self.root / "learning"

    @property
    def stations(self) -> Path:
        """Spools, caches and logs of the stations that this machine runs."""
        return self.root / "stations"

    @property
    def keys(self) -> Path:
        """Key pairs of the orchestrator and of the stations that may come from other machines."""
        return self.root / "keys"

    @property
    def inbox(self) -> Path:
        """Commands of operators that the loop has not read yet, one file each."""
        return self.root / "inbox"

    @property
    def reports(self) -> Path:
        """Reports."""
        return self.root / "reports"

    @property
    def notes(self) -> Path:
        """The lab's own papers and notes, which agents may search; people put them there."""
        return self.root / "notes"

    def private(self) -> tuple[Path, ...]:
        """What no agent may read: keys, the secret behind the hidden starts, people's accounts, spools of stations.

        All of it is there afterwards: a room hides only what exists when it is made.
        """
        accounts = self.root / "web.db"
        self.secret()
        durable.make_folder(self.keys)
        accounts.touch(mode=0o600)
        return self.keys, self._secret, accounts, self.stations

    @property
    def _secret(self) -> Path:
        return self.root / "secret"

    def secret(self) -> bytes:
        """The laboratory's secret, from which hidden starts are derived; made once, readable by the owner only."""
        path = self._secret
        if not path.exists():
            durable.write(path, secrets.token_hex(32).encode())
            path.chmod(0o600)
        return bytes.fromhex(path.read_text().strip())


def find_home(given: str | Path | None = None) -> Path:
    """`given`, else ENPIRE_HOME, else ./.enpire."""
    return Path(given or os.environ.get("ENPIRE_HOME") or ".enpire").expanduser().resolve()


def open_home(given: str | Path | None = None) -> Home:
    """The home with its folders made; FileProblem when the place cannot be written."""
    home = Home(find_home(given))
    try:
        for folder in (home.episodes, home.versions, home.learning, home.stations, home.inbox, home.reports):
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise FileProblem(
            f"The home {home.root} cannot be used ({problem.strerror}); choose another with --home or ENPIRE_HOME."
        ) from problem
    return home
