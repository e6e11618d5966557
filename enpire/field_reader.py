"""Reads the fields of decoded content one by one; an error names the field that is missing or wrong."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from typing import Self, cast

from enpire.errors import EnpireError, TransportProblem
from enpire.ids import NAME_FORM, is_file_name

WHOLE_MAX = 2**63 - 1
LIST_MAX = 4096
NUMBER_MAX = 1e18


class Fields:
    """A mapping from outside, read field by field; every refusal is a `problem` that names the field."""

    __slots__ = ("_content", "_problem", "_where")

    def __init__(self, content: object, where: str, problem: type[EnpireError] = TransportProblem) -> None:
        if not isinstance(content, dict):
            raise problem(f"{where} must be a mapping of fields, not {type(content).__name__}.")
        self._content = cast("Mapping[object, object]", content)
        self._where = where
        self._problem = problem

    def __contains__(self, name: str) -> bool:
        return name in self._content

    def only(self, names: frozenset[str]) -> Self:
        """Refuse any other field than these; returns the fields."""
        if unknown := self._content.keys() - names:
            shown = ", ".join(sorted(reprlib.repr(name) for name in unknown))
            raise self._problem(f"{self._where} has the unknown field {shown}; known are: {', '.join(sorted(names))}.")
        return self

    def get(self, name: str) -> object:
        """The raw value; missing is a refusal."""
        try:
            return self._content[name]
        except KeyError:
            raise self._problem(f"{self._where} lacks the field {name!r}.") from None

    def refuse(self, name: str, wanted: str) -> EnpireError:
        """The error that says that a field is not what it must be."""
        value = self._content.get(name)
        shown = repr(value[:40]) if isinstance(value, str | bytes) else reprlib.repr(value)
        shown = shown if len(shown) <= 40 else shown[:37] + "..."
        return self._problem(f"{self._where}, field {name!r}, must be {wanted}, not {shown}.")

    def text(self, name: str, longest: int = 4096) -> str:
        """Text of at most `longest` characters."""
        value = self.get(name)
        if not isinstance(value, str) or len(value) > longest:
            raise self.refuse(name, f"text of at most {longest} characters")
        return value

    def letters(self, name: str) -> str:
        """At most 64 letters and digits."""
        value = self.text(name, 64)
        if value and not (value.isascii() and value.isalnum()):
            raise self.refuse(name, "letters and digits")
        return value

    def identifier(self, name: str) -> str:
        """Text that may become a file name (`enpire.ids.NAME_FORM`)."""
        value = self.get(name)
        if not isinstance(value, str) or not is_file_name(value):
            raise self.refuse(name, NAME_FORM)
        return value

    def identifier_or_empty(self, name: str) -> str:
        """An identifier, or empty text."""
        return "" if self.get(name) == "" else self.identifier(name)

    def whole(self, name: str, low: int = 0, high: int = WHOLE_MAX) -> int:
        """A whole number in [low, high]."""
        value = self.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise self.refuse(name, f"a whole number from {low} to {high}")
        return value

    def number(self, name: str, low: float = -NUMBER_MAX, high: float = NUMBER_MAX) -> float:
        """A finite number in [low, high]."""
        value = self.get(name)
        if not isinstance(value, int | float) or isinstance(value, bool) or not low <= value <= high:
            raise self.refuse(name, f"a number from {low:g} to {high:g}")
        return float(value)

    def flag(self, name: str) -> bool:
        """True or false."""
        value = self.get(name)
        if not isinstance(value, bool):
            raise self.refuse(name, "true or false")
        return value

    def data(self, name: str) -> bytes:
        """Raw bytes."""
        value = self.get(name)
        if not isinstance(value, bytes):
            raise self.refuse(name, "bytes")
        return value

    def choice[T: str](self, name: str, allowed: Sequence[T]) -> T:
        """One of the words allowed."""
        value = self.get(name)
        for word in allowed:
            if value == word:
                return word
        raise self.refuse(name, "one of " + ", ".join(repr(str(word)) for word in allowed))

    def identifiers(self, name: str, most: int = LIST_MAX) -> tuple[str, ...]:
        """A list of identifiers."""
        return tuple(self._alone(name, item).identifier(name) for item in self.items(name, most))

    def numbers(self, name: str, missing: float | None = None) -> tuple[float, ...]:
        """A list of finite numbers; where `missing` is given, it stands for a null."""
        items = self.items(name)
        if all(type(item) is float and -NUMBER_MAX <= item <= NUMBER_MAX for item in items):
            return tuple(cast("list[float]", items))  # as the loop below, which makes an object for each number
        found: list[float] = []
        for item in items:
            if item is None and missing is not None:
                found.append(missing)
            else:
                found.append(self._alone(name, item).number(name))
        return tuple(found)

    def wholes(self, name: str) -> tuple[int, ...]:
        """A list of whole numbers ≥ 0."""
        return tuple(self._alone(name, item).whole(name) for item in self.items(name))

    def _alone(self, name: str, item: object) -> Fields:
        """One item of a list as the field of that name."""
        return Fields({name: item}, self._where, self._problem)

    def texts_by_name(self, name: str) -> Mapping[str, str]:
        """At most 16 short texts by name."""
        items = self.mapping(name)
        if len(items) > 16 or any(len(key) > 64 for key in items):
            raise self.refuse(name, "at most 16 texts with names of at most 64 characters")
        return {key: self._alone(key, value).text(key, 512) for key, value in items.items()}

    def items(self, name: str, most: int = LIST_MAX) -> Sequence[object]:
        """A list of at most `most` of anything."""
        value = self.get(name)
        if not isinstance(value, list) or len(found := cast("list[object]", value)) > most:
            raise self.refuse(name, f"a list of at most {most}")
        return found

    def mapping(self, name: str) -> Mapping[str, object]:
        """Text -> anything."""
        value = self.get(name)
        if not isinstance(value, dict) or not all(isinstance(key, str) for key in cast("dict[object, object]", value)):
            raise self.refuse(name, "a mapping with text as keys")
        return cast("dict[str, object]", value)
