"""Versions and datasets over fsspec's memory and local file systems: whole, continued, or refused in one sentence."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from enpire.datasets import remote_files
from enpire.datasets.remote_files import (
    CARD,
    INCOMPLETE,
    MANIFEST,
    Manifest,
    Place,
    manifest_of,
    pull,
    push,
    read_manifest,
)
from enpire.errors import FileProblem, TransportProblem, UsageError

URL = "memory://shelf/net"


@pytest.fixture(autouse=True)
def memory() -> Iterator[Any]:
    """The memory file system, empty."""
    system: Any = fsspec.filesystem("memory")
    _clear(system)
    yield system
    _clear(system)


def _clear(system: Any) -> None:
    system.store.clear()
    system.pseudo_dirs[:] = [""]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A dataset of three files in two folders, and a hidden one."""
    made = tmp_path / "set"
    (made / "data" / "chunk-000").mkdir(parents=True)
    (made / "meta").mkdir()
    (made / "data" / "chunk-000" / "file-000.parquet").write_bytes(b"p" * 3000)
    (made / "meta" / "info.json").write_text("{}")
    (made / "meta" / "empty").write_text("")
    (made / ".cache").mkdir()
    (made / ".cache" / "lock").write_text("x")
    return made


@pytest.mark.parametrize("local", [True, False])
def test_what_was_pushed_is_pulled(folder: Path, tmp_path: Path, local: bool) -> None:
    url = str(tmp_path / "there" / "deep") if local else URL
    manifest = manifest_of(folder, "dataset")
    told: list[tuple[int, int]] = []
    assert push(folder, manifest, url, "# card", lambda done, total: told.append((done, total))) == 3002
    assert told[-1] == (3002, 3002)
    assert Place.at(url).read(CARD) == b"# card"
    found = read_manifest(url, "dataset")
    assert found == manifest
    pull(url, found, tmp_path / "back")
    assert manifest_of(tmp_path / "back", "dataset") == manifest
    assert not (tmp_path / "back" / ".cache").exists()
    assert push(folder, manifest, url, "# card") == 0


