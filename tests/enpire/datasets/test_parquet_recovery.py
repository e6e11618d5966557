"""Parquet files without their contents: exactly the whole row groups come back, and damaged bytes do no harm."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from enpire.datasets import compact_thrift as thrift
from enpire.datasets.parquet_recovery import recover
from enpire.errors import FileProblem

arrow: Any = pyarrow
pq: Any = parquet
SCHEMA = arrow.schema(
    [
        ("flag", arrow.bool_()), ("state", arrow.list_(arrow.float32(), 3)), ("done", arrow.bool_()),
        ("note", arrow.string()), ("image", arrow.struct([("bytes", arrow.binary()), ("path", arrow.string())])),
        ("frame_index", arrow.int64()), ("episode_index", arrow.int64()), ("last", arrow.bool_()),
    ]
)  # fmt: skip


def _table(rows: int, episode: int) -> Any:
    made = np.random.default_rng(episode)
    columns = [
        made.integers(0, 2, rows).astype(bool), list(made.normal(size=(rows, 3)).astype(np.float32)),
        made.integers(0, 2, rows).astype(bool), [f"{n}" if n % 3 else None for n in range(rows)],
        [{"bytes": made.bytes(50), "path": None} for _ in range(rows)], np.arange(rows), np.full(rows, episode),
        made.integers(0, 2, rows).astype(bool),
    ]  # fmt: skip
    arrays = [arrow.array(one, type=field.type) for one, field in zip(columns, SCHEMA, strict=True)]
    return arrow.table(arrays, schema=SCHEMA)


def _killed(path: Path, tables: list[Any], **options: Any) -> list[int]:
    """Write the tables as row groups without the contents at the end; returns the end of each, in bytes."""
    whole = path.with_suffix(".whole")
    with pq.ParquetWriter(whole, SCHEMA, compression="snappy", use_dictionary=True, **options) as writer:
        for table in tables:
            writer.write_table(table)
    about = pq.ParquetFile(whole).metadata
    ends: list[int] = []
    for group in range(about.num_row_groups):
        last = about.row_group(group).column(about.num_columns - 1)
        first = last.dictionary_page_offset or last.data_page_offset
        ends.append(min(first, last.data_page_offset) + last.total_compressed_size)
    path.write_bytes(whole.read_bytes()[: ends[-1]])
    return ends


@pytest.mark.parametrize(
    "options", [{}, {"data_page_size": 300, "dictionary_pagesize_limit": 200}, {"data_page_version": "2.0"}],
    ids=["one page", "many pages, dictionary given up", "second kind of page"],
)  # fmt: skip
def test_all_rows_come_back(tmp_path: Path, options: dict[str, Any]) -> None:
    tables = [_table(rows, episode) for episode, rows in enumerate((5, 130, 1, 40))]
    _killed(tmp_path / "killed.parquet", tables, **options)
    with pytest.raises(arrow.ArrowInvalid):
        pq.ParquetFile(tmp_path / "killed.parquet")
    assert recover(tmp_path / "killed.parquet", SCHEMA, tmp_path / "back.parquet") == 4
    with pq.ParquetFile(tmp_path / "back.parquet") as found:
        assert found.metadata.num_rows == 176
        for group, table in enumerate(tables):
            assert found.read_row_group(group).equals(table)


def test_a_file_that_was_cut_anywhere_gives_the_row_groups_before_the_cut(tmp_path: Path) -> None:
    tables = [_table(rows, episode) for episode, rows in enumerate((5, 9, 7))]
    ends = _killed(tmp_path / "killed.parquet", tables)
    data = (tmp_path / "killed.parquet").read_bytes()
    chosen = random.Random(3).sample(range(len(data)), 60)
    for cut in sorted({0, 3, 4, *ends, *(end - 1 for end in ends), *(end + 1 for end in ends[:-1]), *chosen}):
        (tmp_path / "cut.parquet").write_bytes(data[:cut])
        whole = sum(end <= cut for end in ends)
        assert recover(tmp_path / "cut.parquet", SCHEMA, tmp_path / "back.parquet") == whole, cut
        if whole:
            found = pq.read_table(tmp_path / "back.parquet")
            assert found.equals(arrow.concat_tables(tables[:whole]))


def test_damaged_bytes_are_no_fault_of_another_kind(tmp_path: Path) -> None:
    _killed(tmp_path / "killed.parquet", [_table(rows, episode) for episode, rows in enumerate((5, 9, 7))])
    data = (tmp_path / "killed.parquet").read_bytes()
    chance = random.Random(5)
    for _ in range(150):
        damaged = bytearray(data)
        for _ in range(chance.randint(1, 4)):
            damaged[chance.randrange(len(data))] = chance.randrange(256)
        (tmp_path / "damaged.parquet").write_bytes(damaged)
        assert 0 <= recover(tmp_path / "damaged.parquet", SCHEMA, tmp_path / "back.parquet") <= 3


def test_columns_whose_rows_cannot_be_counted_are_refused(tmp_path: Path) -> None:
    (tmp_path / "killed.parquet").write_bytes(b"PAR1" + b"x" * 50)
    with pytest.raises(FileProblem, match="rows cannot be counted"):
        recover(tmp_path / "killed.parquet", arrow.schema([("flag", arrow.bool_())]), tmp_path / "back.parquet")


_LEAF = st.one_of(
    st.tuples(st.sampled_from([thrift.I16, thrift.I32, thrift.I64]), st.integers(-(2**63), 2**63 - 1)),
    st.tuples(st.just(thrift.BINARY), st.binary(max_size=300)),
    st.tuples(st.just(thrift.DOUBLE), st.binary(min_size=8, max_size=8)),
    st.sampled_from([(thrift.TRUE, True), (thrift.FALSE, False)]),
    st.tuples(
        st.just(thrift.LIST), st.tuples(st.just(thrift.I32), st.lists(st.integers(-(2**31), 2**31 - 1), max_size=20))
    ),
)
_STRUCT = st.dictionaries(
    st.integers(1, 200),
    st.one_of(_LEAF, st.tuples(st.just(thrift.STRUCT), st.dictionaries(st.integers(1, 99), _LEAF, max_size=3))),
    max_size=6,
)


@given(_STRUCT)
def test_what_was_written_is_read(fields: dict[int, tuple[int, Any]]) -> None:
    data = thrift.write(fields)
    assert thrift.read(b"xy" + data + b"z", 2) == (fields, len(data) + 2)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_struct_or_a_sentence(data: bytes) -> None:
    try:
        _, end = thrift.read(data, 0)
    except ValueError:
        return
    assert 0 < end <= len(data)


def test_lengths_are_checked_before_memory_is_taken() -> None:
    with pytest.raises(ValueError, match="list is longer"):
        thrift.read(b"\x19\xf5\xff\xff\xff\xff\x0f", 0)
    with pytest.raises(ValueError, match="text is longer"):
        thrift.read(b"\x18\xff\xff\xff\xff\x0f", 0)
    with pytest.raises(ValueError, match="too deep"):
        thrift.read(b"\x1c" * 100, 0)
    with pytest.raises(ValueError, match="too long"):
        thrift.read(b"\x16" + b"\xff" * 20, 0)
