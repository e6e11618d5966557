"""The champion that a station loads ahead of its orders."""

from __future__ import annotations

from enpire.errors import PolicyProblem
from enpire.station.policy_cache import PolicyCache


class Champion:
    """The version that the orchestrator named last, and the one that is loaded."""

    def __init__(self, cache: PolicyCache) -> None:
        self._cache = cache
        self.wanted, self.deployed = "", ""

    def load(self) -> str:
        """Load the wanted version if it can be; returns it when it has just become the deployed one, else nothing."""
        if not self.wanted or self.deployed == self.wanted:
            return ""
        try:
            loaded = self._cache.find(self.wanted)
        except PolicyProblem:
            return ""
        if loaded is None:
            return ""
        self.deployed = loaded.policy_id
        return self.deployed
