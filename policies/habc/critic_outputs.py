"""What the critics think of each decision of an episode, kept beside its arrays for the people who look at it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch

from enpire.store.arrays import decision_of
from enpire.types import FloatArray
from policies.clone import window_spec
from policies.habc.segments import td_spans
from policies.habc.train import CriticTraining, seen
from policies.normalise import Scale
from policies.training_data import RecordedEpisode

NAME = "figures.json"
NEWEST = 300
"""Episodes of one round that get their figures; the ones before have theirs from the round before."""


def write_critic_outputs(
    episodes: Sequence[RecordedEpisode], training: CriticTraining, scale: Scale, folders: Sequence[Path]
) -> int:
    """Write `p_v`, `V_e` and `g`, one number per decision, into the newest episodes' folders; how many.

    Every frame that a person commanded is a decision of its own and is judged, too; demonstrations are not. The file is
    derived and may be written again by the next round; a disk that refuses it takes nothing from the training run.
    """
    place = {folder.name: folder for folder in folders}
    newest = [item for item in reversed(episodes) if not item.demonstration and item.order_id in place][:NEWEST]
    for written, (episode, columns) in enumerate(zip(newest, _metrics(newest, training, scale), strict=True)):
        shown = {name: [round(float(value), 4) for value in column] for name, column in columns.items()}
        if not _write(place[episode.order_id] / NAME, shown):
            return written
    return len(newest)


def _metrics(
    episodes: Sequence[RecordedEpisode], training: CriticTraining, scale: Scale
) -> Sequence[Mapping[str, FloatArray]]:
    """Of every decision of each episode; the critics judge all of them at once."""
    if not episodes:
        return []
    settings = training.settings
    now, then, costs, final, counts = [], [], [], [], []
    for episode in episodes:
        _, begins = np.unique(decision_of(episode.arrays.chunk), return_index=True)
        later, cost, ends = td_spans(begins, episode.ticks, window_spec(settings, settings.multi_step))
        now.append(episode.arrays.state[begins])
        then.append(episode.arrays.state[later])
        costs.append(cost)
        final.append(ends)
        counts.append(len(begins))
    states = (np.concatenate(now), np.concatenate(then))
    rows = seen(states, np.concatenate(costs), np.concatenate(final), settings, scale)
    with torch.no_grad():
        value = training.critics.efficiency(rows.features).clamp(-training.critics.shape.horizon_decisions, 0.0)
    said, gates = training.gates_of(rows)
    edges = np.cumsum(counts)[:-1]
    parts = zip(*(np.split(column, edges) for column in (said.viability, value.numpy(), gates)), strict=True)
    return [{"p_v": p_v, "V_e": v_e, "g": g} for p_v, v_e, g in parts]


def _write(path: Path, shown: Mapping[str, Sequence[float]]) -> bool:
    staged = path.with_name(f".{path.name}")
    try:
        staged.write_text(json.dumps(shown), encoding="utf-8")
        staged.replace(path)
    except OSError:
        return False
    return True
