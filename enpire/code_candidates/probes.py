"""What in a candidate's code asks for the clock, the environment or the harness, found by reading it.

A learner may read the clock, to end in time. A policy may depend on its observations and its seed alone. What is found
puts the experiment into quarantine until a person has read the code; the sandbox is the fence, not this scan.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from importlib.util import find_spec

from enpire.code_candidates.surface import LEARNER

CLOCKS = frozenset({"time", "datetime", "sched", "timeit"})
CLOCK_NAMES = frozenset({"datetime64", "perf_counter", "monotonic"})
HARNESS = frozenset({
    "_thread", "builtins", "cffi", "ctypes", "enpire", "faulthandler", "fcntl", "gc", "getpass", "http", "importlib",
    "inspect", "marshal", "mmap", "multiprocessing", "pickle", "pkgutil", "platform", "posix", "pwd", "requests",
    "resource", "runpy", "shelve", "shutil", "signal", "site", "socket", "ssl", "subprocess", "tempfile", "threading",
    "tracemalloc", "urllib", "asyncio", "sim", "tests", "robot_drivers", "web_ui", "agent_loop",
})  # fmt: skip
"""Modules that reach out of the candidate: processes, networks, memory of others, the lab's own packages."""
OF_OS = frozenset({"path", "sep", "fspath", "PathLike", "cpu_count"})
OF_SYS = frozenset({"float_info", "maxsize", "version_info"})
"""What of `os` and `sys` tells nothing about the lab."""
CALLS = frozenset({"eval", "exec", "compile", "__import__", "globals", "locals", "vars", "breakpoint", "input"})
INSIDE = frozenset({
    "__globals__", "__builtins__", "__subclasses__", "__code__", "__closure__", "__loader__", "__spec__", "__bases__",
    "__mro__", "f_back", "f_globals", "f_locals", "gi_frame", "tb_frame",
})  # fmt: skip
COMPARES = frozenset({"__eq__", "__ne__", "__lt__", "__gt__", "__float__", "__array__", "__bool__", "__index__"})
WRITES = frozenset({"write_text", "write_bytes", "save", "savez", "savez_compressed", "save_file", "tofile", "mkdir"})
PLACES = ("/proc", "/sys/", "/dev/", "/etc/", "ledger.db", "hidden_starts", ".enpire", "enpire_", "../", "169.254.")


def probes(trees: Mapping[str, ast.Module]) -> list[str]:
    """What the code of a candidate asks for and must not: one phrase each, with its file and line.

    Args:
        trees: path -> syntax tree, as `surface.check_files` returned them.
    """
    own = {one.removeprefix("skills/").removesuffix(".py") for one in trees} | {"skills"}
    found: list[str] = []
    for path, tree in sorted(trees.items()):
        found += [f"{path}, line {line}: {what}" for line, what in _Scan(tree, path == LEARNER, own).found()]
    return found


class _Scan:
    """One file."""

    def __init__(self, tree: ast.Module, learner: bool, own: set[str]) -> None:
        self.tree, self.learner, self.own = tree, learner, own
        self.imported: set[str] = set()
        """Names of imported modules in this file."""
        self.documents = {
            id(node.value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        }

    def found(self) -> Iterator[tuple[int, str]]:
        """(line, phrase) of each probe."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                self.imported |= {(one.asname or one.name).partition(".")[0] for one in node.names}
        for node in ast.walk(self.tree):
            for what in self._of(node):
                yield getattr(node, "lineno", 0), what

    def _of(self, node: ast.AST) -> Iterator[str]:
        match node:
            case ast.Import():
                for one in node.names:
                    yield from self._imports(one.name)
            case ast.ImportFrom():
                yield from self._imports(node.module or "")
                yield from (what for one in node.names for what in self._attribute(node.module or "", one.name))
            case ast.Attribute():
                yield from self._attribute(node.value.id if isinstance(node.value, ast.Name) else "", node.attr)
                if (
                    isinstance(node.ctx, ast.Store)
                    and isinstance(node.value, ast.Name)
                    and node.value.id in self.imported
                ):
                    yield f"replaces {node.value.id}.{node.attr} of another module"
            case ast.Name(id=name) if name in CALLS:
                yield f"calls {name}"
            case ast.Global() | ast.FunctionDef():
                yield from self._keeps(node)
            case ast.Call():
                yield from self._call(node)
            case ast.Constant(value=str(text)) if id(node) not in self.documents:
                yield from (f"names {place!r}" for place in PLACES if place in text.lower())
            case _:
                pass

    def _keeps(self, node: ast.Global | ast.FunctionDef) -> Iterator[str]:
        if isinstance(node, ast.Global) and not self.learner:
            yield "keeps memory between episodes in a global variable"
        elif isinstance(node, ast.FunctionDef) and node.name in COMPARES:
            yield f"defines {node.name}, which changes how its results compare"

    def _replaces(self, node: ast.Attribute) -> Iterator[str]:
        owner = node.value
        if isinstance(node.ctx, ast.Store) and isinstance(owner, ast.Name) and owner.id in self.imported:
            yield f"replaces {owner.id}.{node.attr} of another module"

    def _imports(self, module: str) -> Iterator[str]:
        top = module.partition(".")[0]
        if top in HARNESS:
            yield f"imports {module}, which reaches out of the candidate"
        elif top in CLOCKS and not self.learner:
            yield f"imports {module}: a policy may not know the time"
        elif top and top not in self.own and not _is_installed(top):
            yield f"imports {module}, which is not installed here"

    def _attribute(self, owner: str, name: str) -> Iterator[str]:
        if (owner == "os" and name not in OF_OS) or (owner == "sys" and name not in OF_SYS):
            yield f"uses {owner}.{name}, which tells about or changes its environment"
        elif name in INSIDE:
            yield f"uses {name}, which reads the inside of other code"
        elif name in CLOCK_NAMES and not self.learner:
            yield f"uses {name}: a policy may not know the time"

    def _call(self, node: ast.Call) -> Iterator[str]:
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        if name in ("getattr", "setattr", "delattr") and not (
            len(node.args) > 1 and isinstance(node.args[1], ast.Constant)
        ):
            yield f"calls {name} with a computed name"
        if self.learner:
            return
        if name in WRITES:
            yield f"calls {name}: a policy keeps nothing between episodes"
        mode = (
            node.args[1]
            if len(node.args) > 1
            else next((one.value for one in node.keywords if one.arg == "mode"), None)
        )
        if name == "open" and not (mode is None or (isinstance(mode, ast.Constant) and mode.value in ("r", "rb"))):
            yield "opens a file to write: a policy keeps nothing between episodes"


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return False
