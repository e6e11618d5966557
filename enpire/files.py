"""Reads YAML and JSON files into frozen dataclasses.

Unknown keys, missing keys and wrong types are errors that name the place, what is allowed and what was found.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import stat
import sys
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeGuard, cast

from enpire.errors import FileProblem
from enpire.types import Json

CONFIGS = Path(__file__).resolve().parent.parent / "configs"
"""The shipped files of a checkout; an installed wheel has them inside the package."""
LARGEST_WHOLE = 2**63 - 1
"""The largest whole number that is accepted: the largest that SQLite stores."""


LARGEST_FILE = 2**24
"""Bytes of a YAML or JSON file that is read."""
_DEEPEST, _MOST_VALUES = 64, 100_000
"""Levels and values of a YAML file that are read."""


def configs_root() -> Path:
    """The folder with the shipped tasks, stations, recipes, campaigns and gates."""
    return CONFIGS if CONFIGS.is_dir() else Path(__file__).resolve().parent / "_configs"


def find(kind: str, name_or_path: str | Path) -> Path:
    """The file of a shipped name (`pin_insertion`) or of a path.

    Raises:
        FileProblem: there is none; the sentence lists the names.
    """
    path = Path(name_or_path)
    if path.suffix in {".yaml", ".yml", ".json"}:
        if is_file(path):
            return path
        raise FileProblem(f"The file {shown_path(path)} does not exist; check the path.")
    shipped = configs_root() / kind / f"{path.name}.yaml"
    if path.parent == Path() and is_file(shipped):
        return shipped
    known = ", ".join(sorted(item.stem for item in (configs_root() / kind).glob("*.yaml")))
    raise FileProblem(
        f"There is no file of {kind} called {shown_path(path)}; give a path ending in .yaml or one of: {known}."
    )


def read_yaml(path: Path) -> Mapping[str, object]:
    """The keys and values of a YAML file.

    Raises:
        FileProblem: the file cannot be read or is not YAML; the sentence names the line.
    """
    return read_yaml_text(_text(path, LARGEST_FILE), path)


def read_yaml_text(text: str, path: Path | str) -> Mapping[str, object]:
    """The keys and values of the text of a YAML file, whose name `path` is for error sentences.

    Raises:
        FileProblem: it is not YAML; the sentence names the line.
    """
    import yaml

    try:
        content = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError) as problem:
        raise FileProblem(f"The file {path} is not YAML: {' '.join(str(problem).split())[:300]}.") from problem
    except RecursionError as problem:
        raise FileProblem(f"The file {path} is nested too deeply; at most {_DEEPEST} levels are read.") from problem
    if not isinstance(content, dict):
        raise FileProblem(f"The file {path} must hold keys and values at its top level.")
    _check_plain(cast("object", content), path)
    return cast("Mapping[str, object]", content)


def read_json(path: Path, most_bytes: int = LARGEST_FILE) -> object:
    """The content of a JSON file; FileProblem when it cannot be read, is larger, or is not JSON."""
    try:
        return json.loads(_text(path, most_bytes))
    except (ValueError, RecursionError) as problem:
        raise FileProblem(f"The file {path} is not JSON: {problem}.") from problem


def is_file(path: Path) -> bool:
    """Whether a path that a person typed is a regular file; False also for a path that no system allows."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _text(path: Path, most_bytes: int) -> str:
    """The text of a regular file of at most `most_bytes`, UTF-8. FileProblem says why it cannot be read."""
    try:
        about = path.stat()
        if not stat.S_ISREG(about.st_mode):
            raise FileProblem(f"{path} is not a regular file; name a file.")
        if about.st_size > most_bytes:
            raise FileProblem(f"The file {path} has {about.st_size} bytes; at most {most_bytes} are read.")
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise FileProblem(f"The file {path} does not exist; check the path.") from None
    except OSError as problem:
        raise FileProblem(f"The file {shown_path(path)} cannot be read: {problem.strerror}.") from problem
    except ValueError as problem:
        raise FileProblem(f"The file {shown_path(path)} cannot be read: {problem}.") from problem


