"""The audit of what few campaigns record: branches, experiments, late and unannounced trials, rollbacks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from enpire.gate.gate import confirm
from enpire.gate.regression import lost_success
from enpire.gate.rule import level
from enpire.queries.decision_audit import Check, recompute
from enpire.store.ledger import SqliteLedger
from tests.enpire.queries.test_audit_is_strict import audited, changed, extra, late
from tests.enpire.queries.test_decision_audit import RULE, Entry, Story, campaign, rows
from tests.fakes.sample_branches import BAD, GOOD, record_branches
from tests.fakes.sample_campaign import BASE

Change = Callable[[dict[str, object]], dict[str, object]]


@pytest.fixture(scope="module")
def branched(tmp_path_factory: pytest.TempPathFactory) -> list[Entry]:
    """A campaign in which one branch enters a gate and is kept, and another ends without a gain."""
    home = tmp_path_factory.mktemp("branched")
    record_branches(home)
    ledger = SqliteLedger(home / "ledger.db", read_only=True)
    try:
        entries: list[Entry] = [(entry.kind, dict(entry.body)) for entry in ledger.events()]
    finally:
        ledger.close()
    gate = entries[place(entries, "gate decided")][1]
    wins, losses, pairs = (int(str(gate[name])) for name in ("wins", "losses", "pairs"))
    figures = {"delta": (wins - losses) / pairs, "pairs": pairs} | {
        name: gate[name] for name in ("low", "high", "reason", "gate_id")
    }
    return with_change(entries, "experiment decided", **figures)


def place(entries: list[Entry], kind: str) -> int:
    """Where the first event of a kind is."""
    return next(number for number, (name, _) in enumerate(entries) if name == kind)


def with_change(entries: list[Entry], kind: str, **fields: object) -> list[Entry]:
    """The entries, with other fields in the first event of a kind."""
    at = place(entries, kind)
    return [*entries[:at], (kind, entries[at][1] | fields), *entries[at + 1 :]]


def test_decisions_of_branches_come_out_equal(branched: list[Entry]) -> None:
    checks = audited(branched)
    assert {kind for kind, check in checks.items() if not check.equal} == set()
    assert (checks["branch entered gate"].subject, checks["branch ended"].subject) == (GOOD, BAD)
    assert checks["branch ended"].sentence.startswith("gain -")
    assert checks["experiment decided"].sentence == "keep, as its gate decided"


@pytest.mark.parametrize(
    ("kind", "fields", "why"),
    [
        ("branch entered gate", {"gain": 0.99}, "the ledger has gain = 0.99, the records give"),
        ("branch entered gate", {"n": 1}, "the ledger has n = 1, the records give"),
        ("branch entered gate", {"robot_s": 1.0}, "the ledger has robot_s = 1.0"),
        ("branch entered gate", {"experiment_id": "nobody"}, "this branch was never opened"),
        ("branch ended", {"low": 0.5}, "the ledger has low = 0.5"),
        ("branch ended", {"reason": "same actions"}, "no earlier branch acts the same"),
        ("branch ended", {"reason": "no tokens left", "tokens": 5}, "its session used 0 tokens and 0 of money for it"),
        ("branch ended", {"reason": "no money left", "money": 0.5}, "its session used 0 tokens and 0 of money for it"),
        ("experiment decided", {"decision": "revert"}, "the ledger has decision = 'revert', the records give 'keep'"),
        ("experiment decided", {"experiment_id": "nobody"}, "no submitted experiment went through this gate"),
        ("experiment decided", {"gate_id": "nobody"}, "no submitted experiment went through this gate"),
    ],
)
def test_a_changed_decision_of_a_branch_is_seen(
    branched: list[Entry], kind: str, fields: dict[str, object], why: str
) -> None:
    found = audited(with_change(branched, kind, **fields))[kind]
    assert not found.equal
    assert why in found.sentence


def test_a_branch_without_a_gain_may_enter_no_gate(branched: list[Entry]) -> None:
    [ended] = [body for kind, body in branched if kind == "branch ended"]
    fields = {key: value for key, value in ended.items() if key not in ("reason", "detail")}
    told = [(k, b) for k, b in branched if k != "branch entered gate"]
    at = place(told, "branch ended")
    check = audited([*told[:at], ("branch entered gate", fields), *told[at + 1 :]])["branch entered gate"]
    assert not check.equal
    assert "the version showed no gain" in check.sentence


def handed_over(entries: list[Entry], after: int, **fields: object) -> list[Entry]:
    """The campaign with one hand-over before its first decided branch."""
    told: dict[str, object] = {"campaign_id": entries[0][1]["campaign_id"], "policy_id": BASE, "round": 0}
    told |= {"without_gain": 0, "reason": "no round left", **fields}
    started = entries[0][1] | {"campaign": {"branches": {"hand_over_after": after}}}
    at = place(entries, "branch ended")
    return [(entries[0][0], started), *entries[1:at], ("rounds handed over", told), *entries[at:]]


def test_a_hand_over_is_taken_again(branched: list[Entry]) -> None:
    check = audited(handed_over(branched, 1))["rounds handed over"]
    assert (check.equal, check.subject, check.sentence) == (True, BASE, "0 rounds in a row without more success")


@pytest.mark.parametrize(
    ("after", "fields", "why"),
    [
        (1, {"without_gain": 1}, "the ledger has without_gain = 1, the records give 0"),
        (1, {"policy_id": "other"}, "the ledger has policy_id = 'other'"),
        (1, {"reason": "stalled"}, "the campaign hands over after 1"),
        (1, {"round": 3}, "the ledger has round = 3, the records give 0"),
        (0, {}, "robots acted for branches before"),
    ],
)
def test_a_changed_hand_over_is_seen(branched: list[Entry], after: int, fields: dict[str, object], why: str) -> None:
    check = audited(handed_over(branched, after, **fields))["rounds handed over"]
    assert not check.equal
    assert why in check.sentence


def test_a_hand_over_with_rounds_left_is_seen(branched: list[Entry]) -> None:
    entries = handed_over(branched, 1)
    campaign = {"branches": {"hand_over_after": 1}, "budget": {"rounds": 2}}
    check = audited([(entries[0][0], entries[0][1] | {"campaign": campaign}), *entries[1:]])["rounds handed over"]
    assert not check.equal
    assert "the campaign has 2 rounds" in check.sentence


def test_an_experiment_whose_candidate_had_another_recipe_is_seen(branched: list[Entry]) -> None:
    submitted = next(b for k, b in branched if k == "experiment submitted" and b["experiment_id"] == GOOD)
    entries = [(k, b | {"recipe_hash": "another"} if b is submitted else b) for k, b in branched]
    check = audited(entries)["experiment decided"]
    assert not check.equal
    assert "trained with another recipe than the one that was submitted" in check.sentence


def test_an_experiment_whose_gate_tested_another_version_is_seen(branched: list[Entry]) -> None:
    [opened] = [body for kind, body in branched if kind == "gate opened"]
    entries = [(k, b | {"candidate": "f" * 64} if b is opened else b) for k, b in branched]
    check = audited(entries)["experiment decided"]
    assert not check.equal
    assert "its gate tested another version than the one that was trained for it" in check.sentence


def test_progress_is_the_number_of_each_event_that_was_read(tmp_path: Path) -> None:
    record_branches(tmp_path)
    ledger, seen = SqliteLedger(tmp_path / "ledger.db", read_only=True), list[int]()
    try:
        recompute(ledger, seen.append)
    finally:
        ledger.close()
    assert len(seen) > 100
    assert seen == sorted(set(seen))


def test_a_confirmation_that_was_never_announced_is_seen() -> None:
    check = audited([(k, b) for k, b in campaign().entries if k != "confirm opened"])["confirmed"]
    assert not check.equal
    assert check.sentence == "this confirmation was never announced"


def test_a_trial_of_another_version_does_not_count_in_a_confirmation() -> None:
    entries = campaign().entries
    last = [rows(b, "orders")[0] for k, b in entries if k == "order issued"][-1]
    last["policy_id"] = "smuggled"
    [(_, body)] = [(k, b) for k, b in entries if k == "orders ended" and str(last["order_id"]) in str(b)]
    rows(body, "episodes")[0]["ran_policy_id"] = "smuggled"
    assert "49 trials on 50 starts where 50 were announced" in audited(entries)["confirmed"].sentence


def released(purpose: str, version: int) -> list[Entry]:
    """A campaign with this version of the gate's rule, in which one more trial was released before it began."""
    story, more = campaign(), Story(orders=900)
    if purpose == "base":
        more.run("base", "base", 900, "holdout", 1.0)
    else:
        more.run("confirm", "next", 900, "confirm", 1.0)
    at = place(story.entries, "base measured" if purpose == "base" else "confirmed")
    row = rows(more.entries[1][1], "episodes")[0]
    row |= {"outcome": "aborted", "cause": "released: the station left", "ran_policy_id": "", "ticks": 0}
    entries = [*story.entries[:at], *more.entries, *story.entries[at:]]
    return with_change(entries, "campaign started", campaign={"gate": {"version": version}})


