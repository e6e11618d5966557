"""Recovers a parquet file whose writer was killed: the rows are there, the table of contents at its end is missing.

A parquet file is a row of pages, each with a header of its own, in the order of row groups and columns. The contents
(the footer) are written when the file is closed. When the columns are known, the pages can be counted off again:
every column chunk but one of truth values begins with a dictionary page, and all columns of a row group have the same
number of rows. What does not fit is left out, with everything behind it.
Source of the field numbers: https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

from enpire.datasets.compact_thrift import I64, LIST, STRUCT, Fields, read, write
from enpire.errors import FileProblem

_MAGIC = b"PAR1"
_DICTIONARY, _DATA, _DATA_2 = 2, 0, 3
_HEADERS = {_DATA: 5, _DICTIONARY: 7, _DATA_2: 8}
"""Type of a page -> field of its header with the number of values."""
_BOOLEAN = 0
_MOST_ROWS = 2**25


@dataclass(frozen=True, slots=True, kw_only=True)
class _Page:
    kind: int
    begin: int
    data: int
    """First byte behind its header."""
    end: int
    plain: int
    """Bytes before compression, without the header."""
    values: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Leaf:
    """A column of numbers, texts or truth values, as parquet counts columns."""

    about: Fields
    """Its entry in a table of contents, from an example file."""
    width: int | None
    """Values for each row; None where rows may differ."""
    truth: bool


def recover(path: Path, schema: Any, target: Path) -> int:
    """Write the whole row groups of a parquet file without contents to `target`.

    Args:
        path: the damaged file.
        schema: pyarrow schema with which it was written.
        target: new file; it is written only when there is a row group.

    Returns:
        Number of row groups. The reader of the file must still check them: damaged data within a page is not seen.

    Raises:
        FileProblem: the columns are such that pages cannot be told apart.
    """
    example = _example(schema)
    leaves = _leaves(example, schema)
    if path.stat().st_size <= len(_MAGIC):
        return 0
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if data[: len(_MAGIC)] != _MAGIC:
            return 0
        groups = list(_groups(list(_pages(data)), leaves, path))
        if not groups:
            return 0
        end = max(page.end for chunk in groups[-1] for page in chunk)
        contents = write(_contents(example, groups, leaves))
        with target.open("wb") as out:
            out.write(data[:end])
            out.write(contents + len(contents).to_bytes(4, "little") + _MAGIC)
    return len(groups)


def _pages(data: mmap.mmap) -> Iterator[_Page]:
    """The pages, up to the first that is not whole."""
    at = len(_MAGIC)
    while at < len(data):
        try:
            header, begin = read(data, at)
            kind, plain, size = (int(header[number][1]) for number in (1, 2, 3))
            values = int(header[_HEADERS[kind]][1][1][1])
        except (ValueError, KeyError, TypeError):
            return
        if min(plain, size, values) < 0 or begin + size > len(data):
            return
        yield _Page(kind=kind, begin=at, data=begin, end=begin + size, plain=plain, values=values)
        at = begin + size


def _groups(pages: Sequence[_Page], leaves: Sequence[_Leaf], path: Path) -> Iterator[list[list[_Page]]]:
    """Row groups, each a list of pages for every column."""
    counter = _counter(leaves)
    if counter is None:
        raise FileProblem(f"{path} has no two neighbouring columns of single numbers, so its rows cannot be counted.")
    begin = 0
    while begin < len(pages):
        found = _group(pages, begin, leaves, counter)
        if found is None:
            return
        yield found
        begin += sum(map(len, found))


def _counter(leaves: Sequence[_Leaf]) -> int | None:
    """Where, among the columns with a dictionary, is one of single values whose pages end at the next dictionary."""
    with_dictionary = 0
    for leaf, after in pairwise(leaves):
        if not leaf.truth and leaf.width == 1 and not after.truth:
            return with_dictionary
        with_dictionary += not leaf.truth
    return None


def _group(pages: Sequence[_Page], begin: int, leaves: Sequence[_Leaf], counter: int) -> list[list[_Page]] | None:
    """The pages of the row group that begins at a page; None where it is not whole."""
    heads = list(islice((n for n in range(begin, len(pages)) if pages[n].kind == _DICTIONARY), counter + 2))
    if len(heads) < counter + 2:
        return None
    rows = sum(page.values for page in pages[heads[counter] + 1 : heads[counter + 1]])
    if not 0 < rows <= _MOST_ROWS:
        return None
    chunks: list[list[_Page]] = []
    at = begin
    for leaf in leaves:
        chunk: list[_Page] = []
        if not leaf.truth:
            if at >= len(pages) or pages[at].kind != _DICTIONARY:
                return None
            chunk.append(pages[at])
        values, wanted = 0, None if leaf.width is None else rows * leaf.width
        while at + len(chunk) < len(pages) and (wanted is None or values < wanted):
            page = pages[at + len(chunk)]
            if page.kind == _DICTIONARY:
                break
            chunk.append(page)
            values += page.values
        if values < rows or (wanted is not None and values != wanted):
            return None
        chunks.append(chunk)
        at += len(chunk)
    return chunks


def _contents(example: Fields, groups: Sequence[Sequence[Sequence[_Page]]], leaves: Sequence[_Leaf]) -> Fields:
    """FileMetaData: that of the example with these row groups."""
    made: list[Fields] = []
    for group in groups:
        columns = [_column(leaf, chunk) for leaf, chunk in zip(leaves, group, strict=True)]
        size = sum(page.plain + page.data - page.begin for chunk in group for page in chunk)
        made.append({1: (LIST, (STRUCT, columns)), 2: (I64, size), 3: (I64, _rows(group, leaves))})
    rows = sum(int(group[3][1]) for group in made)
    return {**example, 3: (I64, rows), 4: (LIST, (STRUCT, made))}


def _rows(group: Sequence[Sequence[_Page]], leaves: Sequence[_Leaf]) -> int:
    single = next(n for n, leaf in enumerate(leaves) if leaf.width == 1)
    return sum(page.values for page in group[single] if page.kind != _DICTIONARY)


def _column(leaf: _Leaf, chunk: Sequence[_Page]) -> Fields:
    data = [page for page in chunk if page.kind != _DICTIONARY]
    about: dict[int, tuple[int, Any]] = {number: leaf.about[number] for number in (1, 2, 3, 4)}
    about[5] = I64, sum(page.values for page in data)
    about[6] = I64, sum(page.plain + page.data - page.begin for page in chunk)
    about[7] = I64, sum(page.end - page.begin for page in chunk)
    about[9] = I64, data[0].begin
    if chunk[0].kind == _DICTIONARY:
        about[11] = I64, chunk[0].begin
    return {2: (I64, 0), 3: (STRUCT, about)}


def _example(schema: Any) -> Fields:
    """The contents of a file with one row of this schema."""
    import pyarrow  # pyright: ignore[reportMissingTypeStubs]
    from pyarrow import parquet  # pyright: ignore[reportMissingTypeStubs]

    arrow: Any = pyarrow
    writer: Any = parquet
    buffer = arrow.BufferOutputStream()
    plain = [arrow.nulls(1, getattr(field.type, "storage_type", field.type)) for field in schema]
    columns = [
        arrow.ExtensionArray.from_storage(field.type, one) if hasattr(field.type, "storage_type") else one
        for field, one in zip(schema, plain, strict=True)
    ]
    # The same choices as LeRobot's writer.
    writer.write_table(arrow.table(columns, schema=schema), buffer, compression="snappy", use_dictionary=True)
    data = buffer.getvalue().to_pybytes()
    size = int.from_bytes(data[-8:-4], "little")
    return read(data, len(data) - 8 - size)[0]


def _leaves(example: Fields, schema: Any) -> list[_Leaf]:
    widths = [width for field in schema for width in _widths(field.type)]
    [group] = example[4][1][1]
    about = [column[3][1] for column in group[1][1][1]]
    return [
        _Leaf(about=one, width=width, truth=int(one[1][1]) == _BOOLEAN)
        for one, width in zip(about, widths, strict=True)
    ]


def _widths(kind: Any, rows: int | None = 1) -> list[int | None]:
    """Values for each row of the columns that a type becomes."""
    from pyarrow import types  # pyright: ignore[reportMissingTypeStubs]

    of: Any = types
    kind = getattr(kind, "storage_type", kind)
    if of.is_fixed_size_list(kind):
        return _widths(kind.value_type, None if rows is None else rows * kind.list_size)
    if of.is_list(kind) or of.is_large_list(kind):
        return _widths(kind.value_type, None)
    if of.is_struct(kind):
        return [width for field in kind for width in _widths(field.type, rows)]
    return [rows]
