"""Thrift's compact protocol, as far as parquet uses it: structs of numbers, texts, lists and structs.

pyarrow reads and writes it only inside whole parquet files, and the libraries that do more are compiled and trust their
input. Here every length is checked against the data, because the data may be damaged.
Source: https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from mmap import mmap
from typing import Any

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, STRUCT = 1, 2, 3, 4, 5, 6, 7, 8, 9, 12
_DEEPEST, _LONGEST_VARINT = 16, 10
Fields = Mapping[int, tuple[int, Any]]
"""Id of a field -> (type, value). A list is (type of its items, items), a struct is Fields, a text is bytes."""


def read(data: bytes | mmap, at: int) -> tuple[Fields, int]:
    """The struct that begins at a byte, and the byte behind it.

    Args:
        data: bytes, or a map of a file.
        at: byte at which the struct begins.

    Raises:
        ValueError: there is no struct.
    """
    reader = _Reader(data=data, at=at)
    try:
        return reader.fields(0), reader.at
    except IndexError as error:
        raise ValueError("the data ends within a struct") from error


def write(fields: Fields) -> bytes:
    """The bytes of a struct."""
    out, before = bytearray(), 0
    for number, (kind, value) in sorted(fields.items()):
        if 0 < number - before < 16:
            out.append((number - before) << 4 | kind)
        else:
            out += bytes([kind]) + _zigzag(number)
        before = number
        out += b"" if kind in {TRUE, FALSE} else _value(kind, value)
    return bytes(out) + b"\0"


def _value(kind: int, value: Any) -> bytes:
    if kind in {I16, I32, I64}:
        return _zigzag(value)
    if kind == BINARY:
        return _varint(len(value)) + value
    if kind == STRUCT:
        return write(value)
    if kind == LIST:
        of, items = value
        head = bytes([len(items) << 4 | of]) if len(items) < 15 else bytes([0xF0 | of]) + _varint(len(items))
        return head + b"".join(bytes([item]) if of in {TRUE, FALSE} else _value(of, item) for item in items)
    return bytes(value) if kind == DOUBLE else bytes([value])


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _zigzag(value: int) -> bytes:
    return _varint(value << 1 if value >= 0 else (-value << 1) - 1)


@dataclass(slots=True)
class _Reader:
    data: bytes | mmap
    at: int

    def fields(self, depth: int) -> Fields:
        if depth > _DEEPEST:
            raise ValueError("structs lie too deep in each other")
        found: dict[int, tuple[int, Any]] = {}
        number = 0
        while head := self._byte():
            kind, step = head & 0x0F, head >> 4
            number = number + step if step else self._signed()
            found[number] = kind, (kind == TRUE if kind in {TRUE, FALSE} else self._value(kind, depth))
        return found

    def _value(self, kind: int, depth: int) -> Any:
        if kind in {I16, I32, I64}:
            return self._signed()
        if kind == BYTE:
            return self._byte()
        if kind == DOUBLE:
            return self._bytes(8)
        if kind == BINARY:
            return self._bytes(self._unsigned())
        if kind == STRUCT:
            return self.fields(depth + 1)
        if kind == LIST:
            return self._list(depth)
        raise ValueError(f"there is no type {kind}")

    def _list(self, depth: int) -> tuple[int, list[Any]]:
        head = self._byte()
        of, count = head & 0x0F, head >> 4
        count = self._unsigned() if count == 15 else count
        if depth > _DEEPEST or count > len(self.data) - self.at:
            raise ValueError("a list is longer than the data")
        return of, [self._byte() if of in {TRUE, FALSE} else self._value(of, depth + 1) for _ in range(count)]

    def _byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def _bytes(self, count: int) -> bytes:
        if count > len(self.data) - self.at:
            raise ValueError("a text is longer than the data")
        self.at += count
        return bytes(self.data[self.at - count : self.at])

    def _unsigned(self) -> int:
        value = 0
        for place in range(_LONGEST_VARINT):
            byte = self._byte()
            value |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                return value
        raise ValueError("a number is too long")

    def _signed(self) -> int:
        value = self._unsigned()
        return value >> 1 if value % 2 == 0 else -((value + 1) >> 1)
