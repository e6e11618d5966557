"""LeRobot is not imported yet and cannot be: what asks for it, or for a library that it loads, gets ImportError."""

from __future__ import annotations

import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest

LIBRARIES = ("lerobot", "draccus", "transformers", "diffusers", "datasets")


class _Refusing(MetaPathFinder):
    """Notes the names of `LIBRARIES` that are asked for, and refuses them."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:  # fmt: skip
        if fullname.partition(".")[0] in LIBRARIES:
            self.asked.append(fullname)
            raise ImportError(f"No module named {fullname!r}: this test hides it.")
        return None


@contextmanager
def without_lerobot() -> Generator[list[str]]:
    """Hides the libraries, also those that an earlier test imported; gives the names that are asked for meanwhile."""
    finder = _Refusing()
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in sys.modules if name.partition(".")[0] in LIBRARIES]:
            patch.delitem(sys.modules, name)
        patch.setattr(sys, "meta_path", [finder, *sys.meta_path])
        yield finder.asked
