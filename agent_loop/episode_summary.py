"""One episode of the train split as an agent sees it: thinned series and, where recorded, a few camera images."""

from __future__ import annotations

import base64
from pathlib import Path

import numpy as np

from agent_loop.lab_client import LabClient
from enpire.errors import UnknownName, UsageError
from enpire.service import reading
from enpire.service.recordings import media_type, shown, unpack
from enpire.types import FloatArray

POINTS = 48
"""Most frames of a series."""
PICTURES = 4
"""Most camera images of an episode."""
LARGEST_PICTURE = 200_000
"""Bytes of one camera image."""


def episode_summary(client: LabClient, episode_id: str) -> dict[str, object]:
    """The episode with this id.

    Raises:
        UnknownName: this campaign has no such episode.
        UsageError: it ran on a hidden start, which agents must not see.
    """
    with reading.open_records(client.home) as records:
        view = reading.episode(records, episode_id)
        row = records.reading.order(view.episode.order_id)
    line = view.episode
    if line.campaign_id != client.sender.campaign_id:
        raise UnknownName(
            f"There is no episode {episode_id!r} in this campaign; failures_to_look_at of the brief names some."
        )
    if view.start_split != "train":
        raise UsageError(f"Episode {episode_id} ran on a hidden start; agents see episodes of the train split only.")
    if row is None or client.hides(row.order):
        raise UsageError(
            f"Episode {episode_id} is of another agent session, and the campaign has sharing: {client.sharing()}; "
            "read one of your own."
        )
    summary: dict[str, object] = {
        "episode_id": line.order_id, "outcome": line.outcome, "cause": line.cause, "purpose": line.purpose,
        "round": line.round, "policy_id": line.policy_id, "ticks": line.ticks, "confidence": line.confidence,
        "commands_clipped": view.clipped,
    }  # fmt: skip
    recording = Path(view.folder) / "arrays.npz"
    if view.folder and recording.is_file():
        arrays = unpack(recording.read_bytes())
        kept = np.unique(np.linspace(0, len(arrays.action) - 1, POINTS).round().astype(np.int64))
        kept = kept[kept >= 0]
        summary["frames"] = kept.tolist()
        summary["state"], summary["action"] = _columns(arrays.state[kept]), _columns(arrays.action[kept])
        summary["source"] = arrays.source[kept].tolist()
    summary["pictures"] = _pictures(Path(view.folder), view.pictures)
    return summary


def _columns(rows: FloatArray) -> list[list[float]]:
    """One list per dimension, in the order of the task's spec; `rows` is (frames, dimensions)."""
    return [[float(f"{value:.4g}") for value in column] for column in rows.T.tolist()]


def _pictures(folder: Path, names: tuple[str, ...]) -> list[dict[str, str]]:
    found, step = shown(folder), max(1, len(names) // PICTURES)
    if found is None:
        return []
    return [
        {"name": name, "media_type": media_type(name), "base64": base64.b64encode(data).decode("ascii")}
        for name in (*names[:-1:step][: PICTURES - 1], *names[-1:])
        if len(data := found.bytes_of(name)) <= LARGEST_PICTURE
    ]