@pytest.mark.parametrize(("purpose", "kind"), [("base", "base measured"), ("confirm", "confirmed")])
def test_a_trial_that_never_began_counts_in_no_measurement(purpose: str, kind: str) -> None:
    check = audited(released(purpose, 2))[kind]
    assert check.equal, check.sentence


@pytest.mark.parametrize(("purpose", "kind"), [("base", "base measured"), ("confirm", "confirmed")])
def test_a_measurement_that_took_another_start_for_an_interrupted_one_is_seen(purpose: str, kind: str) -> None:
    check = audited(released(purpose, 3))[kind]
    assert not check.equal
    assert "1 starts of interrupted trials were not ordered again" in check.sentence


def test_the_late_result_of_a_gate_changes_no_decision_and_is_counted() -> None:
    checks = audited(late("gate", "failure"))
    assert checks["sum of orders"].equal
    assert checks["sum of orders"].sentence.endswith("; 1 late results, 1 of them stay as their gate counted")
    checks = audited(late("base", "failure"))
    assert checks["sum of orders"].sentence.endswith("; 1 late results, 0 of them stay as their gate counted")


def test_a_late_result_that_comes_twice_breaks_the_sum() -> None:
    entries = late("base", "failure")
    again = next(entry for entry in entries if entry[0] == "orders found")
    check = audited([*entries, again])["sum of orders"]
    assert not check.equal
    assert "1 ends belong to no open order" in check.sentence


