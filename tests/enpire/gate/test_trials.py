"""Which interrupted trials of a base measurement or a confirmation are reissued."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from enpire.gate.rule import rule_version
from enpire.gate.trials import (
    DISK_FULL,
    PROCESS_ENDED,
    REPLACED,
    SESSION_ENDED,
    STATION_ENDS,
    STATION_LEFT,
    STATION_TRIALS,
    Pair,
    Reissues,
    Tally,
    Trial,
)
from enpire.types import Episode, Json, OutcomeKind
from tests.enpire.store.store_samples import an_episode, an_order

DURING = f"{PROCESS_ENDED} during the episode"


def interrupted_at(lease: int, cause: str, version: str = "p" * 64) -> Episode:
    order = replace(an_order(), purpose="confirm", policy_id=version, lease=lease)
    return replace(an_episode(order), outcome="aborted", cause=cause)


def accepted(reissues: Reissues, leases: range, cause: str, lanes: int = 4) -> int:
    return sum(reissues.accept(interrupted_at(lease, cause)) for lease in leases for _ in range(lanes))


@pytest.mark.parametrize("cause", [DURING, f"{STATION_LEFT}: told to"])
def test_a_version_that_ends_its_station_again_and_again_keeps_its_failures(cause: str) -> None:
    reissues = Reissues()
    assert accepted(reissues, range(10), cause) == 4 * STATION_ENDS < STATION_TRIALS
    assert reissues.accept(interrupted_at(99, cause, version="q" * 64)), "another version has ended none"


@pytest.mark.parametrize(("lanes", "rule_version", "most"), [(16, 3, 16), (64, 3, 16), (16, 2, 48)])
def test_the_limit_counts_trials_also_where_a_station_has_many_robots(lanes: int, rule_version: int, most: int) -> None:
    reissues = Reissues(rule_version=rule_version)
    assert accepted(reissues, range(10), DURING, lanes) == most
    assert accepted(reissues, range(10, 20), SESSION_ENDED, lanes=1) == 10, "the session's end is not its fault"


def test_an_interrupted_trial_is_reissued_from_its_own_start_once() -> None:
    reissues, episode = Reissues(), interrupted_at(1, DURING)
    other = replace(episode.order, start=replace(episode.order.start, index=episode.order.start.index + 1))
    assert reissues.returns(episode)
    assert not reissues.reissued(other)
    assert not reissues.reissued(replace(episode.order, purpose="base"))
    assert not reissues.reissued(replace(episode.order, policy_id="q" * 64))
    assert reissues.reissued(episode.order)
    assert not reissues.reissued(episode.order), "it waits no longer"


def test_a_trial_that_counts_leaves_no_start_behind() -> None:
    reissues = Reissues()
    assert not reissues.returns(replace(interrupted_at(1, DURING), outcome="failure"))
    assert not reissues.waiting
    assert reissues.returns(replace(interrupted_at(1, "released: the gate ended"), ticks=0))
    assert Reissues(rule_version=2).returns(interrupted_at(1, DURING))


def test_a_campaign_of_an_earlier_rule_replaces_starts() -> None:
    reissues = Reissues(rule_version=2)
    assert reissues.returns(interrupted_at(1, DURING))
    assert not reissues.reissued(interrupted_at(1, DURING).order)


@pytest.mark.parametrize("cause", [SESSION_ENDED, DISK_FULL])
def test_what_ends_with_the_whole_session_is_not_the_versions_fault(cause: str) -> None:
    assert accepted(Reissues(), range(10), cause) == 40
    assert accepted(Reissues(), range(100), cause) == REPLACED, "not without end"


def test_version_1_of_the_rule_reissues_up_to_its_limit() -> None:
    assert accepted(Reissues(rule_version=1), range(100), DURING) == REPLACED


@pytest.mark.parametrize("cause", ["stopped by anna", "policy failed: ValueError", ""])
def test_an_operators_stop_is_no_interruption(cause: str) -> None:
    assert accepted(Reissues(), range(3), cause) == 0


def test_the_limits_that_the_documents_name() -> None:
    assert (REPLACED, STATION_ENDS, STATION_TRIALS) == (200, 3, 16)


OUTCOMES = st.sampled_from(["success", "failure", "unsafe", "aborted"])


@given(st.lists(st.tuples(OUTCOMES, OUTCOMES, st.integers(1, 3), st.integers(1, 3)), max_size=12))
def test_a_tally_counts_its_pairs(ends: list[tuple[OutcomeKind, OutcomeKind, int, int]]) -> None:
    tally = Tally()
    for index, (champion, candidate, before, after) in enumerate(ends):
        tally = tally.add(
            Pair(
                index=index,
                champion=Trial(pair=index, side="champion", outcome=champion, ticks=before),
                candidate=Trial(pair=index, side="candidate", outcome=candidate, ticks=after),
            )
        )
    both = [end for end in ends if end[:2] == ("success", "success")]
    unsafe = [(champion == "unsafe", candidate == "unsafe") for champion, candidate, _, _ in ends]
    assert tally == Tally(
        wins=sum(champion != "success" == candidate for champion, candidate, _, _ in ends),
        losses=sum(candidate != "success" == champion for champion, candidate, _, _ in ends),
        both=len(both),
        neither=sum("success" not in end[:2] for end in ends),
        faster=sum(after < before for _, _, before, after in both),
        slower=sum(after > before for _, _, before, after in both),
        champion_unsafe=sum(champion for champion, _ in unsafe),
        candidate_unsafe=sum(candidate for _, candidate in unsafe),
        champion_only_unsafe=unsafe.count((True, False)),
        candidate_only_unsafe=unsafe.count((False, True)),
        speed=tally.speed,
    )
    assert (tally.pairs, tally.speed.pairs) == (len(ends), len(both))


@pytest.mark.parametrize(
    ("stored", "version"), [({}, 1), ({"gate": {}}, 1), ({"gate": {"version": 2}}, 2), ({"gate": {"version": "2"}}, 1)]
)
def test_a_stored_campaign_without_a_version_is_of_version_1(stored: dict[str, Json], version: int) -> None:
    assert rule_version(stored) == version
