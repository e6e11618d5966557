"""What the critics think of each decision of an episode, kept beside its arrays for the people who look at it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch

from enpire.store.arrays import decision_of
from enpire.types import FloatArray, IntArray
from policies.clone import cut_of
from policies.habc.segments import ahead
from policies.habc.train import CriticTraining, seen
from policies.normalise import Scale
from policies.training_data import Recorded

NAME = "figures.json"
NEWEST = 300
"""Episodes of one round that get their figures; the ones before have theirs from the round before."""


def write_opinions(
    episodes: Sequence[Recorded], training: CriticTraining, scale: Scale, folders: Sequence[Path]
) -> int:
    """Write `p_v`, `V_e` and `g`, one number per decision, into the newest episodes' folders; how many.

    Every frame that a person commanded is a decision of its own and is judged, too; demonstrations are not. The file is
    derived and may be written again by the next round; a disk that refuses it takes nothing from the training run.
    """
    place = {folder.name: folder for folder in folders}
    written = 0
    for episode in reversed(episodes):
        if written == NEWEST:
            break
        if episode.demonstration or episode.order_id not in place:
            continue
        _, begins = np.unique(decision_of(episode.arrays.chunk), return_index=True)
        columns = _figures(episode, begins, training, scale)
        shown = {name: [round(float(value), 4) for value in column] for name, column in columns.items()}
        if not _write(place[episode.order_id] / NAME, shown):
            break
        written += 1
    return written


def _figures(episode: Recorded, begins: IntArray, training: CriticTraining, scale: Scale) -> Mapping[str, FloatArray]:
    """Of the decisions at frames `begins` (n,)."""
    settings, state = training.settings, episode.arrays.state
    later, cost, ends = ahead(begins, episode.ticks, cut_of(settings, settings.multi_step))
    rows = seen((state[begins], state[later]), cost, ends, settings, scale)
    with torch.no_grad():
        value = training.critics.efficiency(rows.features).clamp(-training.critics.shape.horizon_decisions, 0.0)
    said, gates = training.gates_of(rows)
    return {"p_v": said.viability, "V_e": value.numpy(), "g": gates}


def _write(path: Path, shown: Mapping[str, Sequence[float]]) -> bool:
    staged = path.with_name(f".{path.name}")
    try:
        staged.write_text(json.dumps(shown), encoding="utf-8")
        staged.replace(path)
    except OSError:
        return False
    return True
