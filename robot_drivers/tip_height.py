"""A least height of an arm's tip over the table, from its joints and the public lengths of its model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from enpire.errors import UsageError
from enpire.types import FloatArray, MaskArray, TaskSpec
from sim.so101 import kinematics

Rows = npt.NDArray[np.float64]
_HALVINGS = 8
"""The share of a step that is allowed is found to 1 / 256."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TipLimit:
    """`tip` of a station file's envelope."""

    arm: str
    """Whose lengths these are: `so101`."""
    least_m: float
    """Commands that would bring the tip below this height over the table end at it [m]."""
    stick_m: float = 0.0
    """Length of what the jaws hold, from between them to its tip, at a right angle to the hand [m]."""
    sag_m: float = 0.01
    """A tip that is measured more than this below `least_m` ends the rollout [m]: under load an arm hangs below its
    command."""

    @classmethod
    def read(cls, value: object) -> TipLimit:
        """The limit from a station file; UsageError names the key or value that is not allowed."""
        known = [item.name for item in fields(cls)]
        if not isinstance(value, Mapping) or not {"arm", "least_m"} <= set(value) <= set(known):
            raise UsageError(
                f"tip of the envelope must have arm and least_m, and may have stick_m and sag_m, not {value!r}."
            )
        numbers = {str(name): item for name, item in value.items() if name != "arm"}
        for name, item in numbers.items():
            if isinstance(item, bool) or not isinstance(item, int | float) or not 0 <= item < 1:
                raise UsageError(f"tip.{name} of the envelope must be metres, at least 0 and below 1, not {item!r}.")
        arm = str(value["arm"])
        if arm not in _HEIGHTS:
            raise UsageError(f"tip.arm of the envelope must be {' or '.join(_HEIGHTS)}, not {arm!r}.")
        limit = cls(arm=arm, **{name: float(item) for name, item in numbers.items()})
        if limit.least_m <= limit.sag_m:
            raise UsageError(
                f"tip.least_m of the envelope is {limit.least_m:g} m; it must be above sag_m ({limit.sag_m:g} m), or a "
                "measured tip could be below the table."
            )
        return limit


class TipHeight:
    """The height of the tip over the table, of the commands and states of one task."""

    def __init__(self, spec: TaskSpec, limit: TipLimit) -> None:
        """UsageError if the task has not every joint of the arm as an action and a state, in degrees."""
        self.limit = limit
        joints = [f"{name}.pos" for name in kinematics.JOINTS]
        self._columns: dict[str, list[int]] = {}
        for what, bounds in (("action", spec.action), ("state", spec.state)):
            known = [item.name for item in bounds if item.unit == "deg"]
            if missing := [name for name in joints if name not in known]:
                raise UsageError(
                    f"The envelope limits the tip of a {limit.arm}, but {spec.name} has no {what} {missing[0]} in deg; "
                    "leave `tip` out."
                )
            self._columns[what] = [[item.name for item in bounds].index(name) for name in joints]

    def limited(self, sent: FloatArray, last: FloatArray) -> FloatArray:
        """The commands (lanes, action_dim), shortened towards the last ones where the tip would be too low.

        Only the arm's commands are shortened; the gripper's pass. A command that raises a tip that is too low passes.
        Rows of `last` that are not finite shorten nothing.
        """
        before = self._height("action", last)
        least = np.minimum(self.limit.least_m, before)
        low = np.isfinite(before) & (self._height("action", sent) < least)
        if not low.any():
            return sent
        arm = self._columns["action"]
        allowed, refused, shortened = np.zeros(len(sent)), np.ones(len(sent)), sent.astype(np.float64)
        for _ in range(_HALVINGS):
            middle = (allowed + refused) / 2
            shortened[:, arm] = last[:, arm] + middle[:, None] * (sent - last)[:, arm]
            fits = self._height("action", shortened.astype(np.float32)) >= least
            allowed, refused = np.where(fits, middle, allowed), np.where(fits, refused, middle)
        shortened[:, arm] = last[:, arm] + allowed[:, None] * (sent - last)[:, arm]
        return np.where(low[:, None], shortened, sent).astype(np.float32)

    def too_low(self, state: FloatArray) -> MaskArray:
        """(lanes,) bool: states (lanes, state_dim) with a tip more than `sag_m` below its least height."""
        low: MaskArray = self._height("state", state) < self.limit.least_m - self.limit.sag_m
        return low

    def sentence(self, state: FloatArray) -> str:
        """How low the tip is in one state (state_dim,); empty when it is not too low."""
        if not self.too_low(state[None])[0]:
            return ""
        height_mm = 1e3 * float(self._height("state", state[None])[0])
        allowed_mm = 1e3 * (self.limit.least_m - self.limit.sag_m)
        return f"the tip is {height_mm:.0f} mm over the table, allowed is at least {allowed_mm:.0f} mm"

    def _height(self, what: str, rows: FloatArray) -> Rows:
        """(lanes,) [m]; nan where a joint is not finite."""
        return _HEIGHTS[self.limit.arm](rows[:, self._columns[what]].astype(np.float64), self.limit.stick_m)


def _so101(joints_deg: Rows, stick_m: float) -> Rows:
    """The lowest one of the stick's tip, the place between the jaws, and the end of the fixed finger."""
    stick, jaws = (kinematics.tips(joints_deg, length_m) for length_m in (stick_m, 0.0))
    finger = jaws.at_m[:, 2] - kinematics.FINGER_M * np.sin(np.radians(jaws.pitch_deg))
    return np.min([stick.at_m[:, 2], jaws.at_m[:, 2], finger], axis=0)


_HEIGHTS: Mapping[str, Callable[[Rows, float], Rows]] = {"so101": _so101}