def _check_plain(content: object, path: Path | str) -> None:
    """FileProblem for YAML that is no plain data, or that aliases make much larger than the file."""
    waiting, seen = [(content, "", 0)], 0
    while waiting:
        value, key, depth = waiting.pop()
        seen += 1
        if depth > _DEEPEST or seen > _MOST_VALUES:
            raise FileProblem(
                f"The file {path} is too large: at most {_DEEPEST} levels and {_MOST_VALUES} values are read, aliases "
                "counted each time."
            )
        if is_mapping(value):
            waiting += [(item, str(name), depth + 1) for name, item in value.items()]
        elif isinstance(value, list):
            waiting += [(item, key, depth + 1) for item in cast("list[object]", value)]
        elif isinstance(value, int) and not -LARGEST_WHOLE <= value <= LARGEST_WHOLE:
            raise FileProblem(f"The file {path}, key {key!r}, must be a whole number of 64 bits, not {shown(value)}.")
        elif not (value is None or isinstance(value, bool | int | float | str)):
            raise FileProblem(
                f"The file {path}, key {key!r}, is a {type(value).__name__}; write numbers, true, false or text, and "
                "put dates into quotes."
            )


def parse[T](cls: type[T], mapping: object, where: str) -> T:
    """A dataclass from a mapping, checked field by field; error sentences begin with `where`.

    Raises:
        FileProblem: a key is unknown or missing, or a value has the wrong type or is refused by the class.
    """
    if not isinstance(mapping, Mapping):
        raise FileProblem(f"{where} must be a mapping of keys to values, not {shown(mapping)}.")
    fields, hints = _fields_of(cls)
    given = _present_keys(fields, cast("Mapping[str, object]", mapping))
    unknown = [str(key) for key in given if key not in fields]
    if unknown:
        raise FileProblem(f"{where} has the unknown key {unknown[0]!r}; allowed are: {', '.join(fields)}.")
    values: dict[str, object] = {}
    for name, item in fields.items():
        if name in given:
            values[name] = _value(hints[name], given[name], f"{where}, key {name!r}")
        elif item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING:
            raise FileProblem(f"{where} lacks the key {name!r}.")
    try:
        return cls(**values)
    except ValueError as problem:
        raise FileProblem(f"{where}: {problem}") from problem


def formerly(key: str) -> dict[str, str]:
    """Metadata of a field that older files spell as `key`; `parse` reads both spellings."""
    return {"formerly": key}


def _present_keys(fields: Mapping[str, dataclasses.Field[object]], given: Mapping[str, object]) -> dict[str, object]:
    """The mapping with former keys renamed; a former key next to its present one stays and is unknown."""
    former = {item.metadata["formerly"]: name for name, item in fields.items() if "formerly" in item.metadata}
    return {key if former.get(key, key) in given else former.get(key, key): value for key, value in given.items()}


@functools.cache
def _fields_of(cls: type) -> tuple[dict[str, dataclasses.Field[object]], dict[str, object]]:
    """(the fields of a dataclass, their types), each by name."""
    return {item.name: item for item in dataclasses.fields(cast(Any, cls))}, typing.get_type_hints(cls)


