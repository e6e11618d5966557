"""Policy versions: one id for the same files, published whole, refused when changed."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enpire.errors import FileProblem
from enpire.store.versions import identify, manifest, pack, publish, unpack


@pytest.fixture
def version(tmp_path: Path) -> Path:
    folder = tmp_path / "made"
    folder.mkdir()
    (folder / "policy.json").write_text('{"kind": "flow", "horizon": 8}')
    (folder / "weights.safetensors").write_bytes(bytes(range(256)) * 9)
    return folder


def test_publishing_keeps_the_files_under_their_id(version: Path, tmp_path: Path) -> None:
    root = tmp_path / "versions"
    policy_id = publish(version, root)
    assert policy_id == identify(version) == identify(root / policy_id)
    assert len(policy_id) == 64
    assert (root / policy_id / "weights.safetensors").read_bytes() == (version / "weights.safetensors").read_bytes()
    assert manifest(root / policy_id) == {"kind": "flow", "horizon": 8}
    assert publish(version, root) == policy_id
    assert [entry.name for entry in root.iterdir()] == [policy_id]


def test_the_id_covers_names_sizes_and_bytes(version: Path) -> None:
    seen = {identify(version)}
    (version / "weights.safetensors").rename(version / "weights2.safetensors")
    seen.add(identify(version))
    (version / "empty").touch()
    seen.add(identify(version))
    (version / "weights2.safetensors").write_bytes(b"")
    (version / "empty").write_bytes(bytes(range(256)) * 9)
    seen.add(identify(version))
    (version / "policy.json").write_text('{"kind": "flow", "horizon": 9}')
    seen.add(identify(version))
    assert len(seen) == 5


def row(folder: Path, part: int = 100) -> bytes:
    """A packed version, read in parts."""
    packed = pack(folder)
    return b"".join(packed.read(offset, part) for offset in range(0, packed.size, part))


@pytest.mark.parametrize("part", [1, 7, 100, 1000, 10_000])
def test_a_version_travels_in_parts_of_any_size(version: Path, tmp_path: Path, part: int) -> None:
    (version / "empty").touch()
    (tmp_path / "packed").write_bytes(row(version, part))
    target = tmp_path / "station" / "cache" / "v"
    assert pack(version).size == (tmp_path / "packed").stat().st_size
    assert unpack(tmp_path / "packed", target) == identify(version) == identify(target)
    with pytest.raises(FileProblem, match="exists already"):
        unpack(tmp_path / "packed", target)


def test_a_version_larger_than_memory_is_read_where_it_is_asked_for(version: Path) -> None:
    with (version / "vast.safetensors").open("wb") as file:
        file.truncate(2**33)
    (version / "zz").write_bytes(b"the end")
    packed = pack(version)
    assert packed.size > 2**33
    assert packed.read(packed.size - 2320, 3000).endswith(bytes(range(256)) * 9 + b"the end")


def test_no_version_is_held_in_memory(version: Path, tmp_path: Path) -> None:
    with (version / "vast.safetensors").open("wb") as file:
        file.truncate(2**26)
    (tmp_path / "packed").write_bytes(row(version, 2**20))
    tracemalloc.start()
    try:
        policy_id = publish(version, tmp_path / "versions")
        assert unpack(tmp_path / "packed", tmp_path / "unpacked") == policy_id
        assert tracemalloc.get_traced_memory()[1] < 2**23
    finally:
        tracemalloc.stop()


def test_a_changed_published_version_is_refused(version: Path, tmp_path: Path) -> None:
    policy_id = publish(version, tmp_path / "versions")
    (tmp_path / "versions" / policy_id / "weights.safetensors").write_bytes(b"poison")
    with pytest.raises(FileProblem, match="delete that folder"):
        publish(version, tmp_path / "versions")


def test_only_plain_files_are_a_version(version: Path, tmp_path: Path) -> None:
    with pytest.raises(FileProblem, match="There is no policy version at"):
        identify(tmp_path / "nowhere")
    (version / "link").symlink_to("/etc/hostname")
    with pytest.raises(FileProblem, match="not a plain file"):
        pack(version)
    (version / "link").unlink()
    (version / "inner").mkdir()
    with pytest.raises(FileProblem, match="not a plain file"):
        publish(version, tmp_path / "versions")
    (version / "inner").rmdir()
    (version / ".hidden").touch()
    with pytest.raises(FileProblem, match="no hidden files"):
        identify(version)


@pytest.mark.parametrize("text", ["[]", "{}", '{"kind": 3}', "{", "\xff"])
def test_a_manifest_must_name_its_kind(version: Path, text: str) -> None:
    (version / "policy.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(FileProblem, match=r"is not JSON|must be an object"):
        identify(version)
    (version / "policy.json").unlink()
    with pytest.raises(FileProblem, match=r"has no policy\.json"):
        manifest(version)


_KIND = b'{"kind": "flow"}'
_GOOD = ["policy.json", len(_KIND)]


def packed_as(listed: object, content: bytes) -> bytes:
    text = json.dumps(listed).encode()
    return len(text).to_bytes(8, "big") + text + content


@pytest.mark.parametrize(
    ("listed", "content"),
    [
        ([], b""),
        ({"schema": 1, "files": [_GOOD]}, _KIND),
        ({"schema": 2}, b""),
        ({"schema": 2, "files": []}, b""),
        ({"schema": 2, "files": [_GOOD, _GOOD]}, _KIND * 2),
        ({"schema": 2, "files": [_GOOD, ["../escape", 0]]}, _KIND),
        ({"schema": 2, "files": [_GOOD, ["a/b", 0]]}, _KIND),
        ({"schema": 2, "files": [_GOOD, [".bashrc", 0]]}, _KIND),
        ({"schema": 2, "files": [_GOOD, ["", 0]]}, _KIND),
        ({"schema": 2, "files": [_GOOD, ["text", "2"]]}, _KIND + b"ab"),
        ({"schema": 2, "files": [_GOOD, ["less", -1]]}, _KIND[:-1]),
        ({"schema": 2, "files": [_GOOD, ["more", 10**30]]}, _KIND),
        ({"schema": 2, "files": [_GOOD]}, _KIND + b"x"),
        ({"schema": 2, "files": [_GOOD]}, _KIND[:-1]),
        ({"schema": 2, "files": [_GOOD]}, b'{"kind":  flow }'),
        ({"schema": 2, "files": [["policy.json", 2**24]]}, bytes(2**24)),
    ],
)
def test_a_hostile_row_writes_nothing(tmp_path: Path, listed: object, content: bytes) -> None:
    (tmp_path / "packed").write_bytes(packed_as(listed, content))
    with pytest.raises(FileProblem):
        unpack(tmp_path / "packed", tmp_path / "in" / "v")
    assert [path.name for path in tmp_path.iterdir()] == ["packed"]


@given(st.binary(max_size=200))
@settings(max_examples=100, deadline=None)
def test_noise_is_refused(tmp_path: Path, noise: bytes) -> None:
    (tmp_path / "packed").write_bytes(noise)
    with pytest.raises(FileProblem):
        unpack(tmp_path / "packed", Path("/nonexistent/never/written"))
