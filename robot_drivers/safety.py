"""The safety envelope: what may be commanded and where a robot may be, row by row over all lanes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields

import numpy as np

from enpire.errors import EnvelopeViolation, UsageError
from enpire.types import Bounds, FloatArray, MaskArray, TaskSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a station file may add to the bounds that the task's spec states. Names are those of the spec."""

    step: Mapping[str, float] = field(default_factory=dict)
    """action name -> largest change of a command from one period to the next, in the unit of the action."""
    bend: Mapping[str, float] = field(default_factory=dict)
    """action name -> largest change of that change (acceleration, when the action is a position)."""
    workspace: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """state name -> (low, high) that the measured state may take, instead of the spec's bounds and `margin`; what is
    in N or Nm keeps within `force_n` and `torque_nm`, too.

    Camera estimates (`Bounds.sensor_std`) are judged only where they are named here: an object that was dropped is no
    robot out of bounds.
    """
    force_n: float = float("inf")
    """Largest magnitude of every state number whose unit is N."""
    torque_nm: float = float("inf")
    """Largest magnitude of every state number whose unit is Nm, or N m."""
    margin: float = 0.1
    """Share of a state's range by which a measurement may pass the spec's bounds: sensors have noise."""

    @classmethod
    def read(cls, options: Mapping[str, object]) -> Limits:
        """Limits from the `envelope` of a station file; UsageError names what is not allowed."""
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
        )


class Envelope:
    """Clips commands to what is allowed and says which lanes are where they must not be.

    Vectorised over lanes and without memory: who calls it keeps the last commands.
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

    def hold(self, state: FloatArray) -> FloatArray:
        """The command that keeps still at a state (lanes, state_dim): (lanes, action_dim), inside the bounds.

        An action that has the name of a state number is a position, so its measured value is commanded; any other is
        a speed or a difference, so zero (or the bound next to zero) is.
        """
        known = self._measured >= 0
        values = np.zeros((len(state), self.spec.action_dim), np.float32)
        values[:, known] = np.nan_to_num(state[:, self._measured[known]])
        return np.clip(values, self.low, self.high)

    def apply(
        self, action: FloatArray, last: FloatArray, before: FloatArray | None = None
    ) -> tuple[FloatArray, MaskArray]:
        """What may be sent of a wish.

        Args:
            action: (lanes, action_dim), the wish.
            last: (lanes, action_dim), what was sent in the period before; rows that are not finite are unknown.
            before: (lanes, action_dim), what was sent before `last`; without it `bend` is not applied.

        Returns:
            sent (lanes, action_dim): finite and inside the bounds; clipped (lanes,): the wish was changed.

        Raises:
            EnvelopeViolation: the wish has a wrong shape or a number that is not finite. Nothing may move then.
        """
        wish = self.checked(action, len(last))
        low, high = self._reachable(wish, last, before)
        sent = np.clip(np.clip(wish, low, high), self.low, self.high)
        clipped: MaskArray = np.any(np.not_equal(sent, wish), axis=1)
        return sent, clipped

    def checked(self, action: FloatArray, lanes: int, moving: MaskArray | None = None) -> FloatArray:
        """`action` as float32 (lanes, action_dim) if it may be looked at; only `moving` rows need to be finite."""
        wish = np.asarray(action)
        wanted = (lanes, self.spec.action_dim)
        if wish.shape != wanted or wish.dtype.kind not in "fiu":
            raise EnvelopeViolation(
                f"A command of {self.spec.name} must be numbers of shape {wanted}, not {wish.dtype} of shape"
                f" {wish.shape}; nothing was sent."
            )
        with np.errstate(over="ignore"):
            wish = wish.astype(np.float32)
        bad = ~np.isfinite(wish).all(axis=1)
        if moving is not None:
            bad &= moving
        if np.any(bad):
            raise EnvelopeViolation(
                f"The command of lane {', '.join(map(str, np.flatnonzero(bad)))} has a number that is not finite;"
                f" nothing was sent. Look at the policy of {self.spec.name}."
            )
        return wish

    def violated(self, state: FloatArray) -> MaskArray:
        """(lanes,): rows of state (lanes, state_dim) that are outside the workspace, too forceful, or not finite."""
        with np.errstate(invalid="ignore"):
            inside = (state >= self._state_low) & (state <= self._state_high)
        outside: MaskArray = np.any(np.logical_not(inside), axis=1)
        return outside

    def offence(self, state: FloatArray) -> str:
        """One sentence on the first number of a state row (state_dim,) that is outside; empty when none is."""
        for index, bounds in enumerate(self.spec.state):
            low, high = float(self._state_low[index]), float(self._state_high[index])
            if not low <= float(state[index]) <= high:
                value = f"{float(state[index]):.6g} {bounds.unit}".strip()
                return f"{bounds.name} is {value}, allowed is {low:.6g} to {high:.6g}"
        return ""

    def _reachable(
        self, wish: FloatArray, last: FloatArray, before: FloatArray | None
    ) -> tuple[FloatArray, FloatArray]:
        low = np.broadcast_to(self.low, wish.shape)
        high = np.broadcast_to(self.high, wish.shape)
        known = np.isfinite(last)
        low = np.where(known, np.maximum(low, last - self._step), low)
        high = np.where(known, np.minimum(high, last + self._step), high)
        if before is None or not np.any(np.isfinite(self._bend)):
            return low, high
        # Where both limits cannot be kept (a fast command next to a bound), np.clip in `apply` lets the bound win.
        straight = last + (last - before)
        known = known & np.isfinite(before)
        low = np.where(known, np.clip(straight - self._bend, low, high), low)
        high = np.where(known, np.clip(straight + self._bend, low, high), high)
        return low, high


def _inward(values: Sequence[float], *, up: bool) -> FloatArray:
    """float32 of each bound, rounded into the interval: the nearest float32 of 0.1 is above 0.1."""
    exact = np.asarray(values, np.float64)
    near = exact.astype(np.float32)
    wrong = near.astype(np.float64) < exact if up else near.astype(np.float64) > exact
    return np.where(wrong, np.nextafter(near, np.float32(np.inf if up else -np.inf)), near).astype(np.float32)


def _state_bounds(spec: TaskSpec, limits: Limits) -> tuple[FloatArray, FloatArray]:
    rows = [_allowed(item, limits) for item in spec.state]
    # A state number without a limit may still not be NaN: comparisons with NaN are false.
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
    groups = ((limits.step, actions, "action"), (limits.bend, actions, "action"), (limits.workspace, states, "state"))
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
