"""The arrays file: any arrays come back bit by bit; any other bytes are refused with a sentence."""

from __future__ import annotations

import io
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as drawn

from enpire.errors import FileProblem
from enpire.store.arrays import pack, unpack
from enpire.types import EpisodeArrays
from tests.enpire.store.store_samples import some_arrays


@st.composite
def any_arrays(draw: st.DrawFn) -> EpisodeArrays:
    ticks, wide, acting = draw(st.integers(0, 9)), draw(st.integers(1, 5)), draw(st.integers(1, 4))
    return EpisodeArrays(
        state=draw(drawn.arrays(np.float32, (ticks + 1, wide))),
        action=draw(drawn.arrays(np.float32, (ticks, acting))),
        source=draw(drawn.arrays(np.uint8, (ticks,), elements=st.integers(0, 3))),
        chunk=draw(drawn.arrays(np.int32, (ticks,))),
    )


@given(any_arrays())
@settings(max_examples=40, deadline=None)
def test_arrays_come_back_bit_by_bit(arrays: EpisodeArrays) -> None:
    again = unpack(pack(arrays))
    for name in ("state", "action", "source", "chunk"):
        before, after = getattr(arrays, name), getattr(again, name)
        assert (before.dtype, before.shape, before.tobytes()) == (after.dtype, after.shape, after.tobytes())
    assert pack(again) == pack(arrays)


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_a_truncated_file_is_refused(data: st.DataObject) -> None:
    whole = pack(some_arrays())
    with pytest.raises(FileProblem):
        unpack(whole[: data.draw(st.integers(0, len(whole) - 1))])


@given(st.integers(0, 10**6), st.integers(1, 255))
@settings(max_examples=200, deadline=None)
def test_damaged_bytes_never_raise_anything_but_a_sentence(place: int, flip: int) -> None:
    damaged = bytearray(pack(some_arrays()))
    damaged[place % len(damaged)] ^= flip
    sentence = "It was read."
    try:
        unpack(bytes(damaged))
    except FileProblem as problem:
        sentence = str(problem)
    assert sentence.endswith(".")


@given(st.binary(max_size=300))
@settings(max_examples=100, deadline=None)
def test_noise_is_refused(noise: bytes) -> None:
    with pytest.raises(FileProblem):
        unpack(noise)


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("state", np.zeros((7, 3), np.float32), "with 7 frames it must be"),
        ("action", np.zeros((7, 0), np.float32), "hold action with shape"),
        ("action", np.zeros(7, np.float32), "hold action with shape"),
        ("source", np.full(7, 4, np.uint8), "source code 4; allowed are 0 to 3"),
        ("chunk", np.zeros((), np.int32), "it must be"),
        ("chunk", np.zeros(7, np.int64), "chunk as int64; it must be int32"),
    ],
)
def test_arrays_that_disagree_are_refused(field: str, value: np.ndarray, sentence: str) -> None:
    with pytest.raises(FileProblem, match=sentence):
        pack(replace(some_arrays(7), **{field: value}))


def _zipped(members: dict[str, np.ndarray], compression: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as file:
        for name, value in members.items():
            with file.open(f"{name}.npy", "w") as member:
                np.lib.format.write_array(member, value)
    return buffer.getvalue()


def _members() -> dict[str, np.ndarray]:
    arrays = some_arrays()
    return {"state": arrays.state, "action": arrays.action, "source": arrays.source, "chunk": arrays.chunk}


def test_forged_files_are_refused() -> None:
    assert unpack(_zipped(_members())).chunk.size == 7
    with pytest.raises(FileProblem, match="is compressed"):
        unpack(_zipped(_members(), zipfile.ZIP_DEFLATED))
    with pytest.raises(FileProblem, match="unknown members"):
        unpack(_zipped(_members() | {"more": np.zeros(3)}))
    with pytest.raises(FileProblem, match="it must be float32"):
        unpack(_zipped(_members() | {"state": np.array([{"pickled": 1}], dtype=object)}))
    with pytest.raises(FileProblem, match="not an arrays file"):
        unpack(_zipped({"state": np.zeros((3, 2), np.float32)}))


@pytest.mark.parametrize("place", [160, 32, 1], ids=["contents", "name", "signature"])
def test_a_member_that_differs_from_the_directory_is_refused(place: int) -> None:
    damaged = bytearray(_zipped(_members()))
    damaged[place] ^= 1
    with pytest.raises(FileProblem, match="its member state is damaged"):
        unpack(bytes(damaged))
    with pytest.raises((zipfile.BadZipFile, ValueError, KeyError)):
        np.load(io.BytesIO(damaged))["state"]


def test_an_encrypted_member_is_refused() -> None:
    whole = bytearray(_zipped(_members()))
    whole[whole.index(b"PK\x01\x02") + 8] |= 1
    with pytest.raises(FileProblem, match="its member state is compressed or encrypted"):
        unpack(bytes(whole))


def test_a_forged_shape_allocates_nothing() -> None:
    buffer = io.BytesIO(_zipped({name: value for name, value in _members().items() if name != "state"}))
    with zipfile.ZipFile(buffer, "a") as file, file.open("state.npy", "w") as member:
        header = {"descr": "<f4", "fortran_order": False, "shape": (2**62, 2**62)}
        np.lib.format.write_array_header_1_0(member, header)
        member.write(b"\0" * 96)
    with pytest.raises(FileProblem, match="not an arrays file"):
        unpack(buffer.getvalue())
