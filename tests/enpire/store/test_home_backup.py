"""A backup holds what the ledger names at one moment; a restored home verifies; nothing half is ever left."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import IO

import pytest
from typer.testing import CliRunner, Result

from enpire.campaign.session_events import LedgerRestored
from enpire.cli import app
from enpire.errors import FileProblem, LedgerProblem, StorageFull, UsageError
from enpire.home import Home, open_home
from enpire.service.backups import back_up, restore_home
from enpire.store import home_backup
from enpire.store.episodes import FolderStore
from enpire.store.home_backup import MANIFEST
from enpire.store.ledger import SqliteLedger, open_to_read
from enpire.store.removal import STAGED
from tests.enpire.store.store_samples import a_recording, an_order, ended, issued
from tests.fakes.sample_events import append

OF_PROCESSES = (
    "inbox/command.json", "run/station.sock", "stations/s1/spool/x", "learning/r1/weights", "now.json", "videos/a.webm",
    "copies/2026-01-01_c1.db", ".space", "episodes/.incoming/half", f"versions/{STAGED}b/policy.json",
)  # fmt: skip


def quiet(done: int, total: int) -> None:
    """No progress."""


def enpire(*words: str | Path) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def record_episode(ledger: SqliteLedger, home: Path) -> None:
    episode, data = a_recording(an_order())
    append(ledger, [issued(episode.order)])
    FolderStore(home / "episodes").put(episode, data)
    append(ledger, [ended(episode)])


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home with two episodes, one of which is open in the ledger, and with one file of each kind."""
    made = open_home(tmp_path / "home")
    with closing(SqliteLedger(made.ledger)) as ledger:
        append(ledger, [("campaign started", {"campaign_id": "c1", "name": "n", "task": "t"})])
        record_episode(ledger, made.root)
        late, data = a_recording(an_order())
        append(ledger, [issued(late.order)])
        FolderStore(made.episodes).put(late, data)
    with closing(sqlite3.connect(made.root / "web.db")) as accounts, accounts:
        accounts.execute("CREATE TABLE users (name TEXT)")
        accounts.execute("INSERT INTO users VALUES ('ada')")
    kept = {"versions/" + "a" * 64 + "/policy.json": "{}", "keys/station.secret": "key", "code.git/refs/x": "1" * 40,
            "code.git/objects/11/1": "blob", "notes/grip.md": "grip", "mcp_token": "token"}  # fmt: skip
    for name, text in {**kept, **dict.fromkeys(OF_PROCESSES, "left out")}.items():
        path = made.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for name in ("keys/station.secret", "mcp_token", "web.db"):
        (made.root / name).chmod(0o600)
    (made.root / "notes" / "link").symlink_to("/etc/passwd")
    return made


@pytest.fixture
def backup(home: Home, tmp_path: Path) -> Path:
    back_up(home, tmp_path / "backup.zip", quiet)
    return tmp_path / "backup.zip"


def changed(backup: Path, change: Callable[[dict[str, bytes]], object]) -> Path:
    """A copy of the backup with other contents."""
    with zipfile.ZipFile(backup) as old:
        members = {name: old.read(name) for name in old.namelist()}
    change(members)
    with zipfile.ZipFile(path := backup.with_name("changed.zip"), "w") as new:
        for name, content in members.items():
            new.writestr(name, content)
    return path


def modes(folder: Path) -> dict[str, int]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): stat.S_IMODE(path.lstat().st_mode) for path in files}


def test_a_restored_home_is_the_home(home: Home, backup: Path, tmp_path: Path) -> None:
    with closing(open_to_read(home.ledger)) as ledger:
        head = ledger.head
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600, "it holds the secrets of the lab"
    made = restore_home(backup, tmp_path / "again", "ada", quiet)
    before, after = modes(home.root), modes(made.folder)
    assert made.audit.sound
    assert made.head == str(head)
    assert after == {name: before[name] for name in after if name in before}, "every file with its permissions"
    assert after["secret"] == after["keys/station.secret"] == after["web.db"] == 0o600
    assert {"notes/grip.md", "code.git/refs/x", "mcp_token", "versions/" + "a" * 64 + "/policy.json"} <= set(after)
    assert not set(OF_PROCESSES) & set(after)
    assert not (made.folder / "notes" / "link").exists(), "a link could lead anywhere"
    episodes = [name for name in after if name.startswith("episodes/") and name.endswith(".npz")]
    assert len(episodes) == 1, "the open order's episode is not in the ledger yet"
    with closing(sqlite3.connect(made.folder / "web.db")) as accounts:
        assert accounts.execute("SELECT name FROM users").fetchall() == [("ada",)]
    with closing(open_to_read(made.folder / "ledger.db")) as ledger:
        assert ledger.hash_at(head.seq) == head.hash
        (event,) = (entry.event for entry in ledger.events(after=head.seq))
    assert event == LedgerRestored(by="ada", copy="backup.zip", head=str(head), lost="")


