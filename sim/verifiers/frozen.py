"""What freezes a verifier: a digest of its thresholds and of the source that judges with them."""

from __future__ import annotations

import ast
import hashlib
import inspect
import sys
from functools import cache


def digest_of(*judges: type, thresholds: object = ()) -> str:
    """Sha256 over the source of the modules of `judges`, and of what these import from their own package.

    So an edited `judge` is another verifier, though its thresholds are the same. A class whose source cannot be found,
    as one typed into a prompt, raises OSError: save it in a file.
    """
    sources: dict[str, str] = {}
    for judge in judges:
        sources |= _sources(judge.__module__)
    return hashlib.sha256(repr((sorted(sources.items()), thresholds)).encode()).hexdigest()


@cache
def _sources(module: str) -> dict[str, str]:
    """Module -> source, as the process that judges has loaded it."""
    text, package = inspect.getsource(sys.modules[module]), module.partition(".")[0]
    wanted = {node.module for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom) and node.module}
    near = sorted(name for name in wanted if name.partition(".")[0] == package and name in sys.modules)
    return {module: text, **{name: inspect.getsource(sys.modules[name]) for name in near}}
