"""Send the commands of one period to the robots of a rig."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from enpire.errors import EnvelopeViolation
from enpire.interfaces import Rig
from enpire.types import FloatArray, MaskArray


def send(rig: Rig, command: FloatArray, moving: MaskArray) -> tuple[FloatArray, Mapping[int, str]]:
    """Send the commands of all moving lanes at once.

    Where one lane's command is not allowed, no lane has moved: the others are moved one by one.

    Args:
        rig: the robots.
        command: (lanes, action_dim).
        moving: (lanes,), which lanes move in this period.

    Returns:
        The commands after limits, and lane -> why its command is not allowed.
    """
    try:
        return rig.act(command, moving), {}
    except EnvelopeViolation:
        return _one_by_one(rig, command, moving)


def _one_by_one(rig: Rig, command: FloatArray, moving: MaskArray) -> tuple[FloatArray, Mapping[int, str]]:
    sent, violations = command.copy(), dict[int, str]()
    indices: list[int] = np.flatnonzero(moving).tolist()
    for index in indices:
        alone = np.zeros_like(moving)
        alone[index] = True
        try:
            sent[index] = rig.act(command, alone)[index]
        except EnvelopeViolation as violation:
            violations[index] = str(violation)[:500]
    return sent, violations
