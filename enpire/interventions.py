"""Interventions: an operator, or a simulated one, moves a robot during an episode instead of the policy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from enpire.files import parse
from enpire.interfaces import Rig, Task
from enpire.parts import PartGroup, settings_class
from enpire.policy_calls import LoadedPolicy
from enpire.types import FloatArray, IntArray, MaskArray, Observation, Order


class Intervener(Protocol):
    """Moves lanes whose order is supervised; it does not touch the other lanes.

    Lanes do not influence each other. What happens in a lane depends only on the start of its order.
    """

    def begin(self, lane: int, order: Order, policy: LoadedPolicy) -> None:
        """Begin a supervised episode in this lane."""

    def watch(self, observation: Observation, lanes: IntArray, ticks: IntArray) -> MaskArray:
        """Check the supervised lanes, once a period, before the policy decides.

        Args:
            observation: one row for every lane of the rig.
            lanes: (n,) int, the supervised lanes whose rollout runs.
            ticks: (n,) int, how many actions each lane has had.

        Returns:
            (n,) bool, the lanes that the operator moves in this period.
        """
        ...

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        """Actions for the lanes (n,) that the operator moves: (n, action_dim) float32, in the units of the spec."""
        ...

    def close(self) -> None:
        """Release the device. Allowed twice."""


OPERATORS: PartGroup[[Task, Rig, int, Mapping[str, object]], Intervener] = PartGroup("operators")
"""Called with the task, the station's rig, its seed and `operator_options`."""


def require_operator(name: str, options: Mapping[str, object]) -> None:
    """Check an operator and its options before any station starts.

    Raises:
        EnpireError: there is no such plug-in, or the settings class in its attribute `options` refuses the options.
    """
    taken = settings_class(OPERATORS.load(name), "options")
    if taken is not None:
        parse(taken, options, "operator_options")
