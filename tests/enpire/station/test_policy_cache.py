"""Policy versions at a station: fetching in parts, refused writes, damaged files."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import cast

import pytest

from enpire.errors import PeerSilent, PolicyProblem
from enpire.interfaces import Policy
from enpire.policy_calls import LoadedPolicy
from enpire.station.policy_cache import PolicyCache, loader_of
from enpire.station.remote_policy import RemotePolicy
from enpire.store import versions
from enpire.store.load_version import load_version
from enpire.wire.host_services import HostServices
from enpire.wire.messages import PolicyPart, WantPolicy
from tests.fakes.point_task import PointPolicy, PointTask, point_station, write_policy


class AtOnce(Executor):
    """An executor that runs its work before it returns."""

    def submit(self, fn, /, *arguments, **named):  # pyright: ignore[reportIncompatibleMethodOverride, reportMissingParameterType]
        done = Future()
        try:
            done.set_result(fn(*arguments, **named))
        except Exception as problem:  # noqa: BLE001  what a thread would keep
            done.set_exception(problem)
        return done


def test_a_version_that_the_disk_refuses_raises_an_alarm_and_is_fetched_again(tmp_path: Path) -> None:
    now_s, source = [0.0], write_policy(tmp_path / "files")
    policy_id = versions.identify(source)
    host = HostServices(clock=lambda: now_s[0], loaders=AtOnce)
    shelf = PolicyCache(tmp_path / "shelf", PointTask(), 0, host, loader_of(point_station(tmp_path)))
    packed = versions.pack(source)
    halves = [
        PolicyPart(policy_id=policy_id, part=part, parts=2, data=packed.read(part * 100, 100 + part * packed.size))
        for part in (0, 1)
    ]
    shelf.find(policy_id)
    shelf.arrived(halves[0])
    in_the_way = tmp_path / "shelf" / f"incoming-{policy_id}.parts"
    assert in_the_way.stat().st_size == 100
    in_the_way.unlink()
    in_the_way.symlink_to(tmp_path / "nowhere" / "at all")
    shelf.arrived(halves[1])
    assert "cannot be fetched: Cannot write" in shelf.alarm
    now_s[0] = 100.0
    assert shelf.find(policy_id) is None
    assert shelf.next_request() == WantPolicy(policy_id=policy_id, part=0)
    for half in halves:
        shelf.arrived(half)
    assert shelf.find(policy_id) is not None
    assert [path.name for path in (tmp_path / "shelf").iterdir()] == [policy_id]
    shelf.close()


def test_damaged_files_are_fetched_again_and_a_returning_server_is_used_again(
    tmp_path: Path,
) -> None:
    now_s, away, asked = [0.0], [True], []
    source = write_policy(tmp_path / "files")
    policy_id = versions.identify(source)

    def make(folder: Path, wanted: str) -> Policy:
        asked.append(wanted)
        if away[0]:
            raise PeerSilent("the policy server is away")
        return PointPolicy()

    host = HostServices(clock=lambda: now_s[0], loaders=AtOnce)
    shelf = PolicyCache(tmp_path / "shelf", PointTask(), 0, host, make)
    versions.publish(source, tmp_path / "shelf")
    shelf.find(policy_id)
    assert shelf.find(policy_id) is None
    assert "away" in shelf.alarm
    away[0], now_s[0] = False, 10.0
    shelf.look()
    shelf.look()
    assert not shelf.alarm  # although nobody asked for the version again
    assert shelf.find(policy_id) is not None
    (tmp_path / "shelf" / policy_id / "weights.safetensors").write_bytes(b"rot")
    cast("RemotePolicy", cast("LoadedPolicy", shelf.find(policy_id)).policy).lost = True
    shelf.find(policy_id)
    with pytest.raises(PolicyProblem, match="changed"):
        shelf.find(policy_id)
    now_s[0] = 100.0
    assert shelf.find(policy_id) is None
    assert shelf.next_request() is not None
    shelf.close()


def test_a_kind_that_could_be_any_code_is_loaded_only_if_the_stations_own_file_names_it(
    tmp_path: Path,
) -> None:
    harmful = write_policy(tmp_path / "harmful", kind="site:addsitedir")
    (harmful / "evil.pth").write_text(f"import pathlib; pathlib.Path({str(tmp_path / 'ran')!r}).touch()\n")
    for kinds in ((), ("site:addsitedi", "site:removeduppaths")):
        load = loader_of(point_station(tmp_path, policy_kinds=kinds))
        with pytest.raises(PolicyProblem, match=r"'site:addsitedir' is not installed here.*flow.*`policy_kinds`"):
            load(harmful, "")
    assert not (tmp_path / "ran").exists()
    trusted = write_policy(tmp_path / "trusted")
    assert loader_of(point_station(tmp_path))(trusted, "").horizon == PointPolicy.horizon
    with pytest.raises(PolicyProblem, match="not installed here"):
        load_version(trusted, "")


@pytest.mark.parametrize("kind", ["flow", "a:b:c", ":load", "a.b:", "a b:c", "../x:load"])
def test_only_addresses_of_code_can_be_allowed(tmp_path: Path, kind: str) -> None:
    with pytest.raises(ValueError, match="write module:name"):
        point_station(tmp_path, policy_kinds=(kind,))


def loaded_in_turns(folder: Path, policy: Callable[[], Policy], number: int, turns: int) -> int:
    """How often versions are loaded when so many are used one after another, in so many turns."""
    made: list[str] = []

    def make(_: Path, wanted: str) -> Policy:
        made.append(wanted)
        return policy()

    shelf = PolicyCache(folder / "shelf", PointTask(), 0, HostServices(loaders=AtOnce), make)
    sources = [write_policy(folder / f"files {each}", gain=1.0 + each) for each in range(number)]
    for source in sources:
        versions.publish(source, folder / "shelf")
    for policy_id in turns * [versions.identify(source) for source in sources]:
        shelf.find(policy_id)
        assert shelf.find(policy_id) is not None
    shelf.close()
    return len(made)


@pytest.mark.parametrize(("most_bytes", "loads"), [(2**20, 7), (10, 21)])
def test_versions_in_use_stay_in_memory_while_they_are_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most_bytes: int, loads: int
) -> None:
    monkeypatch.setattr("enpire.station.policy_cache._LOADED_BYTES", most_bytes)
    assert loaded_in_turns(tmp_path, PointPolicy, number=7, turns=3) == loads


def test_a_version_that_is_being_loaded_is_not_removed_from_disk(tmp_path: Path) -> None:
    """The seventeenth version arrives while the oldest one on disk loads."""
    sources = [write_policy(tmp_path / f"files {number}", gain=1.0 + number) for number in range(18)]
    ids = [versions.identify(source) for source in sources]
    go = threading.Event()

    def make(folder: Path, wanted: str) -> Policy:
        assert wanted != ids[0] or go.wait(30)
        return PointPolicy()

    shelf = PolicyCache(tmp_path / "shelf", PointTask(), 0, make=make)
    for number, source in enumerate(sources[:17]):
        os.utime(tmp_path / "shelf" / versions.publish(source, tmp_path / "shelf"), (1_000 + number, 1_000 + number))
    (tmp_path / "shelf" / f"incoming-{ids[0]}.parts").touch()
    try:
        assert shelf.find(ids[0]) is None
        assert shelf.find(ids[17]) is None
        shelf.arrived(PolicyPart(policy_id=ids[17], part=0, parts=1, data=versions.pack(sources[17]).read(0, 2**20)))
        until_s = time.monotonic() + 20
        while shelf.find(ids[17]) is None and time.monotonic() < until_s:
            time.sleep(0.01)
        left = {path.name for path in (tmp_path / "shelf").iterdir()}
        assert ids[0] in left
        assert ids[1] not in left
        go.set()
        while shelf.find(ids[0]) is None and time.monotonic() < until_s:
            time.sleep(0.01)
        assert shelf.find(ids[0]) is not None
    finally:
        go.set()
        shelf.close()


def test_a_policy_in_a_process_of_its_own_counts_as_a_large_one(tmp_path: Path) -> None:
    class Remote(PointPolicy):
        lost = False

    assert loaded_in_turns(tmp_path, Remote, number=5, turns=2) == 10, "four at most, so each is made again"


def test_a_version_that_loads_slowly_holds_up_no_other(tmp_path: Path) -> None:
    slow, quick = (write_policy(tmp_path / name, gain=gain) for name, gain in (("slow", 1.0), ("quick", 2.0)))
    slow_id, quick_id = versions.identify(slow), versions.identify(quick)
    go = threading.Event()

    def make(folder: Path, wanted: str) -> Policy:
        assert wanted == quick_id or go.wait(30)
        return PointPolicy()

    shelf = PolicyCache(tmp_path / "shelf", PointTask(), 0, make=make)
    for source in (slow, quick):
        versions.publish(source, tmp_path / "shelf")
    try:
        assert shelf.find(slow_id) is None
        until_s = time.monotonic() + 20
        while shelf.find(quick_id) is None and time.monotonic() < until_s:
            time.sleep(0.01)
        assert shelf.find(quick_id) is not None
        assert shelf.find(slow_id) is None
    finally:
        go.set()
        shelf.close()
