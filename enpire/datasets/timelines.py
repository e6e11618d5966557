"""One episode as viewers show it: numbers and images before every command, and notes at moments of the rollout."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Literal

import numpy as np

from enpire.campaign.events import Event, kinds_of
from enpire.campaign.quarantine_events import EpisodeSuspected
from enpire.campaign.station_events import OperatorNeeded, StationHeld, StationLeft
from enpire.datasets.dataset_export import read_critic_outputs
from enpire.datasets.lerobot_export import CriticOutputs
from enpire.errors import FileProblem, UsageError
from enpire.store import pictures
from enpire.store.arrays import decision_of
from enpire.store.episodes import FolderStore
from enpire.store.ledger import SqliteLedger
from enpire.store.reading import Reading
from enpire.store.rows import OrderRow
from enpire.types import JUDGED, SOURCE_HUMAN, Episode, EpisodeArrays, MaskArray, TaskSpec
from enpire.wording import counted

Level = Literal["INFO", "WARN", "ERROR"]
EncodedImages = Mapping[str, bytes]
"""Camera -> JPEG or PNG bytes of one instant."""
_KINDS = kinds_of(StationHeld, StationLeft, OperatorNeeded, EpisodeSuspected)


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """One sentence at a moment of the rollout."""

    tick: int
    """Number of the command before which it happened; the number of commands for the end of the rollout."""
    text: str
    level: Level = "INFO"


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """One recorded episode on its time axis."""

    spec: TaskSpec
    episode: Episode
    arrays: EpisodeArrays
    critics: CriticOutputs
    """The critics' outputs for each decision; empty where none were computed."""
    notes: Sequence[Note]
    """Sorted by tick: retries, interventions, guard and station events, verdict, label."""
    began_ns: int
    """Wall clock, in ns, at which the rollout began: the time when the ledger recorded its end, less its length."""

    @property
    def ticks(self) -> int:
        """Number of commands."""
        return len(self.arrays.action)

    @property
    def human(self) -> MaskArray:
        """Commands of a person: bool (ticks,)."""
        return np.asarray(self.arrays.source == SOURCE_HUMAN, np.bool_)

    def decisions(self, name: str) -> Iterator[tuple[int, float]]:
        """(tick, value) of one output of the critics, at the first command of each decision."""
        values, seen = self.critics.get(name, ()), -1
        for tick, decision in enumerate(decision_of(self.arrays.chunk).tolist()):
            if seen < decision < len(values):
                seen = decision
                yield tick, values[decision]

    def facts(self) -> dict[str, str]:
        """What identifies the episode, as texts."""
        episode, order = self.episode, self.episode.order
        return {
            "episode": order.order_id, "campaign": order.campaign_id, "task": order.task, "station": order.station,
            "policy": episode.ran_policy_id, "purpose": order.purpose, "round": str(order.round),
            "outcome": episode.outcome, "cause": episode.cause, "confidence": f"{episode.confidence:g}",
            "instruction": self.spec.instruction, "rate_hz": f"{self.spec.rate_hz:g}",
        }  # fmt: skip


def read_timeline(ledger: SqliteLedger, store: FolderStore, spec: TaskSpec, order_id: str) -> Timeline:
    """The timeline of a recorded episode.

    Raises:
        FileProblem: its arrays cannot be read, or do not fit the task.
        UsageError: the ledger has no end of this order.
    """
    episode, reading = store.get(order_id), Reading.of(ledger)
    row, arrays = reading.order(order_id), episode.arrays
    if row is None or row.ended_seq is None or row.episode is None:
        raise UsageError(f"Episode {order_id} has not ended; export it after its end.")
    if arrays is None or (arrays.state.shape[1], arrays.action.shape[1]) != (spec.state_dim, spec.action_dim):
        raise FileProblem(
            f"The recording of episode {order_id} does not fit the task {spec.name}, which has {spec.state_dim} state "
            f"and {spec.action_dim} action numbers."
        )
    ended_ns = reading.stamps([row.ended_seq])[row.ended_seq]
    began_ns = ended_ns - round(len(arrays.action) * spec.period_s * 1e9)
    recorded = [*_recorded_notes(row.episode, arrays), *_ledger_notes(ledger, row, began_ns, spec)]
    end = len(arrays.action)
    return Timeline(
        spec=spec, episode=row.episode, arrays=arrays, critics=read_critic_outputs(store.folder(order_id)),
        notes=sorted([*recorded, *_end_notes(row, end)], key=lambda note: note.tick), began_ns=began_ns,
    )  # fmt: skip


