"""One episode of the train split as an agent sees it: key frames where there are, and series of few points."""

from __future__ import annotations

import base64
from pathlib import Path

import numpy as np

from agent_loop.lab_client import LabClient
from enpire.errors import UnknownName, UsageError
from enpire.queries import campaigns
from enpire.store.arrays import unpack
from enpire.store.pictures import media_type, shown
from enpire.types import FloatArray

POINTS = 48
"""Frames that a series is thinned to."""
PICTURES = 4
LARGEST_PICTURE = 200_000
"""Bytes."""


def episode_summary(client: LabClient, episode_id: str) -> dict[str, object]:
    """The episode of an id.

    Raises:
        UnknownName: this campaign has no such episode.
        UsageError: it ran on a hidden start, which no agent sees.
    """
    with campaigns.open_records(client.home) as records:
        view = campaigns.episode(records, episode_id)
    line = view.episode
    if line.campaign_id != client.sender.campaign_id:
        raise UnknownName(f"There is no episode {episode_id!r} in this campaign.")
    if view.start_split != "train":
        raise UsageError(f"Episode {episode_id} ran on a hidden start; agents see episodes of the train split only.")
    told: dict[str, object] = {
        "episode_id": line.order_id, "outcome": line.outcome, "cause": line.cause, "purpose": line.purpose,
        "round": line.round, "policy_id": line.policy_id, "ticks": line.ticks, "confidence": line.confidence,
        "commands_clipped": view.clipped,
    }  # fmt: skip
    recording = Path(view.folder) / "arrays.npz"
    if view.folder and recording.is_file():
        arrays = unpack(recording.read_bytes())
        kept = np.unique(np.linspace(0, len(arrays.action) - 1, POINTS).round().astype(np.int64))
        kept = kept[kept >= 0]
        told["frames"] = kept.tolist()
        told["state"], told["action"] = _columns(arrays.state[kept]), _columns(arrays.action[kept])
        told["source"] = arrays.source[kept].tolist()
    told["pictures"] = _pictures(Path(view.folder), view.pictures)
    return told


def _columns(rows: FloatArray) -> list[list[float]]:
    """One list for each dimension, in the order of the task's spec."""
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
