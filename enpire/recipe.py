"""The recipe: how to improve, as data. Its canonical form has a hash, which every version that it made carries."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from enpire.files import canonical, find, parse, plain, read_yaml
from enpire.space import axis_of

Setting = bool | int | float | str | tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """One way to improve a policy."""

    name: str
    learner: str
    """Plug-in name of the learner, such as `habc`."""
    settings: Mapping[str, Setting] = field(default_factory=dict[str, Setting])
    """What the learner reads; it refuses settings that it does not know."""
    space: Mapping[str, tuple[bool | int | float | str, ...]] = field(
        default_factory=dict[str, tuple[bool | int | float | str, ...]]
    )
    """Settings that agents may change: name -> [low, high, "linear" or "log"], or a list of choices."""

    def __post_init__(self) -> None:
        """Refuse a space that names what the recipe does not set, or that cannot be."""
        for name, written in self.space.items():
            if name not in self.settings:
                raise ValueError(f"space names {name!r}, which is not among the settings; give it a value there.")
            axis_of(name, written)

    def mapping(self) -> dict[str, object]:
        """As `ImprovementJob.recipe` carries it."""
        return {"name": self.name, "learner": self.learner, "settings": plain(self.settings)}

    @property
    def hash(self) -> str:
        """sha256 of learner and settings in canonical form; name and space do not count."""
        return hashlib.sha256(canonical({"learner": self.learner, "settings": self.settings}).encode()).hexdigest()


def read_recipe(name_or_path: str | Path) -> Recipe:
    """A recipe by name (configs/recipes) or path; FileProblem says what is wrong where."""
    path = find("recipes", name_or_path)
    return parse(Recipe, read_yaml(path), f"The recipe {path}")