def stored_images(store: FolderStore, order_id: str, ticks: int) -> Iterator[tuple[int, EncodedImages]]:
    """(tick, images) for every tick of which the station, or an earlier replay, kept images; as stored."""
    found = pictures.shown(store.folder(order_id))
    for tick in range(ticks + 1) if found is not None else ():
        assert found is not None
        images = {camera: found.data(camera, tick) for camera in found.cameras if found.has(camera, tick)}
        if images:
            yield tick, images


def is_jpeg(data: bytes) -> bool:
    """Whether an encoded image is a JPEG; otherwise it is a PNG."""
    return data.startswith(b"\xff\xd8")


def _recorded_notes(episode: Episode, arrays: EpisodeArrays) -> Iterator[Note]:
    order = episode.order
    yield Note(tick=0, text=f"Rollout of {episode.ran_policy_id[:12]} at {order.station}, to {order.purpose}")
    for tick in episode.attempts:
        yield Note(tick=tick, text="The robot tries again")
    if episode.predicted_failure_at >= 0:
        yield Note(tick=episode.predicted_failure_at, text="The policy predicts a failure", level="WARN")
    human = np.concatenate([[False], arrays.source == SOURCE_HUMAN, [False]])
    edges = np.flatnonzero(human[1:] != human[:-1]).tolist()
    for began, ended in zip(edges[::2], edges[1::2], strict=True):
        yield Note(tick=began, text="Intervention: a person takes over", level="WARN")
        yield Note(tick=ended, text=f"The person hands back after {counted(ended - began, 'command')}")


def _ledger_notes(ledger: SqliteLedger, row: OrderRow, began_ns: int, spec: TaskSpec) -> Iterator[Note]:
    """Events of the station between order and end, at the moments at which the ledger recorded them."""
    last, episode = row.ended_seq or 0, row.episode
    ticks = episode.ticks if episode else 0
    entries = ledger.events(after=row.issued_seq, kinds=_KINDS)
    for entry in takewhile(lambda entry: entry.seq <= last, entries):
        text = _station_text(entry.event, row) if entry.campaign_id == row.order.campaign_id else ""
        if text:
            tick = round((entry.stamp_ns - began_ns) * 1e-9 / spec.period_s)
            yield Note(tick=min(max(tick, 0), ticks), text=text, level="ERROR")


def _station_text(event: Event, row: OrderRow) -> str:
    match event:
        case StationHeld() if event.station == row.order.station:
            return f"The station is held: {event.command} by {event.by}"
        case StationLeft() if event.station == row.order.station:
            return f"The station leaves: {event.cause}"
        case OperatorNeeded() if event.station == row.order.station:
            return f"Guard or station: {event.alarm}"
        case EpisodeSuspected() if event.order_id == row.order.order_id:
            return f"Tripwire {event.tripwire}: {event.why}"
        case _:
            return ""


def _end_notes(row: OrderRow, end: int) -> Iterator[Note]:
    episode = row.episode
    assert episode is not None
    if episode.clipped:
        yield Note(tick=end, text=f"Guard: the envelope limited {counted(episode.clipped, 'command')}", level="WARN")
    why = f": {episode.cause}" if episode.cause else ""
    if episode.outcome in JUDGED:
        level: Level = "ERROR" if episode.outcome == "unsafe" else "INFO"
        yield Note(tick=end, text=f"Verdict: {episode.outcome} ({episode.confidence:.0%}){why}", level=level)
    else:
        yield Note(tick=end, text=f"No verdict, {episode.outcome}{why}", level="ERROR")
    if row.person_outcome is not None:
        yield Note(tick=end, text=f"Label of a person: {row.person_outcome}")
