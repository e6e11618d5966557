"""A person, or a stand-in for one, who may take the robot out of the policy's hands for a while."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, cast

from enpire.files import parse
from enpire.interfaces import Rig, Task
from enpire.plugins import load
from enpire.policy_calls import LoadedPolicy
from enpire.types import FloatArray, IntArray, MaskArray, Observation, Order


class Intervener(Protocol):
    """Stands beside the lanes whose order is supervised; the other lanes it never touches.

    Rows never influence each other, and what is done in a lane hangs on the order's start alone.
    """

    def begin(self, lane: int, order: Order, policy: LoadedPolicy) -> None:
        """A supervised episode begins in this lane."""

    def watch(self, observation: Observation, lanes: IntArray, ticks: IntArray) -> MaskArray:
        """Look at the supervised lanes, once a period, before anything is decided.

        Args:
            observation: one row for every lane of the rig.
            lanes: (n,), those that are supervised and roll out.
            ticks: (n,), commands that each has had.

        Returns:
            (n,), which of them are held by the person in this period.
        """
        ...

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        """The person's commands for the lanes that are held: (len(lanes), action_dim)."""
        ...

    def close(self) -> None:
        """Let go of the device. Allowed twice."""


OpenOperator = Callable[[Task, Rig, int, Mapping[str, object]], Intervener]
"""What a plug-in of the group `operators` is: called with the task, the station's rig, seed and `operator_options`."""


def require_operator(name: str, options: Mapping[str, object]) -> None:
    """Say before any station starts that an operator cannot be.

    Raises:
        EnpireError: there is no such plug-in, or the settings class in its attribute `options` refuses the options.
    """
    taken = cast("type | None", getattr(load("operators", name), "options", None))
    if taken is not None:
        parse(taken, options, "operator_options")
