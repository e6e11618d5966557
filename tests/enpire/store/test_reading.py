"""The questions: every order is in exactly one place, and every filter says what it means."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from enpire.campaign.events import UnknownEvent
from enpire.errors import LedgerProblem
from enpire.store import connection
from enpire.store.ledger import SqliteLedger
from enpire.store.order_page import ENDED, OPEN, Page
from enpire.store.reading import OutcomeCounts, Reading
from enpire.types import OUTCOME_KINDS, OutcomeKind, Start
from tests.enpire.store.store_samples import an_episode, an_order, ended, issued
from tests.fakes.sample_events import append


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[SqliteLedger]:
    opened = SqliteLedger(tmp_path / "ledger.db")
    yield opened
    opened.close()


@pytest.fixture
def reading(ledger: SqliteLedger) -> Iterator[Reading]:
    opened = Reading.open(ledger.path)
    yield opened
    opened.close()


def test_orders_and_episodes_come_back_whole(ledger: SqliteLedger, reading: Reading) -> None:
    order = an_order(
        purpose="gate", gate_id="g1", pair=4, side="candidate", lease=9, supervised=True, round=7,
        start=Start(split="holdout", index=11, values=(math.pi, -0.0), seed=2**63 - 1),
    )  # fmt: skip
    append(ledger, [issued(order)])
    assert reading.open_orders("c1") == [order]
    row = reading.order(order.order_id)
    assert row is not None
    assert (row.episode, row.ended_seq, row.issued_seq) == (None, None, 1)
    seen = an_episode(order, "unsafe", pictures_sha256="b" * 64, explored=True)
    append(ledger, [ended(seen)])
    row = reading.order(order.order_id)
    assert row is not None
    assert (row.episode, row.ended_seq) == (seen, 2)
    assert reading.order("nobody") is None


def test_the_success_of_data_collection_leaves_out_hard_starts_and_exploration_noise(
    ledger: SqliteLedger, reading: Reading
) -> None:
    hard = Start(split="train", index=3, values=(), seed=1)
    uniform = replace(hard, index=4)
    rollouts: list[tuple[Start, OutcomeKind, bool]] = [
        (uniform, "success", False),
        (uniform, "failure", True),
        (hard, "failure", False),
    ]
    orders = [an_order(start=start) for start, _, _ in rollouts]
    found = [
        an_episode(order, outcome, explored=explored)
        for order, (_, outcome, explored) in zip(orders, rollouts, strict=True)
    ]
    append(ledger, [issued(*orders), ended(*found)])
    assert reading.uniform_success("c1", orders[0].policy_id) == 1.0


def test_a_dead_sensor_is_recorded_as_such(ledger: SqliteLedger, reading: Reading) -> None:
    order = an_order()
    dead = an_episode(order, "invalid", achieved_start=(math.nan, 0.5))
    append(ledger, [issued(order), ended(dead)])
    row = reading.order(order.order_id)
    assert row is not None
    assert row.episode is not None
    assert math.isnan(row.episode.achieved_start[0])
    assert row.episode.achieved_start[1] == 0.5


def _ended(ledger: SqliteLedger, outcome: OutcomeKind | None, n: int = 1, **changes: object) -> list[str]:
    orders = [an_order(**changes) for _ in range(n)]  # pyright: ignore[reportArgumentType]
    append(ledger, [issued(*orders)])
    if outcome:
        append(ledger, [ended(*(an_episode(order, outcome) for order in orders))])
    return [order.order_id for order in orders]


def test_the_account_adds_up(ledger: SqliteLedger, reading: Reading) -> None:
    for n, outcome in enumerate(OUTCOME_KINDS, start=1):
        _ended(ledger, outcome, n)
    _ended(ledger, None, 7)
    _ended(ledger, "success", campaign_id="c2")
    ends = reading.ends("c1")
    assert (ends.success, ends.failure, ends.unsafe, ends.aborted, ends.invalid, ends.unknown) == (1, 2, 3, 4, 5, 6)
    assert (ends.open, ends.started) == (7, 28)
    assert reading.causes("c1")["aborted", "why"] == 4
    assert reading.ends("nothing").started == 0


def test_successes_say_what_they_leave_out(ledger: SqliteLedger, reading: Reading) -> None:
    _ended(ledger, "success", 3, purpose="base")
    _ended(ledger, "failure", 2, purpose="base", round=2)
    _ended(ledger, "unsafe", 1, purpose="base", policy_id="b" * 64)
    _ended(ledger, "aborted", 4, purpose="base")
    _ended(ledger, None, 5, purpose="base")
    _ended(ledger, "success", 9, purpose="collect")
    assert reading.successes("c1", "base") == OutcomeCounts(3, 6, 15)
    assert reading.successes("c1", "base", policy_id="b" * 64) == (0, 1, 1)
    assert reading.successes("c1", "base", round=2) == (0, 2, 2)
    assert reading.successes("c1", "confirm") == (0, 0, 0)


def test_gate_trials_come_in_the_order_of_their_ends(ledger: SqliteLedger, reading: Reading) -> None:
    orders = [an_order(purpose="gate", gate_id="g1", pair=n, side="champion") for n in range(4)]
    append(ledger, [issued(*orders, an_order(purpose="gate", gate_id="g2"))])
    for order in (orders[2], orders[0], orders[3]):
        append(ledger, [ended(an_episode(order, "failure", ticks=order.pair))])
    trials = reading.gate_trials("g1")
    assert [trial.pair for trial in trials] == [2, 0, 3]
    assert [trial.ticks for trial in trials] == [2, 0, 3]
    assert {(trial.side, trial.outcome) for trial in trials} == {("champion", "failure")}
    assert reading.gate_trials("") == []


def test_pages_join_to_the_whole(ledger: SqliteLedger, reading: Reading) -> None:
    made = _ended(ledger, "success", 10) + _ended(ledger, "failure", 10, round=2) + _ended(ledger, None, 3)
    pages: list[str] = []
    before = ""
    while found := reading.episodes(Page(campaign_id="c1", before=before, limit=7)):
        pages += [row.order.order_id for row in found]
        before = pages[-1]
    assert pages == made[::-1]


@pytest.mark.parametrize(
    ("page", "n"),
    [
        (Page(campaign_id="c1"), 9),
        (Page(campaign_id="c1", outcome="failure"), 2),
        (Page(campaign_id="c1", outcome=OPEN), 4),
        (Page(campaign_id="c1", outcome=ENDED), 5),
        (Page(campaign_id="c1", round=0), 3),
        (Page(campaign_id="c1", round=1, outcome=OPEN), 4),
        (Page(campaign_id="c1", purpose="base"), 3),
        (Page(campaign_id="c1", station="cell-2"), 4),
        (Page(campaign_id="c1", policy_id="x"), 2),
        (Page(campaign_id="c2"), 0),
    ],
)
def test_each_filter_filters(ledger: SqliteLedger, reading: Reading, page: Page, n: int) -> None:
    _ended(ledger, "success", 3, purpose="base", round=0)
    _ended(ledger, "failure", 2, policy_id="x")
    _ended(ledger, None, 4, station="cell-2")
    assert len(reading.episodes(page)) == n


def test_training_never_sees_a_hidden_start(ledger: SqliteLedger, reading: Reading) -> None:
    wanted = _ended(ledger, "success", 2, purpose="demonstrate", policy_id="scripted:expert", round=0)
    wanted += _ended(ledger, "failure", 2, purpose="collect")
    for split in ("holdout", "confirm"):
        start = replace(an_order().start, split=split)  # pyright: ignore[reportArgumentType]
        _ended(ledger, "success", purpose="collect", start=start)
    _ended(ledger, "success", purpose="gate", gate_id="g")
    _ended(ledger, "aborted")
    _ended(ledger, None)
    unrecorded = an_order()
    append(ledger, [issued(unrecorded), ended(an_episode(unrecorded, sha256=""))])
    assert reading.training_episodes("c1") == wanted
    assert reading.training_episodes("c1", rounds=[1, 5]) == wanted[2:]
    assert unrecorded.order_id not in reading.recorded()


def test_the_newest_events_and_the_campaigns(ledger: SqliteLedger, reading: Reading) -> None:
    for n in range(6):
        append(ledger, [("note", {"campaign_id": f"c{n % 2}", "n": n})])
        append(ledger, [("tick", {})])
    assert [event.seq for event in reading.tail(3)] == [10, 11, 12]
    assert [event.body["n"] for event in reading.tail(2, "c0")] == [2, 4]
    assert [event.seq for event in reading.events(after=4, kinds=("tick",), limit=2)] == [6, 8]
    assert [event.body["n"] for event in reading.events(campaign_id="c1")] == [1, 3, 5]
    spans = reading.campaigns()
    assert [(span.campaign_id, span.first_seq, span.last_seq) for span in spans] == [("c1", 3, 11), ("c0", 1, 9)]


def test_a_person_has_the_last_word_beside_the_verifier(ledger: SqliteLedger, reading: Reading) -> None:
    (order_id,) = _ended(ledger, "failure")
    (still_open,) = _ended(ledger, None)
    body = {"campaign_id": "c1", "order_id": order_id, "outcome": "success"}
    append(ledger, [("person judged", body)])
    row = reading.order(order_id)
    assert row is not None
    assert row.episode is not None
    assert (row.episode.outcome, row.person_outcome) == ("failure", "success")
    with pytest.raises(LedgerProblem, match="cannot be labelled: it has not ended"):
        append(ledger, [("person judged", body | {"order_id": still_open})])
    with pytest.raises(LedgerProblem, match="outcome must be one of .*, not 'fine'"):
        ledger.append(
            [UnknownEvent(kind="person judged", content={"order_id": order_id, "outcome": "fine", "by": ""})], "c1"
        )
    ledger.verify()


def test_questions_read_no_more_than_they_need(ledger: SqliteLedger) -> None:
    append(ledger, [("note", {"campaign_id": "c1"})])
    reading = Reading(ledger.database)
    asked: list[str] = []
    ledger.database.set_trace_callback(asked.append)
    reading.order("o")
    reading.open_orders("c1")
    reading.ends("c1")
    reading.successes("c1", "base", "p", 3)
    reading.gate_trials("g1")
    reading.episodes(Page(campaign_id="c1", before="o"))
    reading.episodes(Page(campaign_id="c1", station="cell-1"))
    reading.episodes(Page(campaign_id="c1", outcome="unsafe"))
    reading.episodes(Page(campaign_id="c1", policy_id="p"))
    reading.episodes(Page(campaign_id="c1", round=3))
    reading.episodes(Page(campaign_id="c1", purpose="gate"))
    reading.episodes(Page(campaign_id="c1", starts="hidden"))
    reading.episodes(Page(campaign_id="c1", starts="train"))
    reading.episodes(Page(campaign_id="c1", label="differs"))
    reading.training_episodes("c1", [1, 2])
    reading.tail(3, "c1")
    reading.events(3, "c1")
    reading.campaigns()
    ledger.database.set_trace_callback(None)
    plans: list[str] = []
    for sql in asked:
        steps = connection.run(ledger.database, f"EXPLAIN QUERY PLAN {sql}")
        plans.append(" ".join(str(row[3]) for row in steps))
    assert len(plans) >= 12
    assert not [plan for plan in plans if "SCAN orders" in plan or "SCAN events" in plan]
    wanted = (
        "open",
        "by_outcome",
        "by_purpose",
        "by_gate",
        "by_station",
        "by_round",
        "page",
        "page_of_outcome",
        "page_of_policy",
        "page_of_purpose",
        "page_of_hidden",
        "page_of_train",
        "labelled",
    )
    for index in (f"orders_{name}" for name in wanted):
        assert [plan for plan in plans if f"INDEX {index} (" in plan], index


def test_a_closed_reader_says_so(ledger: SqliteLedger) -> None:
    with closing(Reading.open(ledger.path)) as reading:
        pass
    with pytest.raises(LedgerProblem, match="refused"):
        reading.ends("c1")