def test_every_backup_of_a_home_that_is_written_is_whole(home: Home, tmp_path: Path) -> None:
    ended_all = threading.Event()

    def write() -> None:
        with closing(SqliteLedger(home.ledger)) as ledger:
            for _ in range(2000):
                record_episode(ledger, home.root)
                if ended_all.is_set():
                    return

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(4):
            made = back_up(home, tmp_path / f"{number}.zip", quiet)
            assert made.damaged == ()
    finally:
        ended_all.set()
        writer.join()
    for number in range(4):
        assert restore_home(tmp_path / f"{number}.zip", tmp_path / f"again-{number}", "ada", quiet).audit.sound


def test_a_killed_backup_leaves_no_file_and_the_next_one_removes_what_it_wrote(home: Home, tmp_path: Path) -> None:
    program = (
        "import os, sys; from pathlib import Path; from enpire.store.home_backup import write_backup\n"
        "write_backup(Path(sys.argv[1]), Path(sys.argv[2]), '1', lambda done, total: os.kill(os.getpid(), 9))"
    )
    target = tmp_path / "backup.zip"
    killed = subprocess.run([sys.executable, "-c", program, home.root, target], timeout=600, check=False)
    assert killed.returncode == -signal.SIGKILL
    left = [path.name for path in tmp_path.iterdir() if path.name.startswith(STAGED)]
    assert left
    assert not target.exists()
    back_up(home, target, quiet)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backup.zip", "home"]


def test_a_disk_that_wrote_other_bytes_is_noticed(home: Home, tmp_path: Path) -> None:
    def spoil_disk(done: int, total: int) -> None:
        if done == 1:  # the first file, the ledger, is written
            (staged,) = (path for path in tmp_path.glob(f"{STAGED}*") if not path.name.endswith(".db"))
            with staged.open("r+b") as file:
                file.seek(200)
                file.write(b"other bytes")

    with pytest.raises(FileProblem):
        back_up(home, tmp_path / "backup.zip", spoil_disk)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home"]


def test_a_refused_restore_leaves_no_folder(backup: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_given: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("enpire.store.home_backup.os.fdopen", full)
    with pytest.raises(StorageFull):
        restore_home(backup, tmp_path / "again", "ada", quiet)
    monkeypatch.undo()
    (tmp_path / f"{STAGED}again-1-ab").mkdir()
    (tmp_path / "again").mkdir()
    restore_home(backup, tmp_path / "again", "ada", quiet)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again", "backup.zip", "home"]


def test_a_full_disk_leaves_no_backup(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_given: object) -> tuple[str, int]:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(home_backup, "_copied", full)
    with pytest.raises(StorageFull):
        back_up(home, tmp_path / "backup.zip", quiet)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home"]


def test_a_backup_that_does_not_fit_is_not_unpacked(
    backup: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("enpire.store.home_backup.os.statvfs", lambda _path: os.statvfs_result([1] * 10))
    with pytest.raises(StorageFull, match="unpacks to"):
        restore_home(backup, tmp_path / "again", "ada", quiet)


def spoil(members: dict[str, bytes], name: str, content: bytes) -> None:
    members[name] = content


def rename(members: dict[str, bytes], name: str) -> None:
    """Another path for the first file, in the manifest as in the zip file."""
    manifest = json.loads(members[MANIFEST])
    first = manifest["files"][-1]["path"]
    manifest["files"][-1]["path"] = name
    members[MANIFEST] = json.dumps(manifest).encode()
    members[name] = members[first]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda members: spoil(members, "mcp_token", b"other"), "was changed after it was written"),
        (lambda members: spoil(members, MANIFEST, b"{"), "is no backup of a home, or is damaged"),
        (lambda members: spoil(members, MANIFEST, b"{}"), "lacks the key 'head'"),
        (lambda members: members.pop("mcp_token"), "is no backup of a home, or is damaged"),
        (lambda members: members.pop(MANIFEST), "is no backup of a home, or is damaged"),
        (lambda members: rename(members, "../escape"), "path cannot be '../escape'"),
        (lambda members: rename(members, "/escape"), "path cannot be '/escape'"),
    ],
)
def test_a_changed_backup_is_refused(
    backup: Path, tmp_path: Path, change: Callable[[dict[str, bytes]], object], said: str
) -> None:
    result = enpire("home", "restore", changed(backup, change), tmp_path / "again")
    assert result.exit_code == 1
    assert said in result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backup.zip", "changed.zip", "home"]


