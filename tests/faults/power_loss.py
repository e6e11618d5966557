"""Power loss: from recorded file operations, every kind of state that a crash could leave on the disk.

The model is that of a journalling file system (ext4, xfs, btrfs) on a disk that keeps what it confirmed:

* what a file got since its last sync may have reached the disk or not, sector by sector (512 bytes), in any order; the
  last sector may be torn;
* the names in a folder change in the order in which they were changed, but nobody knows how far until the folder is
  synced; a new file has no name before that, whatever its own syncs, and one that is renamed into another folder may
  be in both, or in none;
* `syncfs` makes everything durable.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, product
from pathlib import Path

from tests.faults.system_calls import Op

SECTOR = 512
Files = dict[str, bytes | None]
"""Path -> content; None for a folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The content of the disk after the crash, and the lines that the program had printed before it."""

    files: Files
    said: tuple[str, ...]

    def lay(self, folder: Path) -> None:
        """Write the state into an empty folder."""
        folder.mkdir(parents=True)
        for name, content in self.files.items():
            path = folder / name
            if content is None:
                path.mkdir(parents=True, exist_ok=True)
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)


@dataclass(slots=True, eq=False)
class _Node:
    """A file or a folder: its durable content, and the changes since its last sync."""

    is_folder: bool = False
    content: bytes = b""
    names: dict[str, _Node] = field(default_factory=dict)
    """Names as the program sees them."""
    kept: dict[str, _Node] = field(default_factory=dict)
    """Names that are durable on the disk."""
    pending: list[Op] = field(default_factory=list)
    moves: list[list[tuple[str, _Node | None]]] = field(default_factory=list)

    def sync(self) -> None:
        self.content = written(self.content, self.pending)
        self.pending = []
        self.kept, self.moves = dict(self.names), []


def written(content: bytes, ops: Sequence[Op]) -> bytes:
    """The content of a file after these writes and truncations."""
    data = bytearray(content)
    for op in ops:
        if op.kind == "truncate":
            del data[op.offset :]
            data.extend(bytes(op.offset - len(data)))
        else:
            data.extend(bytes(max(0, op.offset - len(data))))
            data[op.offset : op.offset + len(op.data)] = op.data
    return bytes(data)


def crash_states(ops: Sequence[Op], per_moment: int, seed: int = 1) -> Iterator[State]:
    """States that a power cut can leave, each once: at every sync (just before it), at everything said (just after).

    Between two syncs more and more may or may not be on the disk, so the moment before the next sync has all of them.

    Args:
        ops: what was done, oldest first; the folder itself is taken as durable.
        per_moment: at most so many states of one moment: all of them where there are fewer, else the extremes, each
            sector alone there or missing, each prefix (also torn), and draws.
        seed: of the draws.
    """
    draw = random.Random(seed)
    root, said = _Node(is_folder=True), list[str]()
    known: set[bytes] = set()
    for op in (*ops, Op(kind="sync all")):
        if op.kind == "said":
            said.append(op.data.decode())
        if op.kind in ("sync", "sync all", "said"):
            for files in islice(_moment(root, draw, per_moment), per_moment):
                key = _key(files, said)
                if key not in known:
                    known.add(key)
                    yield State(files=files, said=tuple(said))
        _apply(root, op)


def _key(files: Files, said: Sequence[str]) -> bytes:
    digest = hashlib.sha256("\n".join(said).encode())
    for name, content in sorted(files.items()):
        digest.update(f"{name} {-1 if content is None else len(content)}".encode())
        digest.update(content or b"")
    return digest.digest()


def _apply(root: _Node, op: Op) -> None:
    if op.kind == "said":
        return
    if op.kind == "sync all":
        for node in _all(root):
            node.sync()
        return
    node = _node(root, op.path) if op.kind in ("write", "truncate", "sync") else None
    if node is not None:
        if op.kind == "sync":
            node.sync()
        else:
            node.pending.append(op)
        return
    parent, name = _parent(root, op.path)
    match op.kind:
        case "create" | "mkdir":
            if name not in parent.names:
                _move(parent, [(name, _Node(is_folder=op.kind == "mkdir"))])
        case "unlink":
            _move(parent, [(name, None)])
        case _:
            to, new = _parent(root, op.to)
            node = parent.names[name]
            if to is parent:
                _move(parent, [(name, None), (new, node)])
            else:
                _move(parent, [(name, None)])
                _move(to, [(new, node)])


def _move(parent: _Node, changes: list[tuple[str, _Node | None]]) -> None:
    parent.names = _renamed(parent.names, [changes])
    parent.moves.append(changes)


def _renamed(names: dict[str, _Node], moves: Sequence[Sequence[tuple[str, _Node | None]]]) -> dict[str, _Node]:
    after = dict(names)
    for name, node in (change for changes in moves for change in changes):
        if node is None:
            after.pop(name, None)
        else:
            after[name] = node
    return after


def _node(root: _Node, path: str) -> _Node:
    node = root
    for part in [] if path == "." else path.split("/"):
        node = node.names[part]
    return node


def _parent(root: _Node, path: str) -> tuple[_Node, str]:
    above, _, name = path.rpartition("/")
    return _node(root, above or "."), name


def _all(root: _Node) -> list[_Node]:
    found = [root]
    for node in found:
        found.extend(child for child in (*node.names.values(), *node.kept.values()) if child not in found)
    return found


def _moment(root: _Node, draw: random.Random, enough: int) -> Iterator[Files]:
    """The possible contents of the disk at one moment."""
    nodes = _all(root)
    folders = [node for node in nodes if node.moves]
    files = [node for node in nodes if node.pending]
    pieces = [(node, piece) for node in files for op in node.pending for piece in _sectors(op)]
    far = [[len(node.moves), *range(len(node.moves))] for node in folders]
    subsets = _subsets(pieces, draw, enough)
    ways = 1
    for lengths in far:
        ways *= len(lengths)
    if ways * len(subsets) <= enough:
        chosen = list(product(product(*far), subsets))
    else:
        whole, nothing = tuple(lengths[0] for lengths in far), tuple(0 for _ in far)
        chosen = [(whole, subset) for subset in subsets]
        chosen += [(nothing, subsets[0]), *((lengths, subsets[0]) for lengths in islice(product(*far), 32))]
        draw.shuffle(chosen)
        chosen = [(whole, subsets[0]), (nothing, subsets[-1]), *chosen]
    for lengths, subset in chosen:
        names = {
            id(node): _renamed(node.kept, node.moves[:length]) for node, length in zip(folders, lengths, strict=True)
        }
        yield _laid(root, "", names, subset)


def _laid(folder: _Node, path: str, names: dict[int, dict[str, _Node]], subset: list[tuple[_Node, Op]]) -> Files:
    files: Files = {}
    for name, node in names.get(id(folder), folder.kept).items():
        if node.is_folder:
            files[f"{path}{name}"] = None
            files |= _laid(node, f"{path}{name}/", names, subset)
        else:
            files[f"{path}{name}"] = written(node.content, [piece for owner, piece in subset if owner is node])
    return files


def _sectors(op: Op) -> list[Op]:
    """A write, split at the boundaries of sectors."""
    if op.kind == "truncate":
        return [op]
    cuts = [op.offset, *range((op.offset // SECTOR + 1) * SECTOR, op.offset + len(op.data), SECTOR)]
    ends = [*cuts[1:], op.offset + len(op.data)]
    return [
        Op(kind="write", path=op.path, offset=a, data=op.data[a - op.offset : b - op.offset])
        for a, b in zip(cuts, ends, strict=True)
    ]


def _subsets[T: tuple[_Node, Op]](pieces: list[T], draw: random.Random, enough: int) -> list[list[T]]:
    """All subsets where they are few; the first is complete, the last is empty."""
    count = len(pieces)
    if 2**count <= enough:
        masks = range(2**count - 1, -1, -1)
        return [[piece for index, piece in enumerate(pieces) if mask >> index & 1] for mask in masks]
    shares = (0.9, 0.5, 0.1) * (enough // 6)
    chosen = [[piece for piece in pieces if draw.random() < share] for share in shares]
    for index in draw.sample(range(count), min(count, enough)):
        chosen += [pieces[:index], pieces[:index] + pieces[index + 1 :], [pieces[index]], _torn(pieces, index)]
    draw.shuffle(chosen)
    return [pieces, *chosen[: enough - 2], []]


def _torn[T: tuple[_Node, Op]](pieces: list[T], index: int) -> list[T]:
    """All pieces before one, and the first half of that one."""
    node, op = pieces[index]
    if op.kind == "truncate":
        return pieces[:index]
    half = Op(kind="write", path=op.path, offset=op.offset, data=op.data[: len(op.data) // 2])
    return [*pieces[:index], (node, half)]  # pyright: ignore[reportReturnType]
