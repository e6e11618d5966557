"""LeRobotDatasets v3 as other tools leave them, written file by file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

FRAMES = (5, 7)
"""Frames of the two episodes."""
Columns = dict[str, Any]


def columns(state_dim: int = 4, action_dim: int = 2) -> Columns:
    """Two episodes of random numbers with the standard columns of a LeRobotDataset."""
    random, total = np.random.default_rng(0), sum(FRAMES)
    return {
        "observation.state": random.normal(size=(total, state_dim)).astype(np.float32).tolist(),
        "action": random.normal(size=(total, action_dim)).astype(np.float32).tolist(),
        "episode_index": np.repeat(np.arange(2), FRAMES).tolist(),
        "task_index": [0] * total,
    }


def written(
    root: Path,
    *files: Columns,
    info: Mapping[str, object] | None = None,
    tasks: Mapping[str, Sequence[object]] | None = None,
) -> Path:
    """A dataset with these parquet files; `info` changes keys of info.json."""
    from pyarrow import parquet, table

    (root / "meta").mkdir(parents=True)
    (root / "data").mkdir()
    said = {"codebase_version": "v3.0", "total_frames": len(files) * sum(FRAMES), "fps": 30, "features": {}}
    said |= info or {}
    (root / "meta" / "info.json").write_text(json.dumps(said))
    parquet.write_table(table(tasks or {"task_index": [0], "task": ["stack"]}), root / "meta" / "tasks.parquet")
    for number, file in enumerate(files):
        parquet.write_table(table(file), root / "data" / f"file-{number:03}.parquet")
    return root