def test_a_killed_push_continues(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = manifest_of(folder, "dataset")
    real, calls = Place.put, list[str]()

    def dies(self: Place, path: Path, name: str) -> None:
        calls.append(name)
        if len(calls) == 2:
            raise KeyboardInterrupt
        real(self, path, name)

    monkeypatch.setattr(Place, "put", dies)
    with pytest.raises(KeyboardInterrupt):
        push(folder, manifest, URL)
    with pytest.raises(FileProblem, match="its copy was not finished; repeat the push"):
        read_manifest(URL, "dataset")
    push(folder, manifest, URL)
    assert len(calls) == 4  # the first file was not sent again
    assert read_manifest(URL, "dataset") == manifest
    assert Place.at(URL).read(INCOMPLETE) is None


def test_a_cut_list_of_arrived_files_only_costs_time(folder: Path) -> None:
    manifest = manifest_of(folder, "dataset")
    Place.at(URL).write(INCOMPLETE, b'{"id": "ab')
    assert push(folder, manifest, URL) == 3002
    assert read_manifest(URL, "dataset") == manifest


def test_a_file_that_arrived_short_is_sent_again(folder: Path, tmp_path: Path) -> None:
    manifest = manifest_of(folder, "dataset")
    place = Place.at(URL)
    name = "data/chunk-000/file-000.parquet"
    place.write(name, b"p" * 10)
    place.write(INCOMPLETE, json.dumps({"id": manifest.id, "files": [name]}).encode())
    push(folder, manifest, URL)
    pull(URL, read_manifest(URL, "dataset"), tmp_path / "back")


def test_nothing_else_is_replaced(folder: Path, tmp_path: Path) -> None:
    manifest = manifest_of(folder, "dataset")
    push(folder, manifest, URL)
    (folder / "meta" / "info.json").write_text('{"changed": 1}')
    other = manifest_of(folder, "dataset")
    with pytest.raises(UsageError, match="holds another dataset"):
        push(folder, other, URL)
    Place.at("memory://shelf/part").write(INCOMPLETE, json.dumps({"id": manifest.id, "files": []}).encode())
    with pytest.raises(UsageError, match="a part of something else"):
        push(folder, other, "memory://shelf/part")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("years of work")
    with pytest.raises(UsageError, match="is not empty"):
        push(folder, other, str(tmp_path / "full"))
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["thesis.tex"]


def test_a_file_that_changes_during_the_push_is_noticed(folder: Path) -> None:
    manifest = manifest_of(folder, "dataset")
    (folder / "data" / "chunk-000" / "file-000.parquet").write_bytes(b"q" * 3000)
    with pytest.raises(FileProblem, match="changed while it was copied"):
        push(folder, manifest, URL)
    assert Place.at(URL).read(MANIFEST) is None


@pytest.mark.parametrize("data", [b"p" * 2999 + b"q", b"p" * 10, b"p" * 9_000_000])
def test_a_damaged_file_is_not_kept(folder: Path, tmp_path: Path, data: bytes) -> None:
    push(folder, manifest_of(folder, "dataset"), URL)
    Place.at(URL).write("data/chunk-000/file-000.parquet", data)
    with pytest.raises(FileProblem, match="it is damaged there"):
        pull(URL, read_manifest(URL, "dataset"), tmp_path / "back")
    assert not list((tmp_path / "back").rglob("file-000*"))


def test_a_missing_file_is_named(folder: Path, tmp_path: Path, memory: Any) -> None:
    push(folder, manifest_of(folder, "dataset"), URL)
    memory.rm_file("/shelf/net/meta/info.json")
    with pytest.raises(FileProblem, match=r"has no meta/info\.json"):
        pull(URL, read_manifest(URL, "dataset"), tmp_path / "back")


def test_a_killed_pull_continues(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    push(folder, manifest_of(folder, "dataset"), URL)
    manifest, back = read_manifest(URL, "dataset"), tmp_path / "back"
    pull(URL, manifest, back)
    (back / "meta" / "info.json").write_text("changed")
    got: list[str] = []
    real = Place.get
    monkeypatch.setattr(
        Place, "get", lambda self, name, target, size: (got.append(name), real(self, name, target, size))[1]
    )
    pull(URL, manifest, back)
    assert got == ["meta/info.json"]
    assert manifest_of(back, "dataset") == manifest


@pytest.mark.parametrize(
    "path", ["../outside", "/etc/passwd", "a/../../b", ".hidden", "a//b", "a\\b", "", "a\0b", "x.part", "a" * 2000]
)
def test_a_name_that_leaves_the_folder_is_refused(path: str) -> None:
    text = {"schema": 1, "kind": "dataset", "id": "0" * 64, "files": [{"path": path, "bytes": 1, "sha256": "0" * 64}]}
    Place.at(URL).write(MANIFEST, json.dumps(text).encode())
    with pytest.raises(FileProblem, match="would not lie in its folder"):
        read_manifest(URL, "dataset")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"\xff{", "must be"), (b"[" * 200_000, "must be"), (b"{}", "schema|misses|needs|kind"),
        (b'{"schema": 2, "kind": "dataset", "id": "a", "files": []}', "has schema 2"),
        (b'{"schema": 1, "kind": "zip", "id": "a", "files": []}', "holds a zip"),
        (b'{"schema": 1, "kind": "dataset", "id": "a", "files": [{"path": "a", "bytes": -1, "sha256": ""}]}', "negat"),
        (b" " * (remote_files.LARGEST_MANIFEST + 1), "more than"),
    ],
)  # fmt: skip
def test_a_malformed_manifest_is_one_sentence(text: bytes, why: str) -> None:
    Place.at(URL).write(MANIFEST, text)
    with pytest.raises(UsageError, match=why) as caught:
        read_manifest(URL, "dataset")
    assert "\n" not in str(caught.value)


def test_a_file_cannot_be_the_folder_of_another(folder: Path) -> None:
    files = [{"path": path, "bytes": 0, "sha256": ""} for path in ("a", "a/b")]
    text = {"schema": 1, "kind": "dataset", "id": "0" * 64, "files": files}
    Place.at(URL).write(MANIFEST, json.dumps(text).encode())
    with pytest.raises(FileProblem, match="also the folder of another"):
        read_manifest(URL, "dataset")


def test_more_bytes_than_the_disk_has_are_refused_first(tmp_path: Path) -> None:
    free = shutil.disk_usage(tmp_path).free
    files = (remote_files.RemoteFile(path="a", bytes=free + 10**9, sha256=""),)
    huge = Manifest(schema=1, kind="dataset", id="0" * 64, files=files)
    with pytest.raises(FileProblem, match="needs .* bytes"):
        pull(URL, huge, tmp_path / "back")


def test_links_are_not_copied(folder: Path) -> None:
    (folder / "secret").symlink_to("/etc/passwd")
    with pytest.raises(FileProblem, match="neither a plain file nor a folder"):
        manifest_of(folder, "dataset")


def test_urls_that_nobody_speaks(folder: Path) -> None:
    with pytest.raises(UsageError, match="is no place for files"):
        Place.at("nonsense://x")
    with pytest.raises(TransportProblem, match="continues once it can"):
        push(folder, manifest_of(folder, "dataset"), str(folder / "meta" / "info.json" / "below"))
