"""The digest of a verifier: a hash of its thresholds and of the code that judges with them.

Docstrings, comments and layout do not count, so a better sentence leaves the digest as it is.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import sys
from collections.abc import Iterator
from functools import cache
from importlib.util import resolve_name
from pathlib import Path
from types import ModuleType


def digest_of(*judges: type, thresholds: object = ()) -> str:
    """Sha256 of the code in the modules of `judges`, and in what these import from their own package or folder.

    An edited `judge` is therefore another verifier, even with the same thresholds. This module does not count.

    Raises:
        OSError: the source of a class cannot be found, as of one typed into a prompt; save it in a file.
    """
    found: dict[str, str] = {}
    for judge in judges:
        found |= _code_of(judge.__module__)
    return hashlib.sha256(repr((sorted(found.items()), thresholds)).encode()).hexdigest()


@cache
def _code_of(module: str) -> dict[str, str]:
    """Module -> its code as one text, for a module and what it imports from nearby, as this process has loaded it."""
    own = sys.modules[module]
    tree = ast.parse(inspect.getsource(own))
    imported = {name: sys.modules[name] for name in _imported(tree, own) if name in sys.modules}
    near = {name: one for name, one in imported.items() if name != __name__ and _is_near(one, own)}
    files = {name: Path(str(one.__file__)).read_text("utf-8") for name, one in near.items()}
    return {module: repr(_plain(tree)), **{name: repr(_plain(ast.parse(text))) for name, text in files.items()}}


def _plain(node: object) -> object:
    """A syntax tree as nested lists, the same in every version of Python: no empty fields, no bare strings."""
    if isinstance(node, ast.AST):
        fields = ((name, value) for name, value in ast.iter_fields(node) if value is not None and value != [])
        return [type(node).__name__, *([name, _plain(value)] for name, value in fields)]
    if isinstance(node, list):
        return [_plain(item) for item in node if not _is_prose(item)]
    return repr(node)


def _is_prose(statement: object) -> bool:
    """Whether it is a docstring: a statement that is a string and nothing else."""
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def _imported(tree: ast.Module, own: ModuleType) -> Iterator[str]:
    """Names that may be modules; a name that is imported from a module may be one, too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (item.name for item in node.names)
        elif isinstance(node, ast.ImportFrom):
            name = resolve_name("." * node.level + (node.module or ""), own.__package__)
            yield from (name, *(f"{name}.{item.name}" for item in node.names))


def _is_near(module: ModuleType, own: ModuleType) -> bool:
    """Whether it is a file of the same package or in the same folder."""
    if not getattr(module, "__file__", None):
        return False
    together = Path(str(module.__file__)).parent == Path(str(own.__file__)).parent
    return together or module.__name__.partition(".")[0] == own.__name__.partition(".")[0]
