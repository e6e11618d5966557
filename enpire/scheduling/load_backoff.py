"""Backoff of one station for versions that it refused: each refusal in a row doubles the wait before the next order."""

from __future__ import annotations

from dataclasses import dataclass, field

from enpire.types import Episode, never_began, refused

FIRST_S, LONGEST_S = 30.0, 960.0
"""Wait after the first refusal in a row, doubled by each further one, and the longest wait."""
TRIES = 3
"""Refusals in a row after which the station counts as unable to run the version."""


@dataclass(slots=True)
class _Refusal:
    why: str = ""
    times: int = 0
    """Refusals in a row; orders refused within one wait count once."""
    until_s: float = float("-inf")


@dataclass(slots=True)
class LoadBackoff:
    """Refusals of one station since it joined, by version. All times are on the orchestrator's clock."""

    versions: dict[str, _Refusal] = field(default_factory=dict[str, _Refusal])

    def record(self, episode: Episode, now_s: float) -> str:
        """Record the end of an order. Returns one sentence for the operator at the first refusal of a version."""
        version = episode.order.policy_id
        if not refused(episode.outcome, episode.cause):
            if not never_began(episode.outcome, episode.cause):
                self.versions.pop(version, None)
            return ""
        refusal = self.versions.setdefault(version, _Refusal())
        if now_s < refusal.until_s:
            return ""
        refusal.why = episode.cause.partition(": ")[2]
        refusal.until_s = now_s + min(LONGEST_S, FIRST_S * 2**refusal.times)
        refusal.times += 1
        return _sentence(version, refusal) if refusal.times == 1 else ""

    def excluded(self, now_s: float) -> frozenset[str]:
        """Versions that get no orders now."""
        return frozenset(version for version, refusal in self.versions.items() if now_s < refusal.until_s)

    def alarm(self, now_s: float) -> str:
        """One sentence for the operator about a refused version; empty if there is none."""
        waiting = sorted(self.excluded(now_s))
        return _sentence(waiting[0], self.versions[waiting[0]]) if waiting else ""

    def unable(self, version: str) -> str:
        """Why the station cannot run a version; empty before `TRIES` refusals in a row."""
        refusal = self.versions.get(version)
        return refusal.why if refusal is not None and refusal.times >= TRIES else ""


def _sentence(version: str, refusal: _Refusal) -> str:
    return f"It cannot run version {version[:12]} and gets no orders of it for now: {refusal.why}"
