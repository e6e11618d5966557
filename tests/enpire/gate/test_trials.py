"""Which interrupted trials of a base measurement or a confirmation are reissued."""

from __future__ import annotations

from dataclasses import replace

import pytest

from enpire.gate.rule import rule_version
from enpire.gate.trials import DISK_FULL, PROCESS_ENDED, REPLACED, SESSION_ENDED, STATION_ENDS, STATION_LEFT, Reissues
from enpire.types import Episode, Json
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
    assert accepted(reissues, range(10), cause) == 4 * STATION_ENDS
    assert reissues.accept(interrupted_at(99, cause, version="q" * 64)), "another version has ended none"


@pytest.mark.parametrize("cause", [SESSION_ENDED, DISK_FULL])
def test_what_ends_with_the_whole_session_is_not_the_versions_fault(cause: str) -> None:
    assert accepted(Reissues(), range(10), cause) == 40
    assert accepted(Reissues(), range(100), cause) == REPLACED, "not without end"


def test_version_1_of_the_rule_reissues_up_to_its_limit() -> None:
    assert accepted(Reissues(rule_version=1), range(100), DURING) == REPLACED


@pytest.mark.parametrize("cause", ["stopped by anna", "policy failed: ValueError", ""])
def test_an_operators_stop_is_no_interruption(cause: str) -> None:
    assert accepted(Reissues(), range(3), cause) == 0


@pytest.mark.parametrize(("stored", "version"), [({}, 1), ({"gate": {}}, 1), ({"gate": {"version": 2}}, 2)])
def test_a_stored_campaign_without_a_version_is_of_version_1(stored: dict[str, Json], version: int) -> None:
    assert rule_version(stored) == version
