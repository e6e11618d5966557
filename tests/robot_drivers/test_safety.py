"""The envelope lets no action pass that is not finite or out of bounds, whatever was requested."""

from __future__ import annotations

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


def test_workspace_of_the_station_file_wins():
    envelope = Envelope(SPEC, Limits(workspace={"a": (0.0, 0.1)}))
    assert envelope.violated(np.array([[0.15, 0.0, 0.0, 0.0]], np.float32)).all()


def test_a_force_that_the_workspace_names_keeps_both_limits():
    envelope = Envelope(SPEC, Limits(workspace={"force": (1.0, 30.0)}, force_n=5.0))
    forces = np.array([[0.0, force, 0.0, 0.0] for force in (0.5, 2.0, 7.0)], np.float32)
    assert envelope.violated(forces).tolist() == [True, False, True]


def test_hold_commands_measured_positions_and_no_speed():
    assert Envelope(SPEC).hold(np.array([[0.2, 5.0, 0.0, 0.0]], np.float32)).tolist() == [[pytest.approx(0.2), 0.0]]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"speed": 1}, "allowed are"),
        ({"step": {"a": -1}}, r"step\.a"),
        ({"step": {"a": True}}, r"step\.a"),
        ({"step": 3}, "must map"),
        ({"workspace": {"a": [1.0]}}, r"workspace\.a"),
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
