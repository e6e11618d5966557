"""Loads the policy of a version's folder, if its kind is installed or allowed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from enpire import plugins
from enpire.errors import PolicyProblem
from enpire.files import shown
from enpire.interfaces import Policy
from enpire.parts import POLICIES, UNSANDBOXED
from enpire.store import versions

SERVER_KINDS = frozenset({"openpi"})
"""Kinds whose versions only say where a server runs their inference: they hold no code and need the network."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowedKinds:
    """Kinds "module:name", which can be any code, of versions that a process may load besides the installed ones."""

    kinds: Sequence[str] = ()
    where: str = "nothing here can allow it"
    """What names them, as the end of an error sentence."""
    unsandboxed: bool = False
    """Whether versions with the code of agents may run without a sandbox where bubblewrap does not work."""


def load_version(folder: Path, policy_id: str, allowed: AllowedKinds | None = None) -> Policy:
    """Load the policy of a folder whose hash was checked.

    Raises:
        PolicyProblem: its kind is neither installed nor allowed; nothing was imported.
        EnpireError: as the policy plug-in raises it.
    """
    kind, also = str(versions.manifest(folder)["kind"]), allowed or AllowedKinds()
    if not plugins.is_part("policies", kind) and kind not in also.kinds:
        raise PolicyProblem(
            f"its kind {shown(kind)} is not installed here; installed are {', '.join(plugins.names('policies'))}. If "
            f"you trust this code, {also.where}"
        )
    if also.unsandboxed and plugins.is_part(UNSANDBOXED.name, kind):
        return UNSANDBOXED.load(kind)(folder)
    return POLICIES.load(kind)(folder)


def require_horizon(policy: Policy) -> None:
    """Check that a policy executes at least one action of a chunk and at most all.

    Raises:
        PolicyProblem: it does not.
    """
    if not 1 <= policy.execute <= policy.horizon:
        raise PolicyProblem(f"it executes {policy.execute} of {policy.horizon} actions; at least 1, at most all")
