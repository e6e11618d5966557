"""One file with what the cameras saw: read back as written, and refused where no station wrote it so."""

from __future__ import annotations

import hashlib
import io
import resource
import signal
import struct
import warnings
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from enpire.errors import FileProblem, StorageFull
from enpire.store import pictures
from enpire.store.pictures import Pictures, PicturesWriter, keep
from enpire.types import ImageArray


def image(value: int, height: int = 24, width: int = 32) -> ImageArray:
    """A smooth picture, which JPEG keeps to a few levels."""
    ramp = np.linspace(0, 200, width, dtype=np.uint8)
    return np.stack([np.tile(ramp, (height, 1)), np.full((height, width), value, np.uint8)] * 2, -1)[..., :3].copy()


def zipped(path: Path, members: dict[str, bytes], compression: int = zipfile.ZIP_STORED, comment: bytes = b"") -> Path:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name), data, compression)
        archive.comment = comment
    return path


def test_what_was_written_as_it_went_is_read_at_any_place(tmp_path: Path) -> None:
    path = tmp_path / "E1.pictures"
    writer = PicturesWriter(path)
    for tick in range(30):
        writer.add("front", tick, image(tick))
        writer.add("left_wrist.2", tick, image(255 - tick, 48, 64), "png" if tick % 2 else "jpg")
    assert not path.exists()
    assert writer.finish() == hashlib.sha256(path.read_bytes()).hexdigest()
    writer.discard()
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
    found = Pictures(path)
    assert found.cameras == ("front", "left_wrist.2")
    assert found.names[:2] == ("front_00000.jpg", "front_00001.jpg")
    assert len(found.names) == 60
    for tick in (17, 0, 29):
        assert np.abs(found.picture("front", tick).astype(int) - image(tick)).max() <= 8
        assert found.bytes_of(f"front_{tick:05d}.jpg") == found.data("front", tick)
    np.testing.assert_array_equal(found.picture("left_wrist.2", 7), image(248, 48, 64))
    assert found.has("front", 29)
    assert not found.has("front", 30)
    assert not found.has("top", 0)
    with pytest.raises(
        FileProblem, match=r"no image of front before command 30; it has images of front, left_wrist\.2"
    ):
        found.picture("front", 30)
    with pytest.raises(FileProblem, match="is no name of an image"):
        found.bytes_of("../../etc/passwd")


def test_without_loss_and_with_gaps(tmp_path: Path) -> None:
    frames = [{"top": image(tick)} if tick in (0, 3, 4) else {} for tick in range(5)]
    (tmp_path / "E1").mkdir()
    keep(tmp_path / "E1" / pictures.NAME, frames)
    assert pictures.cameras_of(tmp_path / "E1") == ("top",)
    assert pictures.cameras_of(tmp_path) == ()
    found = Pictures(tmp_path / "E1" / pictures.NAME)
    assert [found.has("top", tick) for tick in range(5)] == [True, False, False, True, True]
    np.testing.assert_array_equal(found.picture("top", 3), image(3))


def test_what_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(FileProblem, match="a camera is named with at most 64 letters"):
        keep(tmp_path / "a", [{"../x": image(0)}])
    with pytest.raises(FileProblem, match="float64 of shape"):
        keep(tmp_path / "a", [{"top": np.zeros((4, 4, 3))}])  # pyright: ignore[reportArgumentType]
    with pytest.raises(FileProblem, match="Cannot write"):
        PicturesWriter(tmp_path / "nowhere" / "a")
    assert not list(tmp_path.iterdir())


def test_a_full_disk_is_said_and_leaves_nothing(tmp_path: Path) -> None:
    # A limit on file size stands for the full disk: the write is refused by the kernel in the same place.
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    noise = np.random.default_rng(0).integers(0, 255, (200, 200, 3), np.uint8)
    resource.setrlimit(resource.RLIMIT_FSIZE, (65536, before[1]))
    try:
        with pytest.raises(StorageFull, match="Free some space"):
            keep(tmp_path / "a", ({"top": noise} for _ in range(10)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert not list(tmp_path.iterdir())


ONE = pictures.png(image(1))


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ({"../top_00000.png": ONE}, "is no stored image"),
        ({"top_0.png": ONE}, "is no stored image"),
        ({"top_00000.gif": ONE}, "is no stored image"),
        ({"top_00000.png": b""}, "has 0 bytes"),
        ({f"top_{index:05d}_{'x' * 200}.png": ONE for index in range(3)}, "which no station writes"),
    ],
)
def test_a_file_that_no_station_writes_is_refused(tmp_path: Path, members: dict[str, bytes], said: str) -> None:
    with pytest.raises(FileProblem, match=said):
        Pictures(zipped(tmp_path / "a", members))


