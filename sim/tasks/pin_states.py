"""The states that the programs of the pin tasks accept: those of pin insertion, and those of fragile insertion."""

from __future__ import annotations

from enpire.errors import PolicyProblem
from enpire.types import FloatArray
from sim.tasks.fragile_rig import STATE_WITH_LENGTH
from sim.tasks.pin_rig import STATE


def pin_columns(state: FloatArray, lanes: int, program: str) -> FloatArray:
    """The columns of pin insertion (lanes, 12) of states (lanes, 12), or (lanes, 13) with the length of the pin.

    No program needs the length, because the pin's break ends the episode.

    Args:
        state: the sensed states.
        lanes: how many rows there must be.
        program: what acts, as an error names it.

    Raises:
        PolicyProblem: the states have another shape.
    """
    pin, fragile = ((lanes, len(columns)) for columns in (STATE, STATE_WITH_LENGTH))
    if state.shape not in (pin, fragile):
        raise PolicyProblem(
            f"{program} needs a state of shape {pin}, or {fragile} with the pin's length, not {state.shape}."
        )
    return state[:, : len(STATE)]
