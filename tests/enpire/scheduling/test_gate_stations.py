"""Open gates are divided among the stations: balanced, disjoint, and only where both versions of a gate can run."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from enpire.campaign.state import OpenGate
from enpire.scheduling.gate_stations import gate_stations


def gates(n: int) -> dict[str, OpenGate]:
    return {
        f"G{k}": OpenGate(gate_id=f"G{k}", champion="base", candidate=f"next-{k}", round=k, k=k, level=0.05)
        for k in range(1, n + 1)
    }


def served(n: int, stations: dict[str, int], unable: frozenset[tuple[str, str]] = frozenset()) -> dict[str, str]:
    return {name: gate.gate_id for name, gate in gate_stations(gates(n), stations, unable).items()}


def test_stations_are_divided_by_their_lanes() -> None:
    assert served(2, {"a": 4, "b": 4, "c": 4, "d": 4}) == {"a": "G1", "b": "G2", "c": "G1", "d": "G2"}
    assert served(2, {"a": 1, "b": 1, "c": 2}) == {"c": "G1", "a": "G2", "b": "G2"}


def test_with_fewer_stations_than_gates_the_newest_gates_wait() -> None:
    assert served(3, {"a": 4, "b": 4}) == {"a": "G1", "b": "G2"}


def test_a_station_that_cannot_run_a_candidate_serves_another_gate() -> None:
    unable = frozenset({("a", "next-1"), ("b", "next-1")})
    assert served(2, {"a": 4, "b": 4, "c": 4}, unable) == {"a": "G2", "b": "G2", "c": "G1"}
    assert served(2, {"a": 4, "b": 4}, frozenset({("a", "base")})) == {"b": "G1"}


@given(
    n=st.integers(1, 4), lanes=st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 16)),
    unable=st.frozensets(st.tuples(st.sampled_from("abcdef"), st.sampled_from(["next-1", "next-2", "next-3"]))),
)  # fmt: skip
def test_no_station_is_idle_that_can_serve_a_gate(
    n: int, lanes: dict[str, int], unable: frozenset[tuple[str, str]]
) -> None:
    found = gate_stations(gates(n), lanes, unable)
    for name in lanes:
        able = [gate for gate in gates(n).values() if (name, gate.candidate) not in unable]
        assert (name in found) == bool(able)
        assert name not in found or (name, found[name].candidate) not in unable
