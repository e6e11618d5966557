"""LeRobot's plug-in packages of policies: distributions named `lerobot_policy_*`, which register a type on import.

LeRobot's own function imports the plug-ins of robots, cameras and environments, too, and only logs those that fail.
Here policies alone are imported, once, and a failure is named when its type is asked for.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import sys
from collections.abc import Mapping
from functools import cache
from typing import cast

PREFIX = "lerobot_policy_"


@cache
def import_plugins() -> Mapping[str, str]:
    """Import the installed plug-ins of policies; package -> why it could not be imported, for those that failed."""
    failed: dict[str, str] = {}
    for package in plugin_packages():
        try:
            with contextlib.redirect_stdout(sys.stderr):
                importlib.import_module(package)
        except (Exception, SystemExit) as problem:  # noqa: BLE001 - code of others
            failed[package] = f"{type(problem).__name__}: {problem}"[:300]
    return failed


def plugin_packages() -> list[str]:
    """Packages of the installed distributions that follow LeRobot's convention, sorted."""
    names = {str(one.metadata["Name"] or "").replace("-", "_") for one in importlib.metadata.distributions()}
    return sorted(name for name in names if name.startswith(PREFIX) and name.isidentifier())


def _no_plugin_installed() -> bool:
    """Whether no plug-in is installed and LeRobot, whose import takes seconds, is not imported: no name is foreign."""
    return "lerobot" not in sys.modules and not plugin_packages()


def plugin_types() -> tuple[str, ...]:
    """Types of policies that plug-ins register, sorted; none without LeRobot."""
    if _no_plugin_installed():
        return ()
    try:
        from lerobot.configs.policies import PreTrainedConfig
    except ImportError:
        return ()
    import_plugins()
    known = cast("Mapping[str, type]", PreTrainedConfig.get_known_choices())
    return tuple(sorted(name for name, config in known.items() if is_foreign(config)))


def plugin_steps() -> frozenset[str]:
    """Names of the processor steps that plug-ins of policies register."""
    if _no_plugin_installed():
        return frozenset()
    try:
        from lerobot.processor import ProcessorStepRegistry
    except ImportError:
        return frozenset()
    import_plugins()
    names = cast("list[str]", ProcessorStepRegistry.list())
    packages = set(plugin_packages())
    return frozenset(name for name in names if _root(ProcessorStepRegistry.get(name)) in packages)


def failures() -> str:
    """The plug-ins that could not be imported, as the end of a sentence; empty if all could."""
    failed = import_plugins()
    return "".join(f" The plug-in {name} could not be imported ({why})." for name, why in failed.items())


def is_foreign(config: type) -> bool:
    """Whether a configuration's class is of a package other than LeRobot."""
    return _root(config) != "lerobot"


def require_type(family: str, own: tuple[str, ...]) -> None:
    """Check that a new policy can be of this type: one of `own`, or of a plug-in.

    Raises:
        ValueError: the sentence lists the types.
    """
    if family not in own and family not in plugin_types():
        known = ", ".join((*own, *plugin_types()))
        raise ValueError(f"family is {family[:80]!r}; a new policy can be one of {known}.{failures()}")


def _root(part: type) -> str:
    return part.__module__.partition(".")[0]
