"""The experiments and versions of a campaign that were put into quarantine, for readers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from enpire.campaign.quarantine_events import APPROVALS, ExperimentCleared, ExperimentQuarantined


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineView:
    """One quarantine of an experiment, or of a version that no experiment made."""

    subject: str
    """Id that `enpire experiment clear` takes: the experiment, or the version."""
    experiment_id: str
    policy_id: str
    """The version that tripped; empty where none was made yet."""
    tripwire: str
    """canary, displacement, speed, critic, gate gap, probe, flood, forged lane, operator, approval, or promotion
    approval."""
    why: str
    by: str
    """The operator who asked for it; empty for a tripwire."""
    episodes: tuple[str, ...]
    """The episodes that are the evidence."""
    at_s: float
    """Elapsed seconds of the campaign."""
    cleared_by: str = ""
    """The person who cleared it; empty while it is held."""
    reason: str = ""
    """Why it was cleared."""

    @property
    def held(self) -> bool:
        """Whether it still waits for a person."""
        return not self.cleared_by


@dataclass(slots=True)
class Quarantines:
    """The quarantines of one campaign, oldest first."""

    found: list[tuple[float, ExperimentQuarantined, ExperimentCleared | None]]

    def apply(self, event: ExperimentQuarantined | ExperimentCleared, elapsed_s: float) -> None:
        """Add a quarantine, or close those that a person cleared; later ones still hold."""
        if isinstance(event, ExperimentQuarantined):
            self.found.append((elapsed_s, event, None))
            return
        self.found = [
            (at_s, held, event if ended is None and _ends(event, held) else ended) for at_s, held, ended in self.found
        ]

    def views(self) -> tuple[QuarantineView, ...]:
        """All of them, oldest first."""
        return tuple(
            QuarantineView(
                subject=held.subject, experiment_id=held.experiment_id, policy_id=held.policy_id,
                tripwire=held.tripwire, why=held.why, by=held.by, episodes=held.episodes, at_s=at_s,
                cleared_by=ended.by if ended else "", reason=ended.reason if ended else "",
            )
            for at_s, held, ended in self.found
        )  # fmt: skip


def _ends(event: ExperimentCleared, held: ExperimentQuarantined) -> bool:
    return held.subject == event.subject and held.tripwire not in event.still


def quarantine_text(views: Sequence[QuarantineView]) -> str:
    """The quarantines as text: who waits for a person, and what was cleared."""
    lines = ["quarantine: opens no gate and is not promoted until a person clears it"]
    for view in views:
        subject = f"experiment {view.subject}" if view.experiment_id else f"version {view.subject[:12]}"
        by = f"asked by {view.by}" if view.by else _reason(view.tripwire)
        lines.append(f"  {subject}, {by}: {view.why}")
        if view.cleared_by:
            lines.append(f"    cleared by {view.cleared_by}: {view.reason}")
        else:
            lines.append(f"    held; to clear it: enpire experiment clear {view.subject} --reason TEXT")
    return "\n".join(lines)


def _reason(tripwire: str) -> str:
    return f"waits for its {tripwire}" if tripwire in APPROVALS else f"tripwire {tripwire}"
