"""The safety envelope: limits on actions, and bounds of the measured state, row by row over all lanes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields

import numpy as np

from enpire.errors import EnvelopeViolation, UsageError
from enpire.types import Bounds, FloatArray, MaskArray, TaskSpec
from robot_drivers.tip_height import TipHeight, TipLimit


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits that a station file adds to the bounds of the task's spec. Names are those of the spec."""

    step: Mapping[str, float] = field(default_factory=dict)
    """action name -> largest change of an action from one period to the next, in the unit of the action."""
    bend: Mapping[str, float] = field(default_factory=dict)
    """action name -> largest change of that change, in the unit of the action (an acceleration for a position)."""
    workspace: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """state name -> (low, high) of the measured state, in its unit, instead of the spec's bounds and `margin`. Numbers
    in N or Nm also keep within `force_n` and `torque_nm`.

    Camera estimates (`Bounds.sensor_std`) are judged only where they are named here: an object that was dropped is no
    robot out of bounds.
    """
    force_n: float = float("inf")
    """Largest magnitude of every state number whose unit is N [N]."""
    torque_nm: float = float("inf")
    """Largest magnitude of every state number whose unit is Nm or N m [Nm]."""
    margin: float = 0.1
    """Share of a state's range by which a noisy measurement may exceed the spec's bounds."""
    stall: Mapping[str, float] = field(default_factory=dict)
    """Name of a position that is an action and a state -> largest distance from its command at rest, in its unit. A
    joint that is farther away and does not move for `stall_s` stalls: the lane holds where it is."""
    stall_s: float = 0.5
    """How long a joint may stall [s]."""
    tip: TipLimit | None = None
    """The least height of an arm's tip over the table, of commands and of measured joints."""

    @classmethod
    def read(cls, options: Mapping[str, object]) -> Limits:
        """Limits from the `envelope` of a station file; UsageError names the key or value that is not allowed."""
        known = {item.name for item in fields(cls)}
        if unknown := sorted(set(options) - known):
            raise UsageError(f"The envelope has no {', '.join(unknown)}; allowed are {', '.join(sorted(known))}.")
        return cls(
            step=_named_numbers(options.get("step", {}), "step"),
            bend=_named_numbers(options.get("bend", {}), "bend"),
            workspace=_named_pairs(options.get("workspace", {})),
            force_n=_number(options.get("force_n", float("inf")), "force_n"),
            torque_nm=_number(options.get("torque_nm", float("inf")), "torque_nm"),
            margin=_number(options.get("margin", 0.1), "margin"),
            stall=_named_numbers(options.get("stall", {}), "stall"),
            stall_s=_number(options.get("stall_s", 0.5), "stall_s"),
            tip=TipLimit.read(options["tip"]) if "tip" in options else None,
        )


