"""Fresh and repeated camera estimates in a recording.

The estimate of a hidden object repeats exactly; a tracker that has failed gives exact zeros.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from enpire.types import FloatArray, MaskArray, Verdict


def fresh_rows(seen: FloatArray) -> npt.NDArray[np.intp]:
    """Indices of the rows of `seen` (T, k), one camera estimate over time, that are fresh; row 0 counts as fresh.

    Sensor noise makes two fresh estimates differ; a tracker that lost its object repeats the last one. Rows of zeros
    are left out.
    """
    repeated = (seen[1:] == seen[:-1]).all(axis=1)
    return np.flatnonzero(np.concatenate([[True], ~repeated]) & alive(seen))


def alive(seen: npt.NDArray[np.floating]) -> MaskArray:
    """Which rows of `seen` (n, k), one camera estimate, are not the zeros of a failed tracker: (n,) bool."""
    return (seen != 0.0).any(axis=1)


def dead_estimate(what: str) -> Verdict:
    """The verdict on a rollout without an estimate of the object that matters."""
    return Verdict(
        kind="failure", confidence=0.5, source="verifier", reason=f"The cameras' estimate of {what} is dead."
    )
