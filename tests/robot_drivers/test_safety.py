"""The envelope lets no action pass that is not finite or out of bounds, whatever was requested."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from enpire.errors import EnvelopeViolation, UsageError
from enpire.types import Bounds, TaskSpec
from robot_drivers.safety import Envelope, Limits

SPEC = TaskSpec(
    name="two",
    instruction="",
    state=(
        Bounds(name="a", unit="m", low=-0.1, high=0.3),
        Bounds(name="force", unit="N", low=0.0, high=40.0),
        Bounds(name="wrist", unit="Nm", low=-9.0, high=9.0),
        Bounds(name="elbow", unit="N m", low=-9.0, high=9.0),
    ),
    action=(Bounds(name="a", unit="m", low=-0.1, high=0.3), Bounds(name="grip", unit="1", low=0.0, high=1.0)),
    rate_hz=30.0,
    limit_ticks=10,
)
ANY = st.floats(width=32, allow_nan=True, allow_infinity=True)
FINITE = st.floats(width=32, allow_nan=False, allow_infinity=False)
BAD = (np.nan, np.inf, -np.inf)


@settings(deadline=None, max_examples=100)
@given(
    wish=hnp.arrays(np.float32, (3, 2), elements=ANY),
    last=hnp.arrays(np.float32, (3, 2), elements=ANY),
    before=hnp.arrays(np.float32, (3, 2), elements=ANY),
    step=st.floats(0, 10),
    bend=st.floats(0, 10),
)
def test_nothing_bad_passes(wish, last, before, step, bend):
    envelope = Envelope(SPEC, Limits(step={"a": step}, bend={"a": bend, "grip": bend}))
    if not np.isfinite(wish).all():
        with pytest.raises(EnvelopeViolation, match="not finite"):
            envelope.apply(wish, last, before)
        return
    with np.errstate(over="ignore", invalid="ignore"):
        sent, clipped = envelope.apply(wish, last, before)
    assert np.isfinite(sent).all()
    assert sent.dtype == np.float32
    for column, item in enumerate(SPEC.action):
        # In float64: the limits hold for the numbers as a driver reads them, not only up to float32 rounding.
        assert (sent[:, column].astype(np.float64) >= item.low).all()
        assert (sent[:, column].astype(np.float64) <= item.high).all()
    assert (clipped == (sent != wish).any(axis=1)).all()


@settings(deadline=None, max_examples=50)
@given(
    wish=hnp.arrays(np.float32, (4, 2), elements=FINITE),
    last=hnp.arrays(np.float32, (4, 2), elements=st.floats(0.0, 0.25, width=32)),
)
def test_step_limit_holds(wish, last):
    envelope = Envelope(SPEC, Limits(step={"a": 0.01}))
    sent, _ = envelope.apply(wish, last)
    assert (np.abs(sent[:, 0].astype(np.float64) - last[:, 0]) <= 0.01 + 1e-7).all()


@pytest.mark.parametrize("limits", [Limits(step={"a": 0.1}), Limits(bend={"a": 0.1})], ids=["step", "bend"])
def test_a_limit_that_float32_cannot_hold_is_rounded_down(limits):
    assert np.float64(np.float32(0.1)) > 0.1
    still = np.zeros((1, 2), np.float32)
    sent, _ = Envelope(SPEC, limits).apply(np.ones((1, 2), np.float32), still, still)
    assert 0.0999 < np.float64(sent[0, 0]) <= 0.1


def test_bend_limit_slows_a_start_and_unknown_last_is_free():
    envelope = Envelope(SPEC, Limits(bend={"a": 0.01}))
    still = np.zeros((1, 2), np.float32)
    sent, clipped = envelope.apply(np.array([[0.2, 0.0]], np.float32), still, still)
    assert sent[0, 0] == pytest.approx(0.01)
    assert clipped.all()
    unknown = np.full((1, 2), np.nan, np.float32)
    sent, clipped = envelope.apply(np.array([[0.2, 0.0]], np.float32), unknown, unknown)
    assert sent[0, 0] == np.float32(0.2)
    assert not clipped.any()


@pytest.mark.parametrize(("last", "before", "sent"), [(0.0, np.nan, 0.1), (np.nan, 0.0, 0.2), (0.0, 0.0, 0.01)])
def test_a_bend_needs_both_actions_before_it(last, before, sent):
    envelope = Envelope(SPEC, Limits(step={"a": 0.1}, bend={"a": 0.01}))
    rows = (np.array([[value, 0.0]], np.float32) for value in (0.2, last, before))
    found, _ = envelope.apply(*rows)
    assert found[0, 0] == pytest.approx(sent)


@pytest.mark.parametrize("shape", [(2,), (3, 3), (2, 2), (3, 2, 1), (0, 2)])
def test_wrong_shape_is_refused(shape):
    envelope = Envelope(SPEC)
    with pytest.raises(EnvelopeViolation, match="shape"):
        envelope.apply(np.zeros(shape, np.float32), np.zeros((3, 2), np.float32))


@pytest.mark.parametrize("wish", [np.full((1, 2), "x"), np.zeros((1, 2), np.complex128), np.zeros((1, 2), object)])
def test_what_is_no_number_is_refused(wish):
    with pytest.raises(EnvelopeViolation, match="must be numbers"):
        Envelope(SPEC).checked(wish, 1)


def test_a_double_beyond_float32_is_refused():
    with pytest.raises(EnvelopeViolation, match="not finite"):
        Envelope(SPEC).checked(np.array([[1e300, 0.0]]), 1)


@pytest.mark.parametrize("bad", BAD)
def test_only_moving_rows_need_to_be_finite(bad):
    envelope = Envelope(SPEC)
    wish = np.array([[0.0, 0.0], [bad, 0.0]], np.float32)
    envelope.checked(wish, 2, np.array([True, False]))
    with pytest.raises(EnvelopeViolation, match="lane 1"):
        envelope.checked(wish, 2, np.array([True, True]))


@pytest.mark.parametrize(
    ("state", "violated"),
    [
        ([0.0, 1.0, 0.0, 0.0], False),
        ([0.33, 1.0, 3.0, -3.0], False),  # inside the margin for noise
        ([0.35, 1.0, 0.0, 0.0], True),
        ([-0.2, 1.0, 0.0, 0.0], True),
        ([0.0, 26.0, 0.0, 0.0], True),
        ([np.nan, 1.0, 0.0, 0.0], True),
        ([0.0, np.inf, 0.0, 0.0], True),
        ([0.0, 1.0, -3.1, 0.0], True),
        ([0.0, 1.0, 0.0, 3.1], True),
    ],
)
def test_workspace_force_and_torque(state, violated):
    envelope = Envelope(SPEC, Limits.read({"force_n": 25.0, "torque_nm": 3.0}))
    row = np.array([state], np.float32)
    assert envelope.violated(row).tolist() == [violated]
    assert bool(envelope.offence(row[0])) is violated


def one(low: float, high: float, unit: str = "m", **more: float) -> TaskSpec:
    """A task with one state number and one action, both within the same bounds."""
    bounds = Bounds(name="a", unit=unit, low=low, high=high, **more)
    return replace(SPEC, state=(bounds,), action=(replace(bounds, sensor_std=0.0),))


@pytest.mark.parametrize(
    ("spec", "limits", "low", "high"),
    [
        (one(-0.1, 0.3), Limits(), -0.14, 0.34),
        (one(-0.1, 0.3), Limits(margin=0.0), -0.1, 0.3),
        (one(-0.1, 0.3), Limits(margin=0.5), -0.3, 0.5),
        (one(-0.1, 0.3), Limits(workspace={"a": (-5.0, 7.0)}, margin=0.5), -5.0, 7.0),
        (one(-0.1, 0.3), Limits(force_n=0.01, torque_nm=0.01), -0.14, 0.34),
        (one(-40.0, 40.0, "N"), Limits(force_n=5.0, torque_nm=1.0), -5.0, 5.0),
        (one(-40.0, 40.0, "Nm"), Limits(force_n=1.0, torque_nm=5.0), -5.0, 5.0),
        (one(-40.0, 40.0, "N m"), Limits(force_n=1.0, torque_nm=5.0), -5.0, 5.0),
        (one(-40.0, 40.0, "N"), Limits(workspace={"a": (-2.0, 60.0)}, force_n=50.0), -2.0, 50.0),
        (one(0.0, 1.0, sensor_std=0.1), Limits(workspace={"a": (0.2, 0.4)}), 0.2, 0.4),
        (one(0.0, 1.0, sensor_std=0.1), Limits(), -np.inf, np.inf),
        (one(-np.inf, 2.0), Limits(), -np.inf, 2.0),
        (one(-2.0, np.inf), Limits(), -2.0, np.inf),
    ],
)
def test_the_bounds_of_the_state(spec, limits, low, high):
    envelope = Envelope(spec, limits)
    inside = [np.float32(max(low, -1e30)), np.float32(min(high, 1e30))]
    outside = [np.nextafter(np.float32(bound), np.float32(way)) for bound, way in ((low, -np.inf), (high, np.inf))]
    outside = [bound for bound in outside if np.isfinite(bound)] + [np.float32(np.nan)]
    assert envelope.violated(np.array([inside], np.float32).T).tolist() == [False, False]
    assert envelope.violated(np.array([outside], np.float32).T).all()
    assert [envelope.offence(np.array([value])) for value in inside] == ["", ""]
    for value in outside:
        allowed = f"allowed is {float(np.float32(low)):.6g} to {float(np.float32(high)):.6g}"
        assert envelope.offence(np.array([value])) == f"a is {float(value):.6g} {spec.state[0].unit}, {allowed}"


@pytest.mark.parametrize(("low", "high"), [(-0.1, 0.3), (0.1, 0.1 + 1e-6), (1 / 3, 2 / 3), (-7.0, -1e-3), (0.5, 0.5)])
def test_the_bounds_of_an_action_are_the_outermost_float32_inside(low, high):
    envelope = Envelope(one(low, high))
    assert envelope.low.dtype == envelope.high.dtype == np.float32
    least, most = float(envelope.low[0]), float(envelope.high[0])
    assert float(np.nextafter(envelope.low[0], np.float32(-np.inf))) < low <= least
    assert float(np.nextafter(envelope.high[0], np.float32(np.inf))) > high >= most


def test_bounds_the_wrong_way_round_are_refused():
    with pytest.raises(UsageError, match="low is above its high"):
        Envelope(one(0.3, 0.1))


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize(
    ("step", "bend", "sent"), [(0.1, 9.0, 0.3), (9.0, 0.05, 0.35), (0.1, 0.05, 0.3), (9.0, 9.0, 0.9)]
)
def test_an_action_changes_by_its_step_and_its_change_by_its_bend(sign, step, bend, sent):
    envelope = Envelope(one(-1.0, 1.0), Limits(step={"a": step}, bend={"a": bend}))
    requested, last, before = (np.array([[sign * value]], np.float32) for value in (0.9, 0.2, 0.1))
    found, clipped = envelope.apply(requested, last, before)
    assert found[0, 0] == pytest.approx(sign * sent)
    assert clipped.tolist() == [sent != 0.9]
    alone, _ = envelope.apply(requested, last)
    assert alone[0, 0] == pytest.approx(sign * min(0.2 + step, 0.9)), "without an earlier action no bend is known"


def test_a_bound_is_kept_where_bend_cannot_be():
    envelope = Envelope(one(-1.0, 1.0), Limits(bend={"a": 0.01}))
    sent, _ = envelope.apply(*(np.array([[value]], np.float32) for value in (0.0, 0.9, 0.5)))
    assert sent[0, 0] == 1.0


def test_hold_is_the_bound_next_to_zero_and_never_unknown():
    state = np.array([[np.nan, 0, 0, 0], [0.7, 0, 0, 0], [-0.7, 0, 0, 0]], np.float32)
    assert Envelope(SPEC).hold(state)[:, 0].tolist() == pytest.approx([0.0, 0.3, -0.1])
    rate = replace(SPEC, action=(Bounds(name="speed", unit="m/s", low=0.2, high=1.0),))
    held = Envelope(rate).hold(state)
    assert (held.dtype, held.shape) == (np.float32, (3, 1))
    assert held[:, 0].tolist() == pytest.approx([0.2] * 3)


def test_limits_of_a_station_file():
    assert Limits.read({}) == Limits() == Limits(margin=0.1, force_n=float("inf"), torque_nm=float("inf"))
    options = {
        "step": {"a": 0},
        "bend": {"a": 2},
        "workspace": {"a": [1, 1], "b": [1, 2]},
        "force_n": 3,
        "torque_nm": 4,
        "margin": 0,
    }
    assert Limits.read(options) == Limits(
        step={"a": 0.0},
        bend={"a": 2.0},
        workspace={"a": (1.0, 1.0), "b": (1.0, 2.0)},
        force_n=3.0,
        torque_nm=4.0,
        margin=0.0,
    )


def test_workspace_of_the_station_file_wins():
    envelope = Envelope(SPEC, Limits(workspace={"a": (0.0, 0.1)}))
    assert envelope.violated(np.array([[0.15, 0.0, 0.0, 0.0]], np.float32)).all()


def test_a_force_that_the_workspace_names_keeps_both_limits():
    envelope = Envelope(SPEC, Limits(workspace={"force": (1.0, 30.0)}, force_n=5.0))
    forces = np.array([[0.0, force, 0.0, 0.0] for force in (0.5, 2.0, 7.0)], np.float32)
    assert envelope.violated(forces).tolist() == [True, False, True]


def test_hold_commands_measured_positions_and_no_speed():
    assert Envelope(SPEC).hold(np.array([[0.2, 5.0, 0.0, 0.7]], np.float32)).tolist() == [[pytest.approx(0.2), 0.0]]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"speed": 1}, "allowed are"),
        ({"step": {"a": -1}}, r"step\.a"),
        ({"step": {"a": True}}, r"step\.a"),
        ({"step": 3}, "must map"),
        ({"workspace": {"a": [1.0]}}, r"workspace\.a"),
        ({"workspace": {"a": [1.0, 2.0, 3.0]}}, r"workspace\.a"),
        ({"workspace": {"a": "12"}}, r"workspace\.a"),
        ({"workspace": {"a": [1.0, "2"]}}, r"workspace\.a"),
        ({"workspace": {"a": [float("nan"), 2.0]}}, "low <= high"),
        ({"workspace": [1.0]}, "must map"),
        ({"margin": True}, "margin"),
        ({"margin": "1"}, "margin"),
        ({"workspace": {"a": [1.0, 0.0]}}, "low <= high"),
        ({"force_n": float("nan")}, "force_n"),
        ({"torque_nm": -1}, "torque_nm"),
    ],
)
def test_a_wrong_envelope_says_what_is_allowed(options, sentence):
    with pytest.raises(UsageError, match=sentence):
        Limits.read(options)


def test_an_unknown_name_is_named():
    with pytest.raises(UsageError, match="two has no such action; it has a, grip"):
        Envelope(SPEC, Limits.read({"step": {"b": 1.0}}))
    with pytest.raises(UsageError, match="limits grip, but two has no such state"):
        Envelope(SPEC, Limits(workspace={"grip": (0.0, 1.0)}))
    assert Envelope(SPEC, Limits(stall={"a": 0.1})).limits.stall == {"a": 0.1}
    for name in ("grip", "force"):
        with pytest.raises(UsageError, match=f"limits {name}, but two has no such position that is an action and a st"):
            Envelope(SPEC, Limits(stall={name: 0.1}))
