"""Which rows of a recording were seen.

An estimate that something hides from its camera repeats itself, exactly; a tracker that is dead says zero, exactly.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from enpire.types import FloatArray, MaskArray, Verdict


def fresh_rows(seen: FloatArray) -> npt.NDArray[np.intp]:
    """Rows of `seen` (T, k), the numbers of one camera estimate, in which it is fresh; row 0 counts as fresh.

    Sensor noise makes two fresh estimates differ; a tracker that lost its object gives the last one again.
    Rows of zeros are left out.
    """
    repeated = (seen[1:] == seen[:-1]).all(axis=1)
    return np.flatnonzero(np.concatenate([[True], ~repeated]) & alive(seen))


def alive(seen: npt.NDArray[np.floating]) -> MaskArray:
    """Which rows of `seen` (n, k), the numbers of one camera estimate, are not what a dead tracker says."""
    return (seen != 0.0).any(axis=1)


def dead_estimate(what: str) -> Verdict:
    """The verdict on a rollout of which no camera saw what matters."""
    return Verdict(
        kind="failure", confidence=0.5, source="verifier", reason=f"The cameras' estimate of {what} is dead."
    )
