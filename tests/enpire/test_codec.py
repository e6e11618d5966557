"""One codec for ledger, wire, spool and folder: what it writes it reads back, and it refuses what is not whole."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from enpire.codec import (
    PURPOSES,
    SIDES,
    SPLITS,
    episode_fields,
    episode_of,
    order_fields,
    read_episode,
    read_order,
    read_result,
    result_fields,
    result_of,
)
from enpire.errors import EnpireError, FileProblem, TransportProblem
from enpire.types import OUTCOME_KINDS, EarlyStop, Episode, Order, Start

names = st.text("abcXYZ019.-_:", min_size=1, max_size=20).filter(lambda name: not name.startswith("."))
names_or_empty = st.just("") | names
texts = st.text(max_size=40)
numbers = st.floats(-1e18, 1e18)
shares = st.floats(0.0, 1.0)
wholes = st.integers(0, 2**63 - 1)
starts = st.builds(
    Start, split=st.sampled_from(SPLITS), index=st.integers(-1, 2**40), values=st.lists(numbers).map(tuple), seed=wholes
)
orders = st.builds(
    Order, order_id=names, campaign_id=names, station=names, task=texts, policy_id=names, start=starts,
    purpose=st.sampled_from(PURPOSES), round=st.integers(-1, 2**40), gate_id=names_or_empty,
    pair=st.integers(-1, 2**40), side=st.sampled_from(SIDES), lease=wholes, supervised=st.booleans(),
    early_stop=st.none() | st.builds(EarlyStop, below=shares, control=shares, armed=st.booleans()),
)  # fmt: skip
episodes = st.builds(
    Episode, order=orders, outcome=st.sampled_from(OUTCOME_KINDS), cause=texts, confidence=shares,
    ran_policy_id=names_or_empty, ticks=wholes, began_s=numbers, ended_s=numbers,
    achieved_start=st.lists(numbers).map(tuple), reset_attempts=wholes, clipped=wholes,
    attempts=st.lists(wholes).map(tuple),
    predicted_failure_at=st.integers(-1, 2**40),
    sha256=texts, pictures_sha256=texts, explored=st.booleans(), arrays=st.none(),
)  # fmt: skip
ORDER = Order(
    order_id="o1", campaign_id="c1", station="s1", task="t", policy_id="p", purpose="collect", round=1,
    start=Start(split="train", index=0, values=(0.5,), seed=1),
)  # fmt: skip
EPISODE = Episode(
    order=ORDER, outcome="success", cause="", confidence=1.0, ran_policy_id="p", ticks=3, began_s=0.0, ended_s=1.0,
    achieved_start=(0.5,), attempts=(2,),
)  # fmt: skip


@given(episodes)
def test_an_episode_comes_back_whole_in_both_forms(episode: Episode) -> None:
    again = json.loads(json.dumps(episode_fields(episode)))
    assert read_episode(again) == episode
    apart = json.loads(json.dumps([order_fields(episode.order), result_fields(result_of(episode))]))
    order = read_order(apart[0], FileProblem)
    assert episode_of(read_result(apart[1], FileProblem), order) == episode


def test_a_sensor_that_failed_is_null_and_comes_back_as_no_number() -> None:
    fields = episode_fields(replace(EPISODE, achieved_start=(math.nan, 0.25, math.inf)))
    assert fields["achieved_start"] == [None, 0.25, None]
    first, second, third = read_episode(fields).achieved_start
    assert (math.isnan(first), second, math.isnan(third)) == (True, 0.25, True)


def test_forms_of_older_versions_are_read() -> None:
    order, result = order_fields(ORDER), result_fields(result_of(EPISODE))
    del order["early_stop"], result["hopeless_at"], result["pictures_sha256"]
    assert read_order(order) == ORDER
    assert read_result(result) == result_of(EPISODE)


@pytest.mark.parametrize("problem", [FileProblem, TransportProblem])
@pytest.mark.parametrize("name", [*order_fields(ORDER), *result_fields(result_of(EPISODE))])
def test_every_field_is_checked_wherever_it_comes_from(name: str, problem: type[EnpireError]) -> None:
    order, result = order_fields(ORDER), result_fields(result_of(EPISODE))
    for fields, read in ((order, read_order), (result, read_result)):
        if name not in fields:
            continue
        with pytest.raises(problem, match=f"{name}|early stop"):
            read({**fields, name: {"no": "such"}}, problem)
        if name not in ("early_stop", "hopeless_at", "pictures_sha256"):
            with pytest.raises(problem, match=f"lacks the field '{name}'"):
                read({key: value for key, value in fields.items() if key != name}, problem)


@pytest.mark.parametrize("problem", [FileProblem, TransportProblem])
def test_an_unknown_field_is_refused_wherever_it_comes_from(problem: type[EnpireError]) -> None:
    order, early = order_fields(ORDER), {"below": 0.1, "control": 0.2, "armed": True, "more": 1}
    with pytest.raises(problem, match="unknown field 'more'"):
        read_order({**order, "more": 1}, problem)
    with pytest.raises(problem, match="unknown field 'more'"):
        read_order({**order, "early_stop": early}, problem)
    with pytest.raises(problem, match="unknown field 'more'"):
        read_result({**result_fields(result_of(EPISODE)), "more": 1}, problem)
    with pytest.raises(problem, match="unknown field 'more'"):
        read_episode({**episode_fields(EPISODE), "more": 1}, problem)


def test_numbers_out_of_range_are_refused() -> None:
    result = result_fields(result_of(EPISODE))
    for name, value in (("confidence", 1.5), ("ticks", -1), ("began_s", math.inf), ("attempts", [1, None])):
        with pytest.raises(FileProblem, match=name):
            read_result({**result, name: value}, FileProblem)


def test_a_result_is_never_read_as_that_of_another_order() -> None:
    with pytest.raises(FileProblem, match="read as that of order o2"):
        episode_of(result_of(EPISODE), replace(ORDER, order_id="o2"))
