"""Whether two candidates are the same code: comments, docstrings, layout and names of local variables do not count.

The form of a candidate is computed from its syntax trees. Code that differs in meaning never has the same form; code of
the same meaning may have two forms.
"""

from __future__ import annotations

import ast
import builtins
import hashlib
from collections.abc import Iterator, Mapping
from typing import TypeGuard

from enpire.code_candidates.recipe import read_code_recipe
from enpire.code_candidates.surface import RECIPE
from enpire.files import canonical

Function = ast.FunctionDef | ast.AsyncFunctionDef
_SEES_NAMES = frozenset({"locals", "vars", "globals", "dir", "eval", "exec", "compile", "__import__"})
"""Functions to which the names of local variables are known."""
_BLOCKS = ("body", "orelse", "finalbody")
"""Fields of a syntax tree that hold statements."""


def form_of(files: Mapping[str, str], trees: Mapping[str, ast.Module]) -> str:
    """The hash of what the files of a candidate mean; equal for the same code. README.md does not count.

    Args:
        files: path -> text.
        trees: path -> syntax tree, as `surface.check_files` returned them for these files. They are changed.
    """
    parts: dict[str, object] = {RECIPE: read_code_recipe(files)}
    parts |= {path: _form(tree) for path, tree in trees.items()}
    return hashlib.sha256(canonical(parts).encode()).hexdigest()


def _form(tree: ast.Module) -> list[str]:
    nodes = list(ast.walk(tree))
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    names |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    if "__doc__" not in names:
        _drop_texts(nodes)
    if not names & _SEES_NAMES:
        _rename_locals(tree, nodes)
    return list(_flat(tree))


def _drop_texts(nodes: list[ast.AST]) -> None:
    """Remove the statements that are only a text, such as docstrings."""
    for node in nodes:
        for name in _BLOCKS:
            value = getattr(node, name, None)
            if _is_list(value) and any(map(_is_text, value)):
                setattr(node, name, [one for one in value if not _is_text(one)] or [ast.Pass()])


def _is_text(node: object) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _rename_locals(tree: ast.Module, nodes: list[ast.AST]) -> None:
    """Number the local variables of each function, and of the functions within it, in the order in which they appear.

    Kept are the names that another scope may see: parameters, names of the module and of classes, imports.
    """
    of_module = {*dir(builtins), *_bound(tree)}
    of_module.update(name for node in nodes if isinstance(node, ast.Global) for name in node.names)
    if "*" in of_module:  # of an import, so any name may be one of the module
        return
    for function in _outermost(tree):
        inside = [node for one in function.body for node in ast.walk(one)]
        local = {node.id for node in inside if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
        local -= of_module | set(_seen_elsewhere([function, *inside]))
        numbers: dict[str, str] = {}
        for node in inside:
            if isinstance(node, ast.Name) and node.id in local:
                node.id = numbers.setdefault(node.id, str(len(numbers)))


def _outermost(tree: ast.Module) -> Iterator[Function]:
    """The functions that lie in no other function."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        for node in ast.iter_child_nodes(waiting.pop()):
            if isinstance(node, Function):
                yield node
            else:
                waiting.append(node)


def _bound(scope: ast.AST) -> Iterator[str]:
    """Names that are bound in a module or a class, and not in a function within it."""
    waiting = list(ast.iter_child_nodes(scope))
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id
        yield from _declared(node)
        if not isinstance(node, Function):
            waiting.extend(ast.iter_child_nodes(node))


def _seen_elsewhere(nodes: list[ast.AST]) -> Iterator[str]:
    """Names in a function that its locals must not be taken for."""
    for node in nodes:
        yield from _declared(node)
        if isinstance(node, ast.ClassDef):
            yield from _bound(node)


def _declared(node: ast.AST) -> Iterator[str]:
    """Names that a node binds or declares by a text, not by a node of its own."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield node.name
        case ast.arg():
            yield node.arg
        case ast.alias():
            yield (node.asname or node.name).partition(".")[0]
        case ast.Global() | ast.Nonlocal():
            yield from node.names
        case ast.ExceptHandler() | ast.MatchAs() | ast.MatchStar() if node.name:
            yield node.name
        case ast.MatchMapping() if node.rest:
            yield node.rest
        case _:
            pass


def _flat(tree: ast.AST) -> Iterator[str]:
    """The tree as a line of words, from which it could be built again. It does not recurse, so any depth fits."""
    waiting: list[object] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.AST):
            yield type(node).__name__
            waiting.extend(value for name, value in reversed(list(ast.iter_fields(node))) if name != "kind")
        elif _is_list(node):
            yield f"[{len(node)}"
            waiting.extend(reversed(node))
        else:
            yield repr(node)


def _is_list(value: object) -> TypeGuard[list[object]]:
    return isinstance(value, list)