class Envelope:
    """Limits actions, and finds the lanes whose state is out of bounds.

    It is vectorised over lanes and has no memory: the caller keeps the last actions.
    """

    def __init__(self, spec: TaskSpec, limits: Limits | None = None) -> None:
        limits = Limits() if limits is None else limits
        _check_names(spec, limits)
        self.spec = spec
        self.low = _inward([item.low for item in spec.action], up=True)
        self.high = _inward([item.high for item in spec.action], up=False)
        if np.any(self.low > self.high):
            raise UsageError(f"The spec of {spec.name} has an action whose low is above its high; correct the spec.")
        self._step = _inward([limits.step.get(item.name, np.inf) for item in spec.action], up=False)
        self._bend = _inward([limits.bend.get(item.name, np.inf) for item in spec.action], up=False)
        self._state_low, self._state_high = _state_bounds(spec, limits)
        self._measured = np.array(spec.measured, np.int64)
        self._tip = TipHeight(spec, limits.tip) if limits.tip else None
        self.limits = limits

    def hold(self, state: FloatArray) -> FloatArray:
        """The action that holds still at a state.

        A position (`TaskSpec.measured`) gets the measured value. Any other action is a rate or a difference, so it gets
        zero, or the bound next to zero.

        Args:
            state: (lanes, state_dim), in the units of the spec.

        Returns:
            (lanes, action_dim) float32, inside the bounds, in the units of the spec.
        """
        known = self._measured >= 0
        values = np.zeros((len(state), self.spec.action_dim), np.float32)
        values[:, known] = np.nan_to_num(state[:, self._measured[known]])
        return np.clip(values, self.low, self.high)

    def apply(
        self, action: FloatArray, last: FloatArray, before: FloatArray | None = None
    ) -> tuple[FloatArray, MaskArray]:
        """Limit an action.

        Args:
            action: (lanes, action_dim), in the units of the spec.
            last: (lanes, action_dim), the action sent in the period before; rows that are not finite are unknown.
            before: (lanes, action_dim), the action sent before `last`; without it `bend` is not applied.

        Returns:
            sent (lanes, action_dim) float32, finite and inside the bounds; clipped (lanes,) bool, True where limits
            changed the action.

        Raises:
            EnvelopeViolation: the action has a wrong shape, or a value that is not finite. Send nothing then.
        """
        requested = self.checked(action, len(last))
        low, high = self._reachable(requested, last, before)
        sent = np.clip(np.clip(requested, low, high), self.low, self.high)
        if self._tip is not None:
            sent = np.clip(self._tip.limited(sent, last), self.low, self.high)
        clipped: MaskArray = np.any(np.not_equal(sent, requested), axis=1)
        return sent, clipped

    def checked(self, action: FloatArray, lanes: int, moving: MaskArray | None = None) -> FloatArray:
        """The action as float32 (lanes, action_dim). Only rows with `moving` (lanes,) need to be finite.

        Raises:
            EnvelopeViolation: a wrong shape or type, or a value that is not finite.
        """
        requested = np.asarray(action)
        wanted = (lanes, self.spec.action_dim)
        if requested.shape != wanted or requested.dtype.kind not in "fiu":
            raise EnvelopeViolation(
                f"An action of {self.spec.name} must be numbers of shape {wanted}, not {requested.dtype} of shape"
                f" {requested.shape}; nothing was sent. Correct the policy."
            )
        with np.errstate(over="ignore"):
            requested = requested.astype(np.float32)
        bad = ~np.isfinite(requested).all(axis=1)
        if moving is not None:
            bad &= moving
        if np.any(bad):
            raise EnvelopeViolation(
                f"The action of lane {', '.join(map(str, np.flatnonzero(bad)))} has a value that is not finite;"
                f" nothing was sent. Check the policy of {self.spec.name}."
            )
        return requested

    def violated(self, state: FloatArray) -> MaskArray:
        """(lanes,) bool: rows of state (lanes, state_dim) out of bounds, above a force limit, or not finite.

        A tip that is too low (`too_low`) is none of these.
        """
        with np.errstate(invalid="ignore"):
            inside = (state >= self._state_low) & (state <= self._state_high)
        outside: MaskArray = np.any(np.logical_not(inside), axis=1)
        return outside

    def too_low(self, state: FloatArray) -> MaskArray:
        """(lanes,) bool: rows of state (lanes, state_dim) in which the arm's tip is too low over the table."""
        return np.zeros(len(state), np.bool_) if self._tip is None else self._tip.too_low(state)

    def offence(self, state: FloatArray) -> str:
        """One sentence on what is wrong with a state row (state_dim,); empty when nothing is.

        That is the first number that is out of bounds, or a tip that is too low.
        """
        for index, bounds in enumerate(self.spec.state):
            low, high = float(self._state_low[index]), float(self._state_high[index])
            if not low <= float(state[index]) <= high:
                value = f"{float(state[index]):.6g} {bounds.unit}".strip()
                return f"{bounds.name} is {value}, allowed is {low:.6g} to {high:.6g}"
        return "" if self._tip is None else self._tip.sentence(state)

    def _reachable(
        self, requested: FloatArray, last: FloatArray, before: FloatArray | None
    ) -> tuple[FloatArray, FloatArray]:
        low = np.broadcast_to(self.low, requested.shape)
        high = np.broadcast_to(self.high, requested.shape)
        known = np.isfinite(last)
        low = np.where(known, np.maximum(low, last - self._step), low)
        high = np.where(known, np.minimum(high, last + self._step), high)
        if before is None or not np.any(np.isfinite(self._bend)):
            return low, high
        # If both limits cannot be kept (a fast action next to a bound), the np.clip in `apply` keeps the bound.
        straight = last + (last - before)
        known = known & np.isfinite(before)
        low = np.where(known, np.clip(straight - self._bend, low, high), low)
        high = np.where(known, np.clip(straight + self._bend, low, high), high)
        return low, high