def test_a_late_result_that_never_began_is_no_trial_of_the_base() -> None:
    entries = late("base", "failure")
    [(_, body)] = [entry for entry in entries if entry[0] == "orders found"]
    rows(body, "episodes")[0].update(outcome="aborted", cause="released: the station left", ran_policy_id="", ticks=0)
    check = audited(entries)["base measured"]
    assert not check.equal
    assert "the ledger has n = 30, the records give 29" in check.sentence


def test_a_gate_that_was_never_opened_decides_nothing() -> None:
    check = audited([(k, b) for k, b in campaign().entries if k != "gate opened"])["gate decided"]
    assert not check.equal
    assert check.sentence == "this gate was never opened"


def test_a_gate_whose_champion_was_replaced_has_ended() -> None:
    entries, of = campaign().entries, {"campaign_id": "c", "round": 1}
    at = place(entries, "gate decided")
    back: Entry = ("rolled back", {**of, "policy_id": "base", "to": "base", "reason": "worse"})
    assert audited([*entries[:at], back, *entries[at:]])["gate decided"].equal
    wanted: Entry = ("command accepted", {"campaign_id": "c", "verb": "promote", "target": "other"})
    swap: Entry = ("deployed", {**of, "policy_id": "other", "previous": "base", "reason": "x"})
    check = audited([*entries[:at], wanted, swap, *entries[at:]])["gate decided"]
    assert not check.equal
    assert "its champion was replaced before, which ended the gate" in check.sentence


def test_a_decision_that_the_records_do_not_give_is_seen() -> None:
    entries = campaign().entries
    first = place(entries, "gate opened")
    at = place(entries, "gate decided")
    check = audited([*entries[: first + 9], *entries[at:]])["gate decided"]
    assert not check.equal
    assert "the records give no decision: " in check.sentence
    told = changed("gate decided", lambda body: {"reason": "unloadable", "decision": "reject"})
    assert not audited(told)["gate decided"].equal


def test_a_candidate_that_no_station_refused_is_not_unloadable() -> None:
    entries = campaign().entries
    first = place(entries, "gate opened")
    at = place(entries, "gate decided")
    told = (entries[at][0], entries[at][1] | {"reason": "unloadable", "decision": "reject"})
    check = audited([*entries[: first + 9], told])["gate decided"]
    assert not check.equal
    assert "no station refused the candidate" in check.sentence


@pytest.mark.parametrize(
    ("kind", "fields", "why"),
    [
        ("deployed", {"previous": "nobody"}, "the ledger has previous = 'nobody', the records give 'base'"),
        ("gate opened", {"promoted": 1}, "the ledger has promoted = 1, the records give 0"),
        ("confirmed", {"passed": False}, "the ledger has passed = False, the records give True"),
        ("confirmed", {"n": 49}, "the ledger has n = 49, the records give 50"),
    ],
)
def test_a_changed_fact_is_named(kind: str, fields: dict[str, object], why: str) -> None:
    check = audited(changed(kind, lambda _: fields))[kind]
    assert not check.equal
    assert why in check.sentence


