"""Every event comes back from its stored form as it was; older bodies are read; what fits no class is refused."""

from __future__ import annotations

import json
from typing import cast, get_args

import pytest
from hypothesis import given
from hypothesis import settings as limits
from hypothesis import strategies as st

from enpire.campaign.event_forms import EventBase
from enpire.campaign.event_upgrades import UPGRADES
from enpire.campaign.events import Event, KnownEvent, UnknownEvent, classes, kind_of, kinds_of, read_event
from enpire.campaign.gate_events import Confirmed, GateEvent
from enpire.campaign.recipe import Recipe
from enpire.campaign.session_events import CampaignStarted
from enpire.errors import FileProblem
from enpire.store.entries import canonical
from enpire.types import Json, Order, OrderResult
from tests.enpire.test_codec import episodes, orders, result_of

texts = st.text(max_size=20)
finite = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**53), 2**53)
settings = st.dictionaries(texts, st.booleans() | st.integers(-9, 9) | finite | texts | st.tuples(st.floats(-9, 9)))
leaves = st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-9, 9) | texts
documents = st.dictionaries(texts, st.recursive(leaves, lambda inner: st.lists(inner) | st.dictionaries(texts, inner)))
st.register_type_strategy(str, texts)
st.register_type_strategy(float, finite)
st.register_type_strategy(Order, orders)
st.register_type_strategy(OrderResult, episodes.map(result_of))
st.register_type_strategy(Recipe, st.builds(Recipe, name=texts, learner=texts, settings=settings))


FEW = limits(max_examples=10)
"""For each of the kinds, of which there are so many that a class of them sees hundreds of examples."""


def events_of(cls: type[EventBase]) -> st.SearchStrategy[EventBase]:
    return st.builds(cls, campaign=documents) if cls is CampaignStarted else st.builds(cls)


def stored(event: EventBase) -> tuple[str, dict[str, Json]]:
    """The body as the ledger stores it, and what JSON makes of it again."""
    text = canonical({"campaign_id": "c1", **event.body()})
    return text, cast("dict[str, Json]", json.loads(text))


@pytest.mark.parametrize("cls", get_args(KnownEvent), ids=lambda cls: cls.KIND)
@FEW
@given(data=st.data())
def test_every_event_comes_back_from_its_stored_form(cls: type[EventBase], data: st.DataObject) -> None:
    event = data.draw(events_of(cls))
    text, body = stored(event)
    again = read_event(cls.KIND, body)
    assert again == event
    assert canonical({"campaign_id": "c1", **again.body()}) == text, "it would be stored otherwise the second time"


@pytest.mark.parametrize("cls", get_args(KnownEvent), ids=lambda cls: cls.KIND)
@FEW
@given(data=st.data())
def test_a_body_that_lacks_a_key_is_refused_or_read_by_default(cls: type[EventBase], data: st.DataObject) -> None:
    _, body = stored(data.draw(events_of(cls)))
    del body["campaign_id"]
    if not body:
        return
    key = data.draw(st.sampled_from(sorted(body)))
    again = read_or_refusal(cls.KIND, {name: value for name, value in body.items() if name != key})
    if isinstance(again, str):
        assert repr(key) in again
        assert repr(cls.KIND) in again
    else:
        assert isinstance(again, cls)
        assert set(again.body()) <= set(body)


def read_or_refusal(kind: str, body: dict[str, Json]) -> Event | str:
    try:
        return read_event(kind, body)
    except FileProblem as problem:
        return str(problem)


@pytest.mark.parametrize("cls", get_args(KnownEvent), ids=lambda cls: cls.KIND)
@FEW
@given(data=st.data())
def test_a_value_of_the_wrong_type_is_refused(cls: type[EventBase], data: st.DataObject) -> None:
    _, body = stored(data.draw(events_of(cls)))
    key = data.draw(st.sampled_from(sorted(set(body) - {"campaign_id"})))
    if key == "campaign":
        return  # any document
    with pytest.raises(FileProblem, match="cannot be read"):
        read_event(cls.KIND, {**body, key: [[[]]]})


def test_each_kind_has_one_class() -> None:
    every = get_args(KnownEvent)
    assert len(classes()) == len(every)
    assert set(UPGRADES) == {cls.KIND for cls in every if cls.VERSION > 1}
    assert kinds_of(GateEvent, Confirmed)[-1] == "confirmed"
    assert len(kinds_of(GateEvent)) == len(get_args(GateEvent))


def test_a_kind_of_another_version_is_kept_as_it_is() -> None:
    event = read_event("robot danced", {"campaign_id": "c1", "steps": [1, 2]})
    assert event == UnknownEvent(kind="robot danced", content={"steps": [1, 2]})
    assert (kind_of(event), event.body()) == ("robot danced", {"steps": [1, 2]})


def test_a_key_of_a_newer_version_is_passed_over() -> None:
    body: dict[str, Json] = {"job": "j", "why": "w"}
    assert read_event("learner failed", {**body, "later": 1}) == read_event("learner failed", body)


OLDER: dict[str, tuple[dict[str, Json], dict[str, Json]]] = {
    "campaign started": (
        {"name": "n", "task": "t", "campaign": {}, "goal": {"success": 0.9}, "seed": 1, "home": "h", "code": "0"},
        {"verifier": ""},
    ),
    "campaign resumed": ({"code": "0.1.0"}, {"after": ""}),
    "campaign paused": ({"by": "ada"}, {"why": ""}),
    "episode refused": ({"order_id": "o", "station": "s", "why": "w"}, {"outcome": ""}),
    "learner ended": ({"job": "j", "policy_id": "p", "round": 1, "figures": {}}, {"seconds": 0.0}),
    "agent started": ({"lane": "l", "agent": "search", "start": 1}, {"sandbox": ""}),
}
"""Kind -> (a body as the first version wrote it, what the present version adds)."""


@pytest.mark.parametrize("kind", OLDER)
def test_bodies_of_older_versions_are_read(kind: str) -> None:
    older, added = OLDER[kind]
    assert read_event(kind, older).body() == {**older, **added}


@pytest.mark.parametrize("kind", [kind for kind in classes() if kind.startswith("command ")])
def test_the_target_of_a_command_was_called_station(kind: str) -> None:
    why: dict[str, Json] = {"why": "w"} if kind == "command refused" else {}
    older: dict[str, Json] = {"command_id": "c", "verb": "promote", "station": "a" * 64, "by": "ada", **why}
    event: Event = read_event(kind, older)
    body = event.body()
    assert body == {"command_id": "c", "verb": "promote", "target": "a" * 64, "by": "ada", **why}
    assert read_event(kind, body) == event


def test_all_older_forms_are_tested() -> None:
    assert set(OLDER) | {kind for kind in classes() if kind.startswith("command ")} == set(UPGRADES)


def test_a_confirmation_that_an_older_version_wrote_says_nothing_of_reissued_trials() -> None:
    older: dict[str, Json] = {"policy_id": "p", "successes": 9, "n": 10, "low": 0.6, "high": 1, "passed": True}
    event = read_event("confirmed", older)
    assert isinstance(event, Confirmed)
    assert event.reissued is None
    assert event.body() == older
