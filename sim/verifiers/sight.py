"""Which rows of a recording were seen: an estimate that something hides from its camera repeats itself, exactly."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from enpire.types import FloatArray


def clear_rows(seen: FloatArray) -> npt.NDArray[np.intp]:
    """Rows of `seen` (T, k), the numbers of one camera estimate, in which it is fresh; row 0 counts as fresh.

    Sensor noise makes two fresh estimates differ; a tracker that lost its object gives the last one again.
    """
    repeated = (seen[1:] == seen[:-1]).all(axis=1)
    return np.flatnonzero(np.concatenate([[True], ~repeated]))
