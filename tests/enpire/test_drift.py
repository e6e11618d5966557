"""What people's labels say about a verifier, and when a campaign pauses because of it."""

from __future__ import annotations

import pytest

from enpire.drift import DriftRule, drift
from enpire.intervals import lower_bound, upper_bound

GOOD, FALSE, MISSED = ("success", "success"), ("success", "failure"), ("failure", "success")


def test_the_exact_bound_is_the_one_of_the_books() -> None:
    """The rule of three: no event in n trials, so at most 1 - 0.05^(1/n) at 95 %."""
    assert upper_bound(0, 30) == pytest.approx(1 - 0.05 ** (1 / 30))
    assert upper_bound(0, 0) == 1.0
    assert upper_bound(2, 20) == pytest.approx(1 - lower_bound(18, 20))
    assert upper_bound(2, 20) == pytest.approx(0.2826, abs=1e-4)


def test_few_good_labels_never_pass_the_limit() -> None:
    rule = DriftRule(false_successes=0.1)
    assert rule.least == 29
    for count in range(200):
        assert not drift([GOOD] * count, rule).passed
    assert not drift([MISSED] * 50, rule).passed
    assert drift([MISSED] * 50, rule).missed == 50


def test_many_false_successes_pass_it_at_once_and_some_when_there_are_enough_labels() -> None:
    rule = DriftRule(false_successes=0.1)
    assert drift([FALSE] * 2, rule).passed, "two of two: even the lower bound is over the limit"
    assert not drift([FALSE] + [GOOD] * 20, rule).passed, "nobody can know yet"
    assert drift([FALSE] * 2 + [GOOD] * 27, rule).passed
    assert not drift([FALSE] * 2 + [GOOD] * 100, rule).passed
    assert not drift([FALSE] * 50, DriftRule(false_successes=1.0)).passed, "switched off"


def test_the_sentence_says_what_to_do() -> None:
    rule = DriftRule()
    assert "enpire episodes audit" in drift([], rule).sentence
    assert "29 labels are needed" in drift([GOOD], rule).sentence
    told = drift([FALSE] * 3, rule).sentence
    assert "Of 3 successes" in told
    assert "enpire campaign resume" in told


def test_a_rule_that_cannot_be_is_refused() -> None:
    for wrong in ({"false_successes": 0.0}, {"false_successes": 1.5}, {"confidence": 1.0}):
        with pytest.raises(ValueError, match="drift"):
            DriftRule(**wrong)
