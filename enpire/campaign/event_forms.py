"""Converts events to the plain values that the ledger stores, and back: one reader and one writer for all classes.

The field names of a class are the keys of the stored form. `stored` marks a field whose stored key is an older word;
`OPTIONAL` marks a field that is not stored while it has its default value.
"""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, ClassVar, Self, cast

from enpire.campaign.recipe import Recipe
from enpire.codec import order_fields, read_order, read_result, result_fields
from enpire.errors import FileProblem
from enpire.files import parse, plain, shown
from enpire.types import Json, Order, OrderResult

OPTIONAL: dict[str, Json] = {"optional": True}
"""Metadata of a field that is not stored while it has its default value."""

type Reader = Callable[[object, str], object]
"""(plain value, its place in the body) -> the typed value; raises FileProblem."""


def stored(key: str) -> dict[str, Json]:
    """Metadata of a field whose stored key is another, older word."""
    return {"key": key}


class EventBase:
    """Base of every event: its kind, the version of its form, and the stored form."""

    __slots__ = ()
    KIND: ClassVar[str]
    """Name of the kind in the ledger."""
    VERSION: ClassVar[int] = 1
    """Version of the body's form; `enpire.campaign.event_upgrades` converts older forms to this one."""

    def body(self) -> dict[str, Json]:
        """The stored form, without the campaign's id."""
        found: dict[str, Json] = {}
        for item in _form(type(self)):
            value: object = getattr(self, item.name)
            if not (item.optional and value == item.default):
                found[item.key] = _plain(value)
        return found

    @classmethod
    def read(cls, body: Mapping[str, Json]) -> Self:
        """The event of a stored body of the present version; unknown keys are ignored.

        Raises:
            FileProblem: a key is missing, or its value is not of the field's type.
        """
        values: dict[str, object] = {}
        for item in _form(cls):
            if item.key in body:
                values[item.name] = item.reader(body[item.key], item.key)
            elif not item.optional:
                raise FileProblem(f"it lacks the key {item.key!r}.")
        return cls(**values)


@dataclasses.dataclass(frozen=True, slots=True)
class _Item:
    """One field of an event's class."""

    name: str
    key: str
    optional: bool
    default: object
    reader: Reader


@cache
def _form(cls: type[EventBase]) -> tuple[_Item, ...]:
    hints = typing.get_type_hints(cls)
    return tuple(
        _Item(
            name=item.name,
            key=str(item.metadata.get("key", item.name)),
            optional=bool(item.metadata.get("optional")),
            default=item.default if item.default_factory is dataclasses.MISSING else item.default_factory(),
            reader=_reader(hints[item.name]),
        )
        for item in dataclasses.fields(cast("Any", cls))
    )


def _plain(value: object) -> Json:
    """Typed values as plain values; orders, results and recipes in their own forms."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Order):
        return order_fields(value)
    if isinstance(value, OrderResult):
        return result_fields(value)
    if isinstance(value, Recipe):
        return cast("Json", value.mapping() | ({"space": plain(value.space)} if value.space else {}))
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in cast("Mapping[object, object]", value).items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in cast("Iterable[object]", value)]
    return cast("Json", plain(value))


def _reader(hint: object) -> Reader:
    """The reader for the values of a field of this type."""
    hint = hint.__value__ if isinstance(hint, typing.TypeAliasType) else hint
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Order:
        return lambda value, _: read_order(value, FileProblem)
    if hint is OrderResult:
        return lambda value, _: read_result(value, FileProblem)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return lambda value, where: parse(hint, value, where)
    if origin is typing.Literal:
        return _choice(arguments)
    if origin is tuple:
        return _list(_reader(arguments[0]))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping(_reader(arguments[1]) if arguments[1] is not Json else _anything)
    if origin in (types.UnionType, typing.Union):
        return _union([_reader(argument) for argument in arguments if argument is not types.NoneType], arguments)
    return _scalar(cast("type", hint))


def _anything(value: object, where: str) -> object:
    return value


def _choice(allowed: tuple[object, ...]) -> Reader:
    def read(value: object, where: str) -> object:
        if value not in allowed:
            raise FileProblem(f"{where} must be one of {', '.join(map(repr, allowed))}, not {shown(value)}.")
        return value

    return read


def _list(item_reader: Reader) -> Reader:
    def read(value: object, where: str) -> object:
        if not isinstance(value, list | tuple):
            raise FileProblem(f"{where} must be a list of items, not {shown(value)}.")
        return tuple([item_reader(item, where) for item in cast("Iterable[object]", value)])

    return read


def _mapping(item_reader: Reader) -> Reader:
    def read(value: object, where: str) -> object:
        if not isinstance(value, dict):
            raise FileProblem(f"{where} must be a mapping of keys to values, not {shown(value)}.")
        items = cast("Mapping[object, object]", value).items()
        return {str(key): item_reader(item, f"{where}, key {str(key)!r}") for key, item in items}

    return read


def _union(readers: list[Reader], arguments: tuple[object, ...]) -> Reader:
    def read(value: object, where: str) -> object:
        if value is None and types.NoneType in arguments:
            return None
        for reader in readers[:-1]:
            try:
                return reader(value, where)
            except FileProblem:
                continue
        return readers[-1](value, where)

    return read


_NAMES = {str: "text", int: "a whole number", float: "a finite number", bool: "true or false"}


def _scalar(wanted: type) -> Reader:
    """Text, numbers, booleans. A float field keeps an int as an int, so that it is written back in the same form."""
    allowed = (int, float) if wanted is float else wanted

    def read(value: object, where: str) -> object:
        odd = isinstance(value, bool) and wanted is not bool
        if odd or not isinstance(value, allowed) or (isinstance(value, float) and not math.isfinite(value)):
            raise FileProblem(f"{where} must be {_NAMES[wanted]}, not {shown(value)}.")
        return value

    return read
