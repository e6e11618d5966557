"""What freezes a verifier: a digest of its thresholds and of the source that judges with them."""

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
    """Sha256 over the source of the modules of `judges`, and of what these import from their own package or folder.

    So an edited `judge` is another verifier, though its thresholds are the same. A class whose source cannot be found,
    as one typed into a prompt, raises OSError: save it in a file.
    """
    sources: dict[str, str | bytes] = {}
    for judge in judges:
        sources |= _sources(judge.__module__)
    return hashlib.sha256(repr((sorted(sources.items()), thresholds)).encode()).hexdigest()


@cache
def _sources(module: str) -> dict[str, str | bytes]:
    """Module -> source, as the process that judges has loaded it."""
    own = sys.modules[module]
    text = inspect.getsource(own)
    found = {name: sys.modules[name] for name in _imported(ast.parse(text), own) if name in sys.modules}
    near = {name: Path(str(one.__file__)).read_bytes() for name, one in found.items() if _is_near(one, own)}
    return {module: text, **near}


def _imported(tree: ast.Module, own: ModuleType) -> Iterator[str]:
    """Names that may be modules; what is imported from one may be one, too."""
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
