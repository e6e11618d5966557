"""The learner of a code candidate: recorded episodes in, the files of a version out."""

from typing import Any

import numpy as np
from policy import HORIZON


def improve(job: Any) -> dict[str, float]:
    """Fit the next HORIZON actions to each state of the successful episodes; returns the metrics."""
    rows, wanted = [], []
    for episode in job.episodes:
        if episode.outcome == "success":
            arrays = episode.arrays()  # state (T + 1, state_dim), action (T, action_dim)
            last = len(arrays.action) - 1
            for tick in range(len(arrays.action)):
                rows.append(arrays.state[tick])
                wanted.append(arrays.action[np.minimum(tick + np.arange(HORIZON), last)].ravel())
    states, targets = np.asarray(rows), np.asarray(wanted)
    mean, scale = states.mean(0), states.std(0) + 1e-6
    scaled = (states - mean) / scale
    features = np.hstack([scaled, scaled**2, np.ones((len(scaled), 1))])
    squares = features.T @ features + float(job.settings["ridge"]) * np.eye(features.shape[1])
    weights = np.linalg.solve(squares, features.T @ targets)
    np.savez(job.output / "weights.npz", mean=mean, scale=scale, weights=weights)
    error = float(np.abs(features @ weights - targets).mean())
    job.report("fit", 1, 1, error=error)
    return {"error": error, "frames": float(len(states))}