def test_a_file_that_is_larger_than_the_manifest_says_is_not_written(
    backup: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int] = []
    real = home_backup._copied

    def copied(source: IO[bytes], target: IO[bytes]) -> tuple[str, int]:
        found = real(source, target)
        written.append(found[1])
        return found

    monkeypatch.setattr(home_backup, "_copied", copied)
    large = changed(backup, lambda members: spoil(members, "mcp_token", bytes(2**24)))
    with pytest.raises(FileProblem, match="mcp_token in .* was changed after it was written"):
        restore_home(large, tmp_path / "again", "ada", quiet)
    assert max(written) < 2**24


def test_a_cut_ledger_with_an_honest_hash_is_refused(home: Home, backup: Path, tmp_path: Path) -> None:
    """The manifest of a later backup, with the ledger of an earlier one."""
    with closing(SqliteLedger(home.ledger)) as ledger:
        append(ledger, [("note", {"campaign_id": "c1"})])
    back_up(home, tmp_path / "later.zip", quiet)
    with zipfile.ZipFile(tmp_path / "later.zip") as later:
        head = json.loads(later.read(MANIFEST))["head"]

    def forge(members: dict[str, bytes]) -> None:
        manifest = {**json.loads(members[MANIFEST]), "head": head}
        members[MANIFEST] = json.dumps(manifest).encode()

    with pytest.raises(FileProblem, match="ends with"):
        restore_home(changed(backup, forge), tmp_path / "again", "ada", quiet)
    assert not (tmp_path / "again").exists()


def test_a_missing_episode_is_said_and_the_rest_is_backed_up(home: Home, tmp_path: Path) -> None:
    with closing(open_to_read(home.ledger)) as ledger:
        assert ledger.head.seq
    (arrays,) = [
        path for path in home.episodes.glob("*/*/arrays.npz")
        if path.parent.name == min(one.parent.name for one in home.episodes.glob("*/*/arrays.npz"))
    ]  # fmt: skip
    arrays.write_bytes(b"rotten")
    backup = tmp_path / "backup.zip"
    result = enpire("home", "backup", backup, "--home", home.root)
    assert result.exit_code == 1
    assert "1 file of episodes" in result.stderr
    result = enpire("home", "restore", backup, tmp_path / "again")
    assert result.exit_code == 0, result.output
    assert "1 altered" in result.stdout


def test_a_damaged_ledger_gives_no_backup(home: Home, tmp_path: Path) -> None:
    with closing(sqlite3.connect(home.ledger)) as database, database:
        database.execute("UPDATE events SET body = '{}' WHERE seq = 1")
    with pytest.raises(LedgerProblem):
        back_up(home, tmp_path / "backup.zip", quiet)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home"]


def test_what_a_backup_would_overwrite_stays(home: Home, backup: Path, tmp_path: Path) -> None:
    before = backup.read_bytes()
    for target, said in (
        (backup, "exists already"), (home.root / "b.zip", "inside the home"), (tmp_path / "no" / "b.zip", "no folder"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=said):
            back_up(home, target, quiet)
    for folder in (home.root, backup):
        with pytest.raises(UsageError, match="not empty"):
            restore_home(backup, folder, "ada", quiet)
    assert backup.read_bytes() == before
    assert enpire("home", "restore", tmp_path / "nowhere.zip", tmp_path / "again").exit_code == 1


def test_the_command_line_says_what_it_did(home: Home, tmp_path: Path) -> None:
    result = enpire("home", "backup", tmp_path / "b.zip", "--home", home.root, "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["damaged"] == []
    result = enpire("home", "restore", tmp_path / "b.zip", tmp_path / "again")
    assert result.exit_code == 0, result.output
    assert f"which ends with {document['head']}." in result.stdout
    assert "The chain over 5 events is intact" in result.stdout
    assert f"enpire run CAMPAIGN --home {tmp_path / 'again'}" in result.stdout
    assert enpire("ledger", "verify", "--home", tmp_path / "again", "--expect", document["head"]).exit_code == 0
