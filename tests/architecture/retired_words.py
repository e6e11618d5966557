"""Where the retired words of docs/words.md still stand: `python -m tests.architecture.retired_words [FOLDER ...]`.

Names (modules, classes, functions, parameters, variables, attributes) are split into their parts and compared with
`NAMES`. Prose (documents, page sources, docstrings, comments and every string with a space in it) is searched for
`PROSE`. Stored forms keep their old spelling: strings of one word, and the event kinds in `STORED`.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

from tests.architecture.sources import PACKAGES, ROOT, files, nodes

NAMES = {
    "wish": "request", "wishes": "requests", "wished": "requested", "deed": "command", "deeds": "commands",
    "heed": "handle", "heeds": "handles", "told": "reported, reply or message", "said": "reply or description",
    "says": "description", "verb": "subcommand or command", "verbs": "subcommands or commands",
    "hopeless": "futility", "practise": "hard_start", "practised": "hard_start", "figures": "metrics",
    "lesson": "batches", "lessons": "batches", "course": "schedule", "pupil": "training state",
    "pupils": "training states", "chances": "sampling weights", "taught": "metrics", "manner": "behaviour",
    "manners": "behaviour", "mood": "state", "moods": "states", "thinks": "inference", "think": "inference",
    "thinker": "inference", "thinking": "inference", "sight": "sensor_std", "nobody": "name the actor",
    "somebody": "name the actor", "whoever": "name the actor", "watched": "live",
    "glance": "live_images", "fold": "apply", "folded": "applied", "finding": "conclusion or check result",
    "findings": "conclusions or check results", "film": "clip or images", "films": "clips or images",
    "workplace": "device", "album": "image_windows", "opinions": "critic_outputs", "opinion": "critic_output",
    "desk": "lab_client", "courier": "uplink", "keeper": "session", "shelf": "cache", "door": "listening address",
    "doors": "listening addresses", "face": "bridge", "faces": "bridges", "beat": "heartbeat",
    "beats": "heartbeats", "brain": "what it does", "spends": "costs", "agreed": "a noun",
}  # fmt: skip
"""Part of a name -> what to say instead."""
PHRASES = {
    ("taken", "back"): "released", ("given", "again"): "reissued", ("orders", "found"): "late results",
    ("goes", "on"): "resumes", ("robots", "busy"): "robot utilisation",
}  # fmt: skip
"""Neighbouring parts of a name -> what to say instead."""
PROSE = {
    r"robots? busy|\brobot use\b": "robot utilisation (MRU)",
    r"\bhopeless": "futility; predicted failure",
    r"of [^ ]+ nats": "log evidence 4.04 (threshold 3.49)",
    r"\bwish(?:es|ed|ing)?\b": "request, command",
    r"\bdeeds?\b": "command",
    r"\bheed(?:s|ed)?\b": "handle",
    r"\bverbs?\b": "subcommand; of an operator: command",
    r"\btak(?:en?|es|ing) back\b|\btook back\b": "released",
    r"\bgiv(?:en?|es|ing) again\b": "reissued",
    r"\borders found\b": "late results",
    r"\bpractis(?:e|ed|es|ing)\b": "hard-start sampling",
    r"\bfigures\b": "metrics, numbers",
    r"\blessons?\b|\bpupils?\b|\btaught\b": "batches, training state, metrics",
    r"\bmanners?\b|\bmoods?\b": "behaviour parameters, state",
    r"\bthink(?:s|er|ers|ing)?\b|\bthought\b": "run inference, inference",
    r"\bgo(?:es)? on\b|\bgoing on\b|\bwent on\b": "resume, continue",
    r"\broad\b": "follows the candidate pipeline",
    r"\bst(?:and|ands|ood|anding) still\b|\blet go\b|\blets go\b": "idle, released",
    r"\bdear ones\b": "costly verifiers run last",
    r"\bnobody\b|\bsomebody\b|\bwhoever\b|\ball that\b": "name the actor: operator, agent, station, process",
    r"\bglanc(?:e|es|ed|ing)\b": "live images",
    r"\bfold(?:s|ed|ing)?\b": "apply events",
    r"\bfindings?\b(?! out)": "conclusion; check result",
    r"\bfilm(?:s|ed)?\b": "clip, camera images",
    r"\bworkplaces?\b|\balbums?\b|\bopinions?\b": "device, image windows, critic outputs",
    r"\bdesk\b|\bcouriers?\b|\bkeepers?\b|\bshel(?:f|ves)\b": "lab client, uplink, robot session, policy cache",
    r"\bdoors?\b|(?<!Hugging )\bfaces?\b": "listening address, bridge",
    r"\bbrains?\b": "say what the package does",
    r"\bbeats?\b(?! (?:the|its|every|all|any)| ,)": "heartbeat",
}
"""Pattern in prose -> what to say instead."""
STORED = frozenset({"orders found", "finding posted", "wish refused", "give up"})
"""Event kinds of the ledger: they keep their spelling."""
MODULES = {"beside": "live_file", "views": "queries", "brain": "what it does", "hands": "what they do"}
"""Names of modules alone -> what to say instead."""
ALLOWED: Mapping[str, tuple[str, ...]] = {
    "docs/words.md": (".",),  # the table itself
    "sim/tasks/gpu_": ("face",),  # the face of a card
}
"""Beginning of a path -> patterns of words that stay there."""


@dataclass(frozen=True)
class Place:
    """One retired word."""

    file: str
    line: int
    sort: str
    """name or prose."""
    word: str
    instead: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.sort} {self.word!r}: say {self.instead}"


@cache
def _patterns() -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple((re.compile(pattern, re.IGNORECASE), instead) for pattern, instead in PROSE.items())


def parts(name: str) -> list[str]:
    """The words of a snake_case or CamelCase name, in lower case."""
    return [part.lower() for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z][a-z]*|[a-z]+", name)]


def retired_in_name(name: str) -> Iterator[tuple[str, str]]:
    """(retired word, what to say) for each retired part of a name."""
    words = parts(name)
    yield from ((word, NAMES[word]) for word in words if word in NAMES)
    yield from ((" ".join(pair), PHRASES[pair]) for pair in pairwise(words) if pair in PHRASES)


def retired_in_prose(text: str) -> Iterator[tuple[str, str]]:
    """(retired word, what to say) for each place in a text."""
    if text in STORED:
        return
    for pattern, instead in _patterns():
        yield from ((found.group(), instead) for found in pattern.finditer(text))


def names_of(path: Path) -> Iterator[tuple[int, str]]:
    """(line, name) of everything that a Python file names."""
    yield 1, path.stem
    for node in nodes(path):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr
        elif isinstance(node, ast.alias) and node.asname:
            yield node.lineno, node.asname


def prose_of(path: Path) -> Iterator[tuple[int, str]]:
    """(line, text) of comments and of strings with a space, docstrings among them."""
    for node in nodes(path):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            if node.value in STORED:
                continue
            for number, line in enumerate(node.value.splitlines()):
                yield node.lineno + number, line
    source = path.read_text(encoding="utf-8")
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


PAGE_PROSE = re.compile(
    r"//(?P<line>[^\n]*)|/\*(?P<block>.*?)\*/"
    r'|"(?P<string>[^"\n]* [^"\n]*)"|`(?P<template>[^`]* [^`]*)`'
    r"|(?<!=)>(?P<text>[^<>{}=;()]*[a-z] [^<>{}=;()]*)<",
    re.DOTALL,
)
"""Comments, strings with a space and text between tags in the sources of the page."""
EXPORT = re.compile(r"^export (?:default )?(?:async )?(?:function|const|class|type|interface) (\w+)", re.MULTILINE)


def prose_of_document(path: Path) -> Iterator[tuple[int, str]]:
    """(line, text) of a document or a source of the page; what a document quotes as `code` is left out."""
    source = path.read_text(encoding="utf-8")
    if path.suffix in {".ts", ".tsx", ".css"}:
        for found in PAGE_PROSE.finditer(source):
            if path.suffix != ".css" or found["block"]:
                text = next(group for group in found.groups() if group is not None)
                yield source.count("\n", 0, found.start()) + 1, re.sub(r"\$\{[^}]*\}", "", text)
        return
    for line, text in enumerate(source.splitlines(), start=1):
        yield line, re.sub(r"`[^`]*`", "", text) if path.suffix == ".md" else text


def exports_of(path: Path) -> Iterator[tuple[int, str]]:
    """(line, name) of what a source of the page exports."""
    source = path.read_text(encoding="utf-8")
    yield from ((source.count("\n", 0, found.start()) + 1, found[1]) for found in EXPORT.finditer(source))


def documents() -> list[Path]:
    """The pages of text, and the sources of the web page."""
    pages = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
    source = ROOT / "web_ui" / "ui" / "src"
    page = [path for path in sorted(source.rglob("*")) if path.suffix in {".ts", ".tsx", ".css", ".html"}]
    settings = sorted((ROOT / "configs").rglob("*.yaml"))
    templates = sorted((ROOT / "enpire").rglob("*.j2"))
    return [*pages, *page, *settings, *templates]


def _hits(path: Path) -> Iterator[tuple[int, str, tuple[str, str]]]:
    """(line, name or prose, (retired word, what to say)) of one file."""
    if path.suffix == ".py":
        if path.stem in MODULES:
            yield 1, "name", (path.stem, MODULES[path.stem])
        names, texts = names_of(path), prose_of(path)
    else:
        names = exports_of(path) if path.suffix in {".ts", ".tsx"} else iter(())
        texts = prose_of_document(path)
    yield from ((line, "name", hit) for line, name in names for hit in retired_in_name(name))
    yield from ((line, "prose", hit) for line, text in texts for hit in retired_in_prose(text))


def places(folders: Iterable[str] = ()) -> list[Place]:
    """Every retired word of the packages and documents; of some folders alone when they are given."""
    wanted = tuple(folders) or ("",)
    found: list[Place] = []
    for path in (*files(PACKAGES), *documents()):
        file = str(path.relative_to(ROOT))
        if not file.startswith(wanted):
            continue
        allowed = [pattern for start, patterns in ALLOWED.items() if file.startswith(start) for pattern in patterns]
        for line, sort, (word, instead) in _hits(path):
            if not any(re.search(pattern, word, re.IGNORECASE) for pattern in allowed):
                found.append(Place(file, line, sort, word, instead))
    return found


def room_of(file: str) -> str:
    steps = file.split("/")
    return "/".join(steps[:2]) if steps[0] == "enpire" and len(steps) > 2 else steps[0]


def main() -> None:
    """Print every place of the folders that were named, then how many there are in each package."""
    found = places(sys.argv[1:])
    if sys.argv[1:]:
        for place in found:
            print(place)
    counts = Counter((room_of(place.file), place.sort) for place in found)
    for room in sorted({room for room, _ in counts}):
        print(f"{room:28} names {counts[room, 'name']:5}   prose {counts[room, 'prose']:5}")
    sums = Counter(place.sort for place in found)
    print(f"{'all':28} names {sums['name']:5}   prose {sums['prose']:5}")


if __name__ == "__main__":
    main()