def test_bombs_and_tricks_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with pytest.raises(FileProblem, match="is no stored image"):
        Pictures(zipped(path, {"top_00000.png": b"\0" * 10**6}, zipfile.ZIP_DEFLATED))
    with pytest.raises(FileProblem, match="does not end as"):
        Pictures(zipped(path, {"top_00000.png": ONE}, comment=b"hello"))
    with warnings.catch_warnings(action="ignore"), zipfile.ZipFile(path, "w") as archive:
        archive.writestr("top_00000.png", ONE)
        archive.writestr("top_00000.png", ONE)
    with pytest.raises(FileProblem, match="two members of one name"):
        Pictures(path)
    with pytest.raises(FileProblem, match="has 16777217 bytes"):
        Pictures(zipped(path, {"top_00000.png": b"\0" * (2**24 + 1)}))
    whole = zipped(path, {"top_00000.png": ONE}).read_bytes()
    path.write_bytes(whole[:-22] + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 65535, 65535, 2**31, 0, 0))
    with pytest.raises(FileProblem, match="its directory of 65535 members"):
        Pictures(path)
    path.write_bytes(whole[:-22] + b"PK\6\7" + b"\0" * 16 + whole[-22:])
    with pytest.raises(FileProblem, match="does not end as"):
        Pictures(path)
    for data in (b"", b"PK"):
        path.write_bytes(data)
        with pytest.raises(FileProblem, match="does not end as"):
            Pictures(path)
    with pytest.raises(FileProblem, match="cannot be read"):
        Pictures(tmp_path / "missing")


def test_a_picture_is_looked_at_before_it_is_decoded(tmp_path: Path) -> None:
    header = b"IHDR" + struct.pack(">IIBBBBB", 30_000, 30_000, 8, 2, 0, 0, 0)
    bomb = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + header + struct.pack(">I", zlib.crc32(header))
    bomb += struct.pack(">I", 0) + b"IEND" + struct.pack(">I", zlib.crc32(b"IEND"))
    buffer = io.BytesIO()
    from PIL import Image

    Image.fromarray(image(1)).save(buffer, "GIF")
    path = zipped(
        tmp_path / "a", {"a_00000.png": bomb, "a_00001.jpg": buffer.getvalue(), "a_00002.jpg": ONE[: len(ONE) // 2]}
    )
    found = Pictures(path)
    with warnings.catch_warnings(action="ignore", category=Image.DecompressionBombWarning):
        for tick in range(3):
            with pytest.raises(FileProblem, match=f"before command {tick} in"):
                found.picture("a", tick)
    damaged = bytearray(path.read_bytes())
    damaged[60] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(FileProblem, match="is damaged"):
        found.data("a", 0)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_bytes_do_more_than_a_sentence(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "a"
    content = bytearray(zipped(path, {f"top_{tick:05d}.png": ONE for tick in range(3)}).read_bytes())
    for at in data.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=6)):
        content[at] = data.draw(st.integers(0, 255))
    path.write_bytes(content[: data.draw(st.integers(len(content) - 60, len(content)))])
    with warnings.catch_warnings(action="ignore"):
        try:
            found = Pictures(path)
            for camera in found.cameras:
                for tick in range(3):
                    found.picture(camera, tick)
        except FileProblem as said:
            assert str(path) in str(said)  # noqa: PT017 - either way is right
    path.unlink()


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200), st.booleans(), st.integers(0, 400))
def test_no_bytes_of_a_picture_do_more_than_an_oserror(noise: bytes, jpeg: bool, at: int) -> None:
    good = bytearray(pictures.jpeg(image(3)) if jpeg else ONE)
    good[at : at + len(noise)] = noise
    with warnings.catch_warnings(action="ignore"):
        try:
            assert pictures.opened(bytes(good)).shape[2] == 3
        except OSError as said:
            assert str(said)  # noqa: PT017 - either way is right
