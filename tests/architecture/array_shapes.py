"""Public functions with arrays and no shape in the docstring: `python -m tests.architecture.array_shapes [FOLDER ...]`.

A function counts when an annotation of its signature names an array type. Its own docstring, that of its class, or that
of the method it implements under the same name in `enpire.interfaces`, must hold a shape in parentheses: (T, 7), (n,),
(lanes, state_dim).
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.architecture.sources import PACKAGES, ROOT, Function, files, tree

ARRAYS = re.compile(r"\b(FloatArray|IntArray|MaskArray|ImageArray|NDArray|ndarray|Tensor)\b")
SIZE = r"(?:(?:len\(\w+\)|[\w.]+)(?: ?[-+*/] ?[\w.]+)*)"
SHAPE = re.compile(rf"\(\s*{SIZE}\s*,(?:\s*(?:{SIZE}|\.\.\.)\s*,?)*\s*\)|\bscalar\b|\bany shape\b")
"""Sizes in parentheses; `scalar` for an array of one number; `any shape`."""


def is_public(name: str) -> bool:
    return not name.startswith("_") or name == "__call__"


def has_arrays(function: Function) -> bool:
    """Whether an annotation of the signature names an array type."""
    arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    notes = [one.annotation for one in arguments if one.annotation] + ([function.returns] if function.returns else [])
    return any(ARRAYS.search(ast.unparse(note)) for note in notes)


def public(module: ast.Module) -> Iterator[tuple[Function, ast.ClassDef | None]]:
    """(function, its class) of every public function and method of public classes."""
    for node in module.body:
        if isinstance(node, Function) and is_public(node.name):
            yield node, None
        elif isinstance(node, ast.ClassDef) and is_public(node.name):
            yield from ((item, node) for item in node.body if isinstance(item, Function) and is_public(item.name))


@cache
def of_protocols() -> frozenset[str]:
    """Methods of `enpire.interfaces` whose docstrings state shapes: implementations need not repeat them."""
    found = public(tree(ROOT / "enpire" / "interfaces.py"))
    return frozenset(item.name for item, cls in found if cls and SHAPE.search(ast.get_docstring(item) or ""))


def lacking(path: Path) -> list[str]:
    """file:line name of every public function with arrays and without a shape."""
    found: list[str] = []
    for function, cls in public(tree(path)):
        text = (ast.get_docstring(function) or "") + ((cls and ast.get_docstring(cls)) or "")
        implements = cls is not None and function.name in of_protocols() and path.name != "interfaces.py"
        if has_arrays(function) and not SHAPE.search(text) and not implements:
            name = f"{cls.name}.{function.name}" if cls else function.name
            found.append(f"{path.relative_to(ROOT)}:{function.lineno} {name}")
    return found


def everywhere() -> list[str]:
    """All such functions of the packages."""
    return [place for path in files(PACKAGES) for place in lacking(path)]


def main() -> None:
    """Print every place of the folders that were named, then how many there are in each package."""
    found = everywhere()
    if wanted := tuple(sys.argv[1:]):
        print("\n".join(place for place in found if place.startswith(wanted)))
    counts = Counter("/".join(place.split("/")[: 2 if place.startswith("enpire/") else 1]) for place in found)
    print("\n".join(f"{count:5} {room}" for room, count in sorted(counts.items())), len(found), sep="\n")


if __name__ == "__main__":
    main()
