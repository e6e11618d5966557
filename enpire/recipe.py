"""The recipe: how to improve, as data. Its canonical form has a hash, which every version that it made carries."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from enpire.files import canonical, find, parse, plain, read_yaml

Setting = bool | int | float | str | tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """One way to improve a policy."""

    name: str
    learner: str
    """Plug-in name of the learner, such as `habc`."""
    settings: Mapping[str, Setting] = field(default_factory=dict[str, Setting])
    """What the learner reads; it refuses settings that it does not know."""

    def mapping(self) -> dict[str, object]:
        """As `ImprovementJob.recipe` carries it."""
        return {"name": self.name, "learner": self.learner, "settings": plain(self.settings)}

    @property
    def hash(self) -> str:
        """sha256 of learner and settings in canonical form; the name does not count."""
        return hashlib.sha256(canonical({"learner": self.learner, "settings": self.settings}).encode()).hexdigest()


def read_recipe(name_or_path: str | Path) -> Recipe:
    """A recipe by name (configs/recipes) or path; FileProblem says what is wrong where."""
    path = find("recipes", name_or_path)
    return parse(Recipe, read_yaml(path), f"The recipe {path}")
