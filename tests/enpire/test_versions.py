"""Policy versions: one id for the same files, published whole, refused when changed."""

from __future__ import annotations

from pathlib import Path

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enpire.errors import FileProblem
from enpire.versions import identify, manifest, pack, publish, unpack


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


def test_a_version_travels(version: Path, tmp_path: Path) -> None:
    target = tmp_path / "station" / "cache" / "v"
    assert unpack(pack(version), target) == identify(version) == identify(target)
    assert unpack(pack(version), target) == identify(version)
    (version / "policy.json").write_text('{"kind": "other"}')
    with pytest.raises(FileProblem, match="holds files that are not version"):
        unpack(pack(version), target)


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


_GOOD = ["policy.json", b'{"kind": "flow"}']


@pytest.mark.parametrize(
    "message",
    [
        [],
        {"schema": 2, "files": [_GOOD]},
        {"schema": 1},
        {"schema": 1, "files": []},
        {"schema": 1, "files": [_GOOD, _GOOD]},
        {"schema": 1, "files": [_GOOD, ["../escape", b""]]},
        {"schema": 1, "files": [_GOOD, ["a/b", b""]]},
        {"schema": 1, "files": [_GOOD, [".bashrc", b""]]},
        {"schema": 1, "files": [_GOOD, ["", b""]]},
        {"schema": 1, "files": [_GOOD, ["text", "not bytes"]]},
    ],
)
def test_a_hostile_message_writes_nothing(tmp_path: Path, message: object) -> None:
    with pytest.raises(FileProblem):
        unpack(msgpack.packb(message), tmp_path / "in" / "v")  # pyright: ignore[reportArgumentType]
    assert list(tmp_path.iterdir()) == []


@given(st.binary(max_size=200))
@settings(max_examples=100, deadline=None)
def test_noise_is_refused(noise: bytes) -> None:
    with pytest.raises(FileProblem):
        unpack(noise, Path("/nonexistent/never/written"))