def test_a_promotion_counts_once_and_is_granted_once() -> None:
    story = campaign()
    story.tell("deployed", policy_id="next", previous="next", reason="better", round=1)
    check = audited(story.entries)["deployed"]
    assert not check.equal
    assert "no gate promoted this version and no operator promoted it" in check.sentence


def test_a_rollback_names_the_version_that_it_replaces() -> None:
    story = campaign()
    story.tell("rolled back", policy_id="next", to="base", reason="worse", round=1)
    assert audited(story.entries)["rolled back"].equal
    story.entries[-1] = ("rolled back", story.entries[-1][1] | {"policy_id": "base"})
    check = audited(story.entries)["rolled back"]
    assert not check.equal
    assert "the ledger has policy_id = 'base', the records give 'next'" in check.sentence


def test_sums_name_their_campaign() -> None:
    check: Check = audited(extra("orders ended", 5))["sum of orders"]
    assert (check.subject, check.kind) == ("c", "sum of orders")


def arrives_late(entries: list[Entry], at: int) -> list[Entry]:
    """The entries, in which the trial that ends at a place ended as unknown there; its result comes next."""
    kind, body = entries[at]
    [result] = rows(body, "episodes")
    unknown = {"episodes": [result | {"outcome": "unknown", "cause": "station lost"}]}
    return [*entries[:at], (kind, body | unknown), ("orders found", body), *entries[at + 1 :]]


def test_a_late_result_counts_in_the_confirmation_that_runs() -> None:
    story = campaign()
    story.tell("confirm opened", policy_id="next", n=20, goal=0.8)
    for index in range(100, 120):
        story.run("confirm", "next", index, "confirm", 0.9)
    successes = sum(story.ends("confirm")[50:])
    result = confirm(successes, 20, 0.8)
    figures = {"successes": successes, "low": result.interval.low, "high": result.interval.high}
    story.tell("confirmed", policy_id="next", n=20, passed=result.passed, **figures)
    won = [
        number for number, (kind, body) in enumerate(story.entries)
        if kind == "orders ended" and rows(body, "episodes")[0]["outcome"] == "success"
    ]  # fmt: skip
    check = audited(arrives_late(story.entries, won[-1]))["confirmed"]
    assert check.equal, check.sentence


@pytest.mark.parametrize(("is_late", "version"), [(False, 3), (True, 3), (False, 2)])
def test_what_a_champion_lost_is_counted_with_late_results(is_late: bool, version: int) -> None:
    story = campaign()
    counts: dict[str, list[bool]] = {}
    for kind, body in story.entries:
        for row in rows(body, "episodes") if kind == "orders ended" else []:
            counts.setdefault(str(row["ran_policy_id"]), []).append(row["outcome"] == "success")
    base, better = ((sum(found), len(found)) for found in (counts["base"], counts["next"]))
    drop, rule = lost_success(base, [better], version), {**asdict(RULE), "version": version}
    assert drop > 0
    story.tell("rolled back", policy_id="next", to="base", reason="worse", round=1)
    opened = {"gate_id": "g2", "champion": "base", "candidate": "third", "k": 2, "promoted": 1, "drop": drop}
    story.tell("gate opened", **opened, alpha=level(RULE.alpha, 2, 1), round=2, rule=rule)
    at = place(story.entries, "orders ended")
    check = audited(arrives_late(story.entries, at) if is_late else story.entries)["gate opened"]
    assert check.equal, check.sentence


def test_a_late_result_of_another_kind_counts_in_no_confirmation() -> None:
    entries, more = campaign().entries, Story(orders=900)
    more.run("collect", "next", 900, "train", 1.0)
    at = place(entries, "confirmed")
    check = audited(arrives_late([*entries[:at], *more.entries, *entries[at:]], at + 1))["confirmed"]
    assert check.equal, check.sentence


@pytest.mark.parametrize("kind", ["orders ended", "orders found"])
def test_an_end_of_no_order_hides_no_other_end(kind: str) -> None:
    entries = late("base", "failure")
    whole = audited(entries)["sum of orders"]
    body = entries[place(entries, kind)][1]
    [result] = rows(body, "episodes")
    body["episodes"] = [result | {"order_id": "nobody"}, result]
    check = audited(entries)["sum of orders"]
    assert whole.equal
    assert not check.equal
    assert check.sentence == f"{whole.sentence} does not hold; 1 ends belong to no open order"
