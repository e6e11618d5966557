"""Users, sessions, tokens and the one-time set-up link, stored in home/web.db."""

from __future__ import annotations

import contextlib
import re
import sqlite3
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

from enpire.errors import UnknownName, UsageError
from enpire.service.tables import database
from web_ui import passwords

Role = Literal["viewer", "operator", "admin"]
ROLES: tuple[Role, ...] = ("viewer", "operator", "admin")
SESSION_S = 14 * 86400.0
IDLE_S = 3 * 86400.0
SEEN_EVERY_S = 60.0
"""Resolution of `seen_s`, in seconds; it is not written on every request."""
NAME = re.compile(r"[a-z][a-z0-9._-]{0,31}")

SCHEMA = """
create table if not exists users(name text primary key, role text not null, sealed text not null,
  made_s real not null) strict;
create table if not exists keys(id text primary key, kind text not null, digest text not null unique,
  user text not null references users(name) on delete cascade, label text not null, made_s real not null,
  seen_s real not null, ends_s real not null) strict;
create table if not exists setup(digest text primary key) strict;
create table if not exists audit(seq integer primary key, stamp_s real not null, user text not null,
  deed text not null) strict;
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """One user: a person or a script, with a role."""

    name: str
    role: Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A browser session or a bearer token of a script. Only the hash of its secret is stored."""

    id: str
    kind: Literal["session", "token"]
    user: str
    label: str
    made_s: float
    """Wall clock, seconds since 1970."""
    seen_s: float
    ends_s: float


