"""The evidence of a campaign in one file: another machine checks it, and each change of it shows."""

from __future__ import annotations

import json
import zipfile
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner, Result

from enpire.cli import app
from enpire.errors import FileProblem, LedgerProblem, StorageFull, UsageError
from enpire.home import open_home
from enpire.store.episodes import FolderStore
from enpire.store.evidence_file import LEDGER, MANIFEST, opened_evidence, write_evidence
from enpire.store.ledger import SqliteLedger, open_to_read
from tests.enpire.store.store_samples import a_recording, an_order, ended, issued
from tests.fakes.sample_events import append


def enpire(*words: str | Path) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with one recorded episode."""
    folder = open_home(tmp_path / "home").root
    episode, data = a_recording(an_order())
    with closing(SqliteLedger(folder / "ledger.db")) as ledger:
        append(ledger, [("campaign started", {"campaign_id": "c1", "name": "n", "task": "t"}), issued(episode.order)])
        FolderStore(folder / "episodes").put(episode, data)
        append(ledger, [ended(episode)])
    return folder


@pytest.fixture
def evidence(home: Path, tmp_path: Path) -> Path:
    path = tmp_path / "evidence.zip"
    with closing(open_to_read(home / "ledger.db")) as ledger:
        write_evidence(ledger, "c1", path, "1.0")
    return path


def changed(evidence: Path, name: str, content: bytes) -> Path:
    """A copy of the file whose member `name` has another content."""
    copy = evidence.with_name("changed.zip")
    with zipfile.ZipFile(evidence) as old, zipfile.ZipFile(copy, "w") as new:
        for member in {*old.namelist(), name}:
            new.writestr(member, content if member == name else old.read(member))
    return copy


def member(evidence: Path, name: str) -> bytes:
    with zipfile.ZipFile(evidence) as members:
        return members.read(name)


def test_another_machine_verifies_it(home: Path, evidence: Path, tmp_path: Path) -> None:
    head = enpire("ledger", "head", "--home", home).stdout.strip()
    home.rename(tmp_path / "gone")
    result = enpire("ledger", "verify", evidence)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("The chain over 3 events is intact, and 1 order equals its events.\n")
    assert "It ends with the expected head.\n" in result.stdout
    assert f"Head of the ledger: {head}\n" in result.stdout
    assert enpire("ledger", "recompute", evidence).exit_code == 0
    with opened_evidence(evidence) as (folder, manifest):
        assert (manifest.campaign, manifest.head, manifest.code) == ("c1", head, "1.0")
        assert sorted(item.name for item in folder.iterdir()) == [LEDGER]
        assert len(manifest.hmac) == 64
    assert not folder.exists()


def test_equal_ledgers_give_equal_files(home: Path, evidence: Path, tmp_path: Path) -> None:
    with closing(open_to_read(home / "ledger.db")) as ledger:
        write_evidence(ledger, "c1", tmp_path / "again.zip", "1.0")
    assert (tmp_path / "again.zip").read_bytes() == evidence.read_bytes()


def test_a_changed_ledger_shows(evidence: Path) -> None:
    data = bytearray(member(evidence, LEDGER))
    data[len(data) // 2] ^= 1
    with (
        pytest.raises(LedgerProblem, match="was changed after it was written"),
        opened_evidence(changed(evidence, LEDGER, bytes(data))),
    ):
        pass


def test_a_cut_ledger_with_a_new_checksum_shows(home: Path, evidence: Path, tmp_path: Path) -> None:
    """An honest manifest of a longer ledger beside a shorter one: its head is missing."""
    with closing(SqliteLedger(home / "ledger.db")) as ledger:
        append(ledger, [("note", {"campaign_id": "c1"})])
        write_evidence(ledger, "c1", tmp_path / "longer.zip", "1.0")
    longer, shorter = (json.loads(member(path, MANIFEST)) for path in (tmp_path / "longer.zip", evidence))
    forged = changed(evidence, MANIFEST, json.dumps({**longer, "sha256": shorter["sha256"]}).encode())
    result = enpire("ledger", "verify", forged)
    assert result.exit_code == 1
    assert "Head of the ledger" not in result.stdout or "expected" in result.output


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("../escape", b"x", "must hold ledger.db and manifest.json alone"),
        (MANIFEST, b"{", "is no evidence file, or is damaged"),
        (MANIFEST, b"[" * 60000, "is no evidence file, or is damaged"),
        (MANIFEST, b"{}", "lacks the key 'campaign'"),
    ],
)
def test_hostile_files_get_one_sentence(evidence: Path, name: str, content: bytes, said: str) -> None:
    result = enpire("ledger", "recompute", changed(evidence, name, content))
    assert result.exit_code == 1
    assert said in result.stderr
    assert "Traceback" not in result.output


def test_what_is_no_evidence_file_gets_one_sentence(home: Path, evidence: Path, tmp_path: Path) -> None:
    (tmp_path / "cut.zip").write_bytes(evidence.read_bytes()[:-100])
    for path in (tmp_path / "cut.zip", tmp_path / "nowhere.zip", tmp_path):
        with pytest.raises(FileProblem), opened_evidence(path):
            pass
    assert enpire("ledger", "verify", evidence, "--home", home).exit_code == 1
    with closing(open_to_read(home / "ledger.db")) as ledger, pytest.raises(UsageError, match="exists already"):
        write_evidence(ledger, "c1", evidence, "1.0")


def test_a_ledger_that_does_not_fit_is_not_unpacked(evidence: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = SimpleNamespace(free=1000)
    monkeypatch.setattr("enpire.store.evidence_file.shutil.disk_usage", lambda _place: small)
    with pytest.raises(FileProblem, match="unpacks to"), opened_evidence(evidence):
        pass


def test_a_full_disk_leaves_no_file(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_given: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("enpire.store.evidence_file.shutil.copyfileobj", full)
    with closing(open_to_read(home / "ledger.db")) as ledger, pytest.raises(StorageFull):
        write_evidence(ledger, "c1", tmp_path / "full.zip", "1.0")
    assert sorted(item.name for item in tmp_path.iterdir()) == ["home"]