def _inward(values: Sequence[float], *, up: bool) -> FloatArray:
    """Each bound as float32, rounded into the interval: the float32 nearest to 0.1 is above 0.1."""
    exact = np.asarray(values, np.float64)
    near = exact.astype(np.float32)
    wrong = near.astype(np.float64) < exact if up else near.astype(np.float64) > exact
    return np.where(wrong, np.nextafter(near, np.float32(np.inf if up else -np.inf)), near).astype(np.float32)


def _state_bounds(spec: TaskSpec, limits: Limits) -> tuple[FloatArray, FloatArray]:
    rows = [_allowed(item, limits) for item in spec.state]
    # NaN is out of bounds even without a limit: comparisons with NaN are false.
    return np.array([row[0] for row in rows], np.float32), np.array([row[1] for row in rows], np.float32)


def _allowed(item: Bounds, limits: Limits) -> tuple[float, float]:
    if item.name in limits.workspace:
        low, high = limits.workspace[item.name]
    elif item.sensor_std:
        return -np.inf, np.inf
    else:
        span = item.high - item.low
        slack = limits.margin * span if np.isfinite(span) else 0.0
        low, high = item.low - slack, item.high + slack
    most = {"N": limits.force_n, "Nm": limits.torque_nm, "N m": limits.torque_nm}.get(item.unit, np.inf)
    return max(low, -most), min(high, most)


def _check_names(spec: TaskSpec, limits: Limits) -> None:
    actions = {item.name for item in spec.action}
    states = {item.name for item in spec.state}
    sensed = {item.name for item, index in zip(spec.action, spec.measured, strict=True) if index >= 0}
    groups = (
        (limits.step, actions, "action"), (limits.bend, actions, "action"), (limits.workspace, states, "state"),
        (limits.stall, sensed, "position that is an action and a state"),
    )  # fmt: skip
    for named, known, what in groups:
        if unknown := sorted(set(named) - known):
            raise UsageError(
                f"The envelope limits {', '.join(unknown)}, but {spec.name} has no such {what};"
                f" it has {', '.join(sorted(known))}."
            )


def _number(value: object, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise UsageError(f"{name} of the envelope must be a number of at least 0, not {value!r}.")
    return float(value)


def _named_numbers(value: object, name: str) -> dict[str, float]:
    if not isinstance(value, Mapping):
        raise UsageError(f"{name} of the envelope must map names to numbers, not {value!r}.")
    return {str(key): _number(item, f"{name}.{key}") for key, item in value.items()}


def _named_pairs(value: object) -> dict[str, tuple[float, float]]:
    if not isinstance(value, Mapping):
        raise UsageError(f"workspace of the envelope must map names to [low, high], not {value!r}.")
    pairs: dict[str, tuple[float, float]] = {}
    for key, pair in value.items():
        if not isinstance(pair, list | tuple) or len(pair) != 2 or not all(isinstance(x, int | float) for x in pair):
            raise UsageError(f"workspace.{key} of the envelope must be [low, high], not {pair!r}.")
        if not pair[0] <= pair[1]:
            raise UsageError(f"workspace.{key} of the envelope must have low <= high, not {pair!r}.")
        pairs[str(key)] = (float(pair[0]), float(pair[1]))
    return pairs
