"""The critics' outputs for each decision of an episode, written beside its arrays for the page and for exports."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch

from enpire.store import removal
from enpire.store.arrays import decision_of
from enpire.types import FloatArray
from policies.clone import window_spec
from policies.habc.critic import advantages_of, both_of_all
from policies.habc.segments import td_spans
from policies.habc.train import CriticTraining, transitions
from policies.training_data import RecordedEpisode

NAME = "figures.json"
"""The file's name in an episode's folder."""
NEWEST = 300
"""Most episodes that one round writes; older ones have theirs from earlier rounds."""


def write_critic_outputs(episodes: Sequence[RecordedEpisode], training: CriticTraining, folders: Sequence[Path]) -> int:
    """Write `p_v`, `V_e` and `g`, one number per decision, into the newest episodes' folders; returns their number.

    A frame commanded by an operator is a decision of its own. Demonstrations are left out. The next round may write the
    file again. If the disk refuses it, writing ends and training continues.
    """
    folder_of = {folder.name: folder for folder in folders}
    newest = [item for item in reversed(episodes) if not item.demonstration and item.order_id in folder_of][:NEWEST]
    for written, (episode, columns) in enumerate(zip(newest, _metrics(newest, training), strict=True)):
        listed = {name: column.tolist() for name, column in columns.items()}
        if not _write(folder_of[episode.order_id] / NAME, listed):
            return written
    return len(newest)


def _metrics(episodes: Sequence[RecordedEpisode], training: CriticTraining) -> Sequence[Mapping[str, FloatArray]]:
    """Name -> (decisions,) for each episode, with four decimals; the critics evaluate all decisions at once."""
    if not episodes:
        return []
    settings = training.settings
    states, next_states, costs, final, counts = [], [], [], [], []
    for episode in episodes:
        _, begins = np.unique(decision_of(episode.arrays.chunk), return_index=True)
        later, cost, ends = td_spans(begins, episode.ticks, window_spec(settings, settings.multi_step))
        states.append(episode.arrays.state[begins])
        next_states.append(episode.arrays.state[later])
        costs.append(cost)
        final.append(ends)
        counts.append(len(begins))
    states = (np.concatenate(states), np.concatenate(next_states))
    rows = transitions(states, np.concatenate(costs), np.concatenate(final), settings, training.data.scale)
    critics, shape = training.critics, training.critics.shape
    with torch.no_grad():
        now, later = both_of_all(critics, rows.features), both_of_all(critics, rows.later)
        found, value = advantages_of(shape, rows, now, later), now[1].clamp(-shape.horizon_decisions, 0.0)
    edges = np.cumsum(counts)[:-1]
    columns = (found.viability, value.numpy(), training.gates_of(found))
    parts = zip(*(np.split(np.round(column.astype(np.float64), 4), edges) for column in columns), strict=True)
    return [{"p_v": p_v, "V_e": v_e, "g": g} for p_v, v_e, g in parts]


def _write(path: Path, listed: Mapping[str, Sequence[float]]) -> bool:
    staged = path.with_name(f".{path.name}")
    try:
        staged.write_text(json.dumps(listed), encoding="utf-8")
        removal.replace(staged, path, path.parent)
    except OSError:
        return False
    return True
