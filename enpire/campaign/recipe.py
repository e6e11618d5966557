"""The recipe: how a learner makes a version, as data. Every version carries the hash of its recipe."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, is_dataclass, replace
from pathlib import Path
from typing import Protocol, runtime_checkable

from enpire.campaign.search_space import Axis, Range, axes, axis_of, same
from enpire.errors import EnpireError, FileProblem, UsageError
from enpire.files import canonical, find, is_mapping, parse, plain, read_yaml, shown
from enpire.interfaces import ChecksRecipe
from enpire.parts import LEARNERS, settings_class

Setting = bool | int | float | str | tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """One way to improve a policy."""

    name: str
    learner: str
    """Plug-in name of the learner, such as `habc`."""
    settings: Mapping[str, Setting] = field(default_factory=dict[str, Setting])
    """Settings of the learner, which refuses settings that it does not know."""
    space: Mapping[str, tuple[bool | int | float | str, ...]] = field(
        default_factory=dict[str, tuple[bool | int | float | str, ...]]
    )
    """Settings that agents may change: name -> [low, high, "linear" or "log"], or a list of choices."""
    turn_rollouts: int = 0
    """In a branch: rollouts of its newest version after which it trains again; 0: as many as a round has."""

    def __post_init__(self) -> None:
        """Refuse a space that names a missing setting, an axis that is not valid, or a negative number of rollouts."""
        if self.turn_rollouts < 0:
            raise ValueError(f"turn_rollouts is {self.turn_rollouts}; it must be at least 0.")
        for name, written in self.space.items():
            if name not in self.settings:
                raise ValueError(f"space names {name!r}, which is not among the settings; give it a value there.")
            axis_of(name, written)

    def mapping(self) -> dict[str, object]:
        """The form that `ImprovementJob.recipe` carries."""
        return {"name": self.name, "learner": self.learner, "settings": plain(self.settings)}

    def without_space(self) -> Recipe:
        """The recipe without its search space and its turns, as learners get it."""
        return replace(self, space={}, turn_rollouts=0)

    @property
    def hash(self) -> str:
        """sha256 of learner and settings in canonical form; name and space are not hashed."""
        return hashlib.sha256(canonical({"learner": self.learner, "settings": self.settings}).encode()).hexdigest()


def read_recipe(name_or_path: str | Path) -> Recipe:
    """A recipe by name (configs/recipes) or path; FileProblem says what is wrong where.

    A file may say `like: NAME`: learner and settings are those of that recipe, with the file's own settings put over
    them. The space is not taken over: what agents may change, each recipe says for itself.
    """
    path = find("recipes", name_or_path)
    return parse(Recipe, _whole(path, ()), f"The recipe {path}")


def settings_of[T](kind: type[T], recipe: Mapping[str, object]) -> T:
    """The settings of `ImprovementJob.recipe` as a learner's dataclass; FileProblem for one unknown or not allowed."""
    return parse(kind, recipe.get("settings", {}), f"The recipe {recipe.get('name')}, settings")


@runtime_checkable
class HasStages(Protocol):
    """A learner whose recipe names a recipe for each round, or for each turn of a branch."""

    def stage(self, recipe: Recipe, turn_or_round: int) -> Recipe:
        """The recipe of a round or turn."""
        ...


def stage_of(recipe: Recipe, turn_or_round: int) -> Recipe:
    """The recipe that a training run follows: that of its stage if the recipe has stages, else the recipe itself."""
    learner = LEARNERS.make(recipe.learner)
    return learner.stage(recipe, turn_or_round) if isinstance(learner, HasStages) else recipe


def require_learner(recipe: Recipe) -> None:
    """Refuse settings that the recipe's learner does not know or allow, before the campaign starts.

    The learner declares its settings as a dataclass in the class attribute `settings`. Rules that a dataclass cannot
    express go into a method `check` (`ChecksRecipe`). Without either, any settings pass.

    Raises:
        EnpireError: the learner does not exist, or it refuses the settings.
    """
    learner, written = LEARNERS.make(recipe.learner), recipe.mapping()
    kind = settings_class(learner, "settings")
    if kind is not None:
        if not is_dataclass(kind):
            raise UsageError(
                f"`settings` of the learner {recipe.learner!r} is the class {kind.__name__}, which is no dataclass; "
                "declare the dataclass of its settings there, or rename the attribute."
            )
        settings_of(kind, written)
    if not isinstance(learner, ChecksRecipe):
        return
    try:
        learner.check(written)
    except EnpireError:
        raise
    except Exception as problem:
        raise UsageError(
            f"`check` of the learner {recipe.learner!r} fails on the recipe {recipe.name}, where it should raise "
            f"FileProblem or nothing: {problem}."
        ) from problem


def changed(recipe: Recipe, changes: Mapping[str, object], name: str) -> Recipe:
    """The recipe with some settings changed, under another name.

    Raises:
        UsageError: a setting is not in the search space, a value is outside its axis, or nothing changes.
    """
    known = axes(recipe.space)
    if not changes:
        raise UsageError("A candidate must change at least one setting; name it and its new value in `changes`.")
    for setting, value in changes.items():
        axis = known.get(setting)
        if axis is None:
            allowed = ", ".join(known) or "none: the recipe declares no `space`"
            raise UsageError(f"The setting {setting!r} is not in the search space; these may be changed: {allowed}.")
        if not axis.holds(value):
            raise UsageError(f"The setting {setting!r} cannot be {shown(value)}; allowed are {axis}.")
    typed = {key: _typed(known[key], value) for key, value in changes.items()}
    # A value that the recipe has already keeps its spelling, so that equal recipes have one hash.
    new = {key: value for key, value in typed.items() if not same(recipe.settings[key], value)}
    settings = {**recipe.settings, **new}
    made = replace(recipe, name=name, settings=settings)
    if made.hash == recipe.hash:
        raise UsageError("The changes leave the recipe as it is; a candidate must differ from the recipe in force.")
    return made


def _typed(axis: Axis, value: object) -> Setting:
    if not isinstance(value, bool | int | float | str):
        raise UsageError(f"A setting is a number, a text or true or false, not {shown(value)}.")
    if isinstance(axis, Range):
        return int(value) if axis.whole else float(value) + 0.0  # -0.0 becomes 0.0
    return next(option for option in axis.options if same(option, value))


def _whole(path: Path, asked: tuple[Path, ...]) -> Mapping[str, object]:
    """The mapping of a recipe file, completed from the recipe that it names under `like`."""
    own = dict(read_yaml(path))
    if "like" not in own:
        return own
    like = own.pop("like")
    if not isinstance(like, str) or path in asked:
        raise FileProblem(
            f"The recipe {path}: like must name another recipe, one that is not like this one; change it."
        )
    settings = _settings(own, path)
    model = _whole(find("recipes", like), (*asked, path))
    merged = {**_settings(model, find("recipes", like)), **settings}
    return {"learner": model.get("learner"), **own, "settings": merged}


def _settings(recipe: Mapping[str, object], path: Path) -> Mapping[object, object]:
    settings = recipe.get("settings", {})
    if not is_mapping(settings):
        raise FileProblem(f"The recipe {path}, key 'settings' must be a mapping of keys to values.")
    return settings