class Accounts:
    """The accounts of one home. Thread-safe."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = threading.RLock()
        self._connection = sqlite3.connect(path, check_same_thread=False, timeout=30)
        path.chmod(0o600)
        self._database = database(self._connection)
        with self._lock:
            self._database.execute("pragma foreign_keys = on")
            self._database.executescript(SCHEMA)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    def has_admin(self) -> bool:
        """Whether an admin exists; until then only the set-up link works."""
        return bool(self._rows("select 1 from users where role = 'admin' limit 1", {}))

    def mint_setup(self) -> str:
        """Make a new secret for the set-up link; an earlier one becomes invalid.

        Raises:
            UsageError: an admin exists.
        """
        if self.has_admin():
            raise UsageError("An admin exists already; ask the admin for an account.")
        secret = passwords.draw()
        with self._lock, self._connection:
            self._database.execute("delete from setup")
            self._database.execute("insert into setup values (?)", [passwords.digest(secret)])
        return secret

    def redeem_setup(self, secret: str, name: str, password: str) -> User:
        """Make the first admin with the secret of the set-up link, which becomes invalid.

        Raises:
            UsageError: the link is invalid, or name or password cannot be used.
        """
        sealed = _checked(name, password)
        with self._lock, self._connection:
            gone = self._database.execute("delete from setup where digest = ?", [passwords.digest(secret)]).rowcount
            if gone != 1 or self.has_admin():
                raise UsageError("This set-up link was used or replaced; start the server again for a new one.")
            self._insert(name, "admin", sealed)
        self.record(name, "set up the first admin")
        return User(name=name, role="admin")

    def add_user(self, name: str, role: Role, password: str) -> User:
        """Make a user.

        Raises:
            UsageError: the name is taken, or name or password cannot be used.
        """
        sealed = _checked(name, password)
        with self._lock, self._connection:
            if self._rows("select 1 from users where name = :name", {"name": name}):
                raise UsageError(f"There is a user {name!r} already; choose another name.")
            self._insert(name, role, sealed)
        return User(name=name, role=role)

    def remove_user(self, name: str) -> None:
        """Remove a user with all sessions and tokens.

        Raises:
            UnknownName: there is no such user.
            UsageError: the user is the only admin.
        """
        with self._lock, self._connection:
            rows = self._rows("select role from users where name = :name", {"name": name})
            if not rows:
                raise UnknownName(f"There is no user {name!r}.")
            admins = self._rows("select name from users where role = 'admin'", {})
            if rows[0]["role"] == "admin" and len(admins) == 1:
                raise UsageError(f"{name!r} is the only admin; make another admin first.")
            self._database.execute("delete from users where name = ?", [name])

    def users(self) -> list[User]:
        """All users, by name."""
        return [_user(row) for row in self._rows("select name, role from users order by name", {})]

    def check(self, name: str, password: str) -> User | None:
        """The user if name and password match. An unknown name takes as long as a wrong password."""
        rows = self._rows("select name, role, sealed from users where name = :name", {"name": name})
        matches = passwords.matches(password, str(rows[0]["sealed"]) if rows else passwords.DUMMY)
        return _user(rows[0]) if rows and matches else None

    def change_password(self, name: str, password: str, keep: str) -> None:
        """Set a new password and end every session and token of the user except `keep`."""
        sealed = _checked(name, password)
        with self._lock, self._connection:
            self._database.execute("update users set sealed = ? where name = ?", [sealed, name])
            self._database.execute("delete from keys where user = ? and id <> ?", [name, keep])

    def open_key(self, kind: Literal["session", "token"], user: str, label: str, life_s: float = SESSION_S) -> str:
        """Start a session or make a token; returns its secret, which is not stored."""
        secret, now = passwords.draw(), time.time()
        row = {"id": passwords.draw()[:12], "kind": kind, "digest": passwords.digest(secret), "user": user,
               "label": label[:120], "made_s": now, "seen_s": now, "ends_s": now + life_s}  # fmt: skip
        with self._lock, self._connection:
            self._database.execute(
                "insert into keys values (:id, :kind, :digest, :user, :label, :made_s, :seen_s, :ends_s)", row
            )
            self._database.execute("delete from keys where ends_s < ?", [now])
        return secret

    def holder(self, kind: Literal["session", "token"], secret: str) -> tuple[User, Key] | None:
        """The user and the key of a valid secret, else None; idle sessions end after three days."""
        query = "select keys.*, users.name, users.role from keys join users on users.name = keys.user"
        rows = self._rows(
            f"{query} where digest = :digest and kind = :kind", {"digest": passwords.digest(secret), "kind": kind}
        )
        if not rows:
            return None
        key, now = _key(rows[0]), time.time()
        if now > key.ends_s or (kind == "session" and now > key.seen_s + IDLE_S):
            return None
        if now > key.seen_s + SEEN_EVERY_S:
            # The key is good also where a full disk cannot note its use: a stop must not fail for that.
            with contextlib.suppress(sqlite3.OperationalError), self._lock, self._connection:
                self._database.execute("update keys set seen_s = ? where id = ?", [now, key.id])
        return _user(rows[0]), key

    def keys(self, user: str = "") -> list[Key]:
        """Sessions and tokens of one user, or of all users, newest first."""
        where = "where user = :user" if user else ""
        return [_key(row) for row in self._rows(f"select * from keys {where} order by made_s desc", {"user": user})]

    def revoke(self, key_id: str, user: str = "") -> None:
        """End a session or token at once; with `user`, only a key of that user.

        Raises:
            UnknownName: there is no such key.
        """
        with self._lock, self._connection:
            done = self._database.execute(
                "delete from keys where id = ? and (? = '' or user = ?)", [key_id, user, user]
            ).rowcount
        if done != 1:
            raise UnknownName(
                f"There is no session or token {key_id!r} that you may end; `GET /api/v1/keys` lists yours."
            )

    def record(self, user: str, action: str) -> None:
        """Append one line to the audit log of the accounts."""
        with self._lock, self._connection:
            self._database.execute("insert into audit values (null, ?, ?, ?)", [time.time(), user, action])

    def audit_log(self, limit: int = 100) -> list[tuple[float, str, str]]:
        """The newest lines of the audit log, newest first: (wall-clock seconds, user, action)."""
        rows = self._rows("select * from audit order by seq desc limit :limit", {"limit": limit})
        return [(float(cast(float, row["stamp_s"])), str(row["user"]), str(row["deed"])) for row in rows]

    def _insert(self, name: str, role: Role, sealed: str) -> None:
        self._database.execute("insert into users values (?, ?, ?, ?)", [name, role, sealed, time.time()])

    def _rows(self, sql: str, values: Mapping[str, object]) -> list[dict[str, object]]:
        with self._lock:
            return list(self._database.query(sql, dict(values)))


def _checked(name: str, password: str) -> str:
    """The hash of the password, after name and password were checked. Hashing takes time, so no lock is held."""
    if not NAME.fullmatch(name):
        raise UsageError(
            f"{name[:40]!r} is not a valid name: a letter a-z, then up to 31 of a-z, 0-9, dot, dash and underscore."
        )
    if not passwords.SHORTEST <= len(password) <= passwords.LONGEST:
        raise UsageError(f"A password has {passwords.SHORTEST} to {passwords.LONGEST} characters.")
    return passwords.seal(password)


def _user(row: Mapping[str, object]) -> User:
    return User(name=str(row["name"]), role=cast(Role, row["role"]))


def _key(row: Mapping[str, object]) -> Key:
    number = {name: float(cast(float, row[name])) for name in ("made_s", "seen_s", "ends_s")}
    kind = cast(Literal["session", "token"], row["kind"])
    return Key(id=str(row["id"]), kind=kind, user=str(row["user"]), label=str(row["label"]), **number)
