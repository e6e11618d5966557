"""A file is one idea, a function one thought, a Protocol at most six methods."""

from __future__ import annotations

import ast

from tests.architecture.sources import EVERYWHERE, PACKAGES, classes, files, functions, where

FILE_LINES = 400
FUNCTION_LINES = 60
PROTOCOL_METHODS = 6


def test_no_file_is_longer_than_an_idea() -> None:
    long = [
        f"{where(path)} has {count} lines"
        for path in files(EVERYWHERE)
        if (count := len(path.read_text(encoding="utf-8").splitlines())) > FILE_LINES
    ]
    assert not long, f"Split these at {FILE_LINES} lines: {long}"


def test_no_function_is_longer_than_a_thought() -> None:
    long = [
        f"{where(path, function)} {function.name} has {count} lines"
        for path in files(EVERYWHERE)
        for function in functions(path)
        if (count := (function.end_lineno or 0) - function.lineno + 1) > FUNCTION_LINES
    ]
    assert not long, f"Split these at {FUNCTION_LINES} lines: {long}"


def test_protocols_have_at_most_six_methods() -> None:
    wide: list[str] = []
    seen = 0
    for path in files(PACKAGES):
        for one in classes(path):
            if any("Protocol" in ast.unparse(base) for base in one.bases):
                seen += 1
                methods = [node.name for node in one.body if isinstance(node, ast.FunctionDef)]
                if len(methods) > PROTOCOL_METHODS:
                    wide.append(f"{where(path, one)} {one.name}: {methods}")
    assert seen >= 10
    assert not wide, f"Split these Protocols at {PROTOCOL_METHODS} methods: {wide}"


def test_dataclasses_of_the_contract_are_frozen_slotted_and_keyword_only() -> None:
    loose: list[str] = []
    for path in files(("enpire",)):
        if path.name in {"types.py", "interfaces.py", "arrivals.py", "gate.py", "recipe.py", "campaign.py"}:
            for one in classes(path):
                marks = [ast.unparse(mark) for mark in one.decorator_list if "dataclass" in ast.unparse(mark)]
                if marks and not all(f"{word}=True" in marks[0] for word in ("frozen", "slots", "kw_only")):
                    loose.append(f"{where(path, one)} {one.name}")
    assert not loose