def canonical(value: object) -> str:
    """JSON with sorted keys and no spaces, so that equal content has one spelling and one hash."""
    return json.dumps(plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def is_json_object(value: object) -> TypeGuard[dict[str, Json]]:
    """Whether a value read from JSON is an object; its keys are texts."""
    return isinstance(value, dict)


def is_mapping(value: object) -> TypeGuard[Mapping[object, object]]:
    """Whether a value has keys and values."""
    return isinstance(value, Mapping)


def whole_number(stored: Mapping[str, Json], section: str, key: str, missing: int = 0) -> int:
    """A whole number of a section of a stored campaign file; `missing` where an older ENPIRE did not record it."""
    found = stored.get(section)
    value = found.get(key, missing) if isinstance(found, Mapping) else missing
    return value if isinstance(value, int) else missing


def document(value: object) -> dict[str, Json]:
    """A dataclass, with all that lies in it, as a JSON object."""
    return cast("dict[str, Json]", plain(value))


def plain(value: object) -> object:
    """The value with dataclasses, tuples and paths as JSON objects, lists and strings."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {item.name: plain(getattr(value, item.name)) for item in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in cast("Mapping[object, object]", value).items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in cast("list[object]", value)]
    return str(value) if isinstance(value, Path) else value


def _value(hint: object, value: object, where: str) -> object:
    if hint is typing.Any or hint is object:
        return value
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return parse(hint, value, where)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        if value not in arguments:
            raise FileProblem(f"{where} must be one of {', '.join(map(str, arguments))}, not {shown(value)}.")
        return value
    if origin in {types.UnionType, typing.Union}:
        return _union(arguments, value, where)
    if origin is tuple:
        return _tuple(arguments, value, where)
    if origin is Sequence:
        return _tuple((*arguments, ...), value, where)
    if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        if not isinstance(value, Mapping):
            raise FileProblem(f"{where} must be a mapping of keys to values, not {shown(value)}.")
        items = cast("Mapping[object, object]", value).items()
        return {_key(key, where): _value(arguments[1], item, f"{where}, key {str(key)!r}") for key, item in items}
    return _scalar(cast(type, hint), value, where)


def _key(key: object, where: str) -> str:
    return str(_scalar(str, str(key), f"{where}, the name of a key"))


def _union(arguments: tuple[object, ...], value: object, where: str) -> object:
    if value is None and types.NoneType in arguments:
        return None
    problems: list[FileProblem] = []
    for argument in arguments:
        if argument is not types.NoneType:
            try:
                return _value(argument, value, where)
            except FileProblem as problem:
                problems.append(problem)
    raise problems[0]


def _tuple(arguments: tuple[object, ...], value: object, where: str) -> tuple[object, ...]:
    if not isinstance(value, list | tuple):
        raise FileProblem(f"{where} must be a list, not {shown(value)}.")
    items = cast("list[object]", value)
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return tuple(_value(arguments[0], item, f"{where}, item {index}") for index, item in enumerate(items))
    if len(items) != len(arguments):
        raise FileProblem(f"{where} must have {len(arguments)} items, not {len(items)}.")
    return tuple(_value(hint, item, where) for hint, item in zip(arguments, items, strict=True))


def _scalar(hint: type, value: object, where: str) -> object:
    if hint is float and isinstance(value, int | float) and not isinstance(value, bool):
        if not -sys.float_info.max <= value <= sys.float_info.max:
            raise FileProblem(f"{where} must be a finite number, not {shown(value)}.")
        return float(value)
    if hint is Path and isinstance(value, str):
        return Path(value)
    if hint is int and isinstance(value, int) and not -LARGEST_WHOLE <= value <= LARGEST_WHOLE:
        raise FileProblem(f"{where} must be a whole number of at most 64 bits, not {shown(value)}.")
    if isinstance(value, hint) and not (hint is int and isinstance(value, bool)):
        if isinstance(value, str) and not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
            raise FileProblem(
                f"{where} must be whole Unicode characters, not {shown(value)}; remove the half characters."
            )
        return value
    kinds: dict[object, str] = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}
    kind = kinds.get(hint, hint.__name__)
    raise FileProblem(f"{where} must be {kind}, not {shown(value)}.")


def shown_path(path: Path) -> str:
    """A path for an error sentence: its end, which names the file, is never cut off."""
    text = str(path)
    return repr(text if len(text) <= 300 else f"...{text[-297:]}")


def shown(value: object) -> str:
    """A value for an error sentence, cut to 60 characters."""
    if isinstance(value, int) and not -LARGEST_WHOLE <= value <= LARGEST_WHOLE:
        return f"a whole number of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
