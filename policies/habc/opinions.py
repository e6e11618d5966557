"""What the critics think of each decision of an episode, kept beside its arrays for the people who look at it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch

from enpire.types import SOURCE_POLICY
from policies.habc.segments import Windows
from policies.habc.train import CriticTraining
from policies.training_data import Recorded

NAME = "figures.json"
NEWEST = 300
"""Episodes of one round that get their figures; the ones before have theirs from the round before."""


def write_opinions(
    episodes: Sequence[Recorded], windows: Windows, training: CriticTraining, folders: Sequence[Path]
) -> int:
    """Write `p_v`, `V_e` and `g`, one number per policy decision, into the newest episodes' folders; how many.

    Only episodes that nobody touched: their windows begin at every decision. The file is derived and may be written
    again by the next round; a disk that refuses it takes nothing from the training run.
    """
    apart, between = divmod(training.settings.execute, training.settings.stride)
    if between:
        return 0
    place = {folder.name: folder for folder in folders}
    figures = _figures(training)
    written = 0
    for index, episode in list(zip(np.unique(windows.episode), episodes, strict=True))[::-1]:
        rows = np.flatnonzero(windows.episode == index)[::apart]
        decisions = -(-episode.ticks // training.settings.execute)
        alone = bool((episode.arrays.source == SOURCE_POLICY).all())
        if written == NEWEST or not alone or len(rows) != decisions or episode.order_id not in place:
            continue
        shown = {name: [round(float(value), 4) for value in column[rows]] for name, column in figures.items()}
        if not _write(place[episode.order_id] / NAME, shown):
            break
        written += 1
    return written


def _figures(training: CriticTraining) -> Mapping[str, np.ndarray]:
    rows, critics = training.evidence.every, training.critics
    with torch.no_grad():
        value = critics.efficiency(rows.features).clamp(-critics.shape.horizon_decisions, 0.0)
    return {"p_v": training.advantages().viability, "V_e": value.numpy(), "g": training.gates}


def _write(path: Path, shown: Mapping[str, Sequence[float]]) -> bool:
    staged = path.with_name(f".{path.name}")
    try:
        staged.write_text(json.dumps(shown), encoding="utf-8")
        staged.replace(path)
    except OSError:
        return False
    return True
