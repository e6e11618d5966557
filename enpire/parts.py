"""The groups of plug-ins, with the type of their parts: a caller loads or makes a part and needs no cast.

The declared type is a promise of the plug-in. The conformance suites test it; loading a part does not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeGuard, cast, runtime_checkable

from enpire import plugins
from enpire.interfaces import Agent, Learner, Policy, Rig, Task, Verifier


@dataclass(frozen=True, slots=True)
class PartGroup[**P, T]:
    """A group of plug-ins. Each part of it is called with the parameters P and gives a T."""

    name: str
    """The group, as in `enpire.plugins.BUILT_IN`; "module:attribute" can be loaded under any group."""

    def load(self, part: str, /) -> Callable[P, T]:
        """The part of a name, not yet called.

        Raises:
            EnpireError: as `enpire.plugins.load`.
        """
        return cast("Callable[P, T]", plugins.load(self.name, part))

    def make(self, part: str, /, *arguments: P.args, **named: P.kwargs) -> T:
        """Load a part and call it.

        Raises:
            EnpireError: as `enpire.plugins.make`.
        """
        return cast("T", plugins.make(self.name, part, *arguments, **named))


TASKS: PartGroup[[], Task] = PartGroup("tasks")
DRIVERS: PartGroup[[Task, int, int, Mapping[str, object]], Rig] = PartGroup("drivers")
"""Called with the task, the number of lanes, the seed and the options of the driver."""
POLICIES: PartGroup[[Path], Policy] = PartGroup("policies")
"""Called with the folder of a policy version."""
UNSANDBOXED: PartGroup[[Path], Policy] = PartGroup("unsandboxed")
"""By kind of policy whose code runs in a sandbox: loads a version also where there is none. Called as `POLICIES`."""
ADMISSIONS: PartGroup[[Path], object] = PartGroup("admissions")
"""By kind of policy. Called with the folder of a version from elsewhere, before it is copied into the home; raises
PolicyProblem for files that may hold more than data."""
LEARNERS: PartGroup[[], Learner] = PartGroup("learners")
AGENTS: PartGroup[..., Agent] = PartGroup("agents")
VERIFIERS: PartGroup[[Task, Mapping[str, object]], Verifier] = PartGroup("verifiers")
"""Called with the task and the options of the verifier."""


@runtime_checkable
class NeedsKeys(Protocol):
    """A part whose process needs environment variables that hold API keys."""

    keys: Sequence[str]
    """Names of the variables."""


def key_variables(part: object) -> tuple[str, ...]:
    """Names of the environment variables with the API keys that a loaded part needs."""
    return tuple(part.keys) if isinstance(part, NeedsKeys) else ()


@runtime_checkable
class StartsFromKinds(Protocol):
    """A learner that can start from some kinds of policies only."""

    parent_kinds: Set[str]
    """Kinds of versions, as in their policy.json."""


def parent_kinds(learner: object) -> Set[str] | None:
    """The kinds of policies that a loaded learner can start from; None if from any."""
    return learner.parent_kinds if isinstance(learner, StartsFromKinds) else None


@runtime_checkable
class NeedsServers(Protocol):
    """A part whose process connects to servers. The room of an agent reaches these and no other address."""

    servers: Mapping[str, str]
    """Environment variable -> the server's URL where the variable is not set."""


def server_urls(part: object) -> Mapping[str, str]:
    """Environment variable -> default URL of each server that a loaded part connects to."""
    return dict(part.servers) if isinstance(part, NeedsServers) else {}


@runtime_checkable
class CallsModels(Protocol):
    """An agent that calls language models, through the model gateway."""

    @staticmethod
    def providers(options: Mapping[str, object]) -> Sequence[str]:
        """Names of the providers that it calls with these options."""
        ...


def providers_of(part: object, options: Mapping[str, object]) -> tuple[str, ...]:
    """Names of the providers of language models that a loaded agent calls."""
    return tuple(part.providers(options)) if isinstance(part, CallsModels) else ()


@runtime_checkable
class LimitsTokens(Protocol):
    """An agent whose options limit the tokens of its session, also where they name no number."""

    @staticmethod
    def token_limit(options: Mapping[str, object]) -> int:
        """The most tokens of a session with these options; 0: no limit."""
        ...


def token_limit(part: object, options: Mapping[str, object]) -> int:
    """The most tokens of a session of a loaded agent; without a limit of its own, its option `tokens`; 0: no limit."""
    if isinstance(part, LimitsTokens):
        return part.token_limit(options)
    option = options.get("tokens", 0)
    return option if isinstance(option, int) else 0


@runtime_checkable
class RunsPrograms(Protocol):
    """An agent that runs programs of the system in its room."""

    @staticmethod
    def program_files(options: Mapping[str, object]) -> Sequence[Path]:
        """Files and folders that these programs need; the room may read them."""
        ...


def settings_class(part: object, attribute: str) -> type[object] | None:
    """The class in an attribute of a part, such as `settings` of a learner; None where there is no class."""
    found: object = getattr(part, attribute, None)
    return found if _is_class(found) else None


def _is_class(value: object) -> TypeGuard[type[object]]:
    return isinstance(value, type)
