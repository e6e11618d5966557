import hashlib
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import zmq

from enpire.errors import PolicyProblem
from enpire.interfaces import ContinuesChunks, DeclaresImages, Policy, PredictsSuccess
from enpire.policy_calls import LoadedPolicy
from enpire.policy_server.policy_server import PolicyServer
from enpire.policy_server.version_uploads import EXPIRED_S, LEAST_FREE, VersionUploads
from enpire.station import remote_policy
from enpire.station.lanes import Lanes
from enpire.station.remote_policy import PART, PolicyServerLink, RemotePolicy
from enpire.store import versions
from enpire.types import FloatArray, IntArray, Observation
from enpire.wire.private_socket import private_address
from enpire.wire.rpc import array_out, decode, encode, observation_out
from tests.enpire.station.test_lanes import run_all
from tests.fakes.fleet_harness import WAIT_S, FleetHarness
from tests.fakes.point_task import (
    PointPolicy,
    PointRig,
    PointTask,
    environment,
    point_order,
    point_station,
    write_policy,
)

MODULE = "tests.enpire.policy_server.test_policy_server"
_SLOW = "tests.enpire.policy_server.test_inference_batcher"
KINDS = (
    "tests.fakes.point_task:load", f"{MODULE}:load_gifted", f"{MODULE}:load_nothing", f"{_SLOW}:load_slow",
    f"{_SLOW}:load_slow_too", "no.such.module:load",
)  # fmt: skip
"""Kinds that the servers of these tests may load."""


class Gifted(PointPolicy):
    """A policy that continues its chunk and uses images: their mean is its first action."""

    needs_images = True

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        chunks = super().act(observation, lanes)
        if observation.images:
            chunks[:, 0] = observation.images["top"].mean(axis=(1, 2, 3))[:, None] / 255
        return chunks

    def act_along(self, observation: Observation, lanes: IntArray, left: FloatArray, delay: int) -> FloatArray:
        chunks = self.act(observation, lanes)
        chunks[:, :delay] = left[:, :delay]
        return chunks


def load_gifted(folder: Path) -> Gifted:
    return Gifted()


def load_nothing(folder: Path) -> None:
    """Returns an object that is no policy."""


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[FleetHarness]:
    opened = FleetHarness(tmp_path)
    yield opened
    opened.close()


@contextmanager
def answering(folder: Path, keys: Path | None = None, **options: Any) -> Iterator[PolicyServer]:
    """A server that runs in a thread."""
    given = {"kinds": KINDS, **options}
    address = "tcp://127.0.0.1:*" if keys is not None else private_address(folder.parent, f"{folder.name}-server")
    opened, ended = PolicyServer(folder, address, keys, lambda _: None, **given), threading.Event()
    thread = threading.Thread(target=opened.run, args=(ended,))
    thread.start()
    try:
        yield opened
    finally:
        ended.set()
        thread.join()
        opened.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PolicyServer]:
    with answering(tmp_path / "served") as opened:
        yield opened


@pytest.fixture
def link(server: PolicyServer) -> Iterator[PolicyServerLink]:
    opened = PolicyServerLink(server.address)
    yield opened
    opened.close()


def made(link: PolicyServerLink, tmp_path: Path, kind: str) -> Policy:
    folder = write_policy(tmp_path / f"files-{kind}", kind=kind)
    return link.make(folder, versions.identify(folder))


def looked(*states: tuple[float, float]) -> Observation:
    return Observation(stamp_ns=1, state=np.asarray(states, np.float32))


def test_remote_inference_gives_the_same_rollouts_at_two_stations(
    harness: FleetHarness, server: PolicyServer, tmp_path: Path
) -> None:
    policy_id = harness.policy("p")
    names = ("alpha", "beta")
    for name in names:
        harness.start(point_station(tmp_path, name, policy_server=server.address))
    harness.until(lambda: len({joined.station for joined in harness.joined()}) == 2)
    leases = {joined.station: joined.lease for joined in harness.joined()}
    orders = {
        name: [point_order(policy_id, index, name, leases[name]) for index in range(12)] for name in names
    }  # fmt: skip
    for name in names:
        harness.fleet.send(name, orders[name])
    everything = [*orders["alpha"], *orders["beta"]]
    found = harness.until_all(everything)
    assert {item.episode.outcome for item in found.values()} == {"success"}
    here = run_all(
        Lanes(PointTask(), PointRig(PointTask.spec, 1)), everything,
        LoadedPolicy(policy_id=policy_id, policy=PointPolicy(), source=0),
    )  # fmt: skip
    for order in everything:
        assert here[order.order_id].arrays_file == found[order.order_id].arrays_file
    assert (tmp_path / "served" / policy_id).is_dir()


def test_a_killed_server_costs_only_the_running_episodes(
    harness: FleetHarness, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    address = private_address(tmp_path, "server")
    command = [sys.executable, "-m", "enpire.cli", "policy", "serve", "--bind", address, "--allow-kind", KINDS[0]]
    command += ["--home", str(tmp_path / "h")]
    servers: list[subprocess.Popen[bytes]] = []

    def begin() -> subprocess.Popen[bytes]:
        servers.append(subprocess.Popen(command, env=environment(), stderr=subprocess.DEVNULL))
        return servers[-1]

    def end() -> None:
        for one in servers:
            one.kill()
            one.wait()

    request.addfinalizer(end)
    thinker = begin()
    policy_id = harness.policy("p")
    harness.start(point_station(tmp_path, lanes=2, policy_server=address, options={"period_s": 0.01}))
    lease = harness.join()
    orders = [point_order(policy_id, index, lease=lease) for index in range(30)]
    harness.fleet.send("alpha", orders)
    harness.until(lambda: len(harness.delivered()) >= 5)
    thinker.kill()
    thinker.wait()
    harness.until(lambda: (beat := harness.beat()) is not None and "the policy server" in beat.alarm.lower())
    thinker = begin()
    found = harness.until_all(orders)
    ended = Counter(item.episode.outcome for item in found.values())
    assert ended["aborted"] <= 2 * 2  # both lanes, and once more when a new episode was about to begin
    assert ended["success"] == 30 - ended["aborted"]
    assert all(
        "policy failed" in item.episode.cause for item in found.values() if item.episode.outcome == "aborted"
    )  # fmt: skip
    harness.until(lambda: (beat := harness.beat()) is not None and not beat.alarm)
    thinker.send_signal(signal.SIGINT)
    assert thinker.wait(WAIT_S) == 0


def test_waiting_calls_for_one_version_run_as_one_batch(tmp_path: Path) -> None:
    server = PolicyServer(tmp_path / "served", private_address(tmp_path, "server"), say=lambda _: None, kinds=KINDS)
    folder = write_policy(tmp_path / "files", kind=f"{MODULE}:load_gifted")
    policy_id = versions.publish(folder, tmp_path / "served")
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    here = {name: Gifted() for name in "abc"}
    lines = {name: context.socket(zmq.DEALER) for name in here}

    def question(name: str, verb: str, **more: object) -> dict[str, object]:
        rows = observation_out(looked((0.5, 0.1), (0.2, ord(name) / 1000)))
        return {"verb": verb, "policy_id": policy_id, "client": name, "lanes": [7, 3], "observation": rows, **more}

    try:
        for line in lines.values():
            line.connect(server.address)
        asked(server, lines["a"], {"verb": "open", "policy_id": policy_id}, until="ready")
        for number, (name, line) in enumerate(lines.items()):
            begins = [[7, 10 + number], [3, 20 + number]]
            line.send(encode({**question(name, "act", begins=begins), "sequence": 1}))
        deadline_s = time.monotonic() + WAIT_S
        while server.answered < 3 and time.monotonic() < deadline_s:
            time.sleep(0.1)  # so that all three wait
            server.turn()
        assert (server.answered, server.calls) == (3, 1)
        for number, (name, line) in enumerate(lines.items()):
            assert line.poll(10_000)
            for lane, seed in ((7, 10 + number), (3, 20 + number)):
                here[name].begin(lane, seed)
            wanted = here[name].act(looked((0.5, 0.1), (0.2, ord(name) / 1000)), np.asarray([7, 3]))
            array = decode(line.recv()).mapping("answer")
            assert np.frombuffer(array["data"], np.float32).reshape(wanted.shape).tolist() == wanted.tolist()  # pyright: ignore[reportArgumentType, reportCallIssue]
    finally:
        context.destroy(linger=0)
        server.close()


def asked(server: PolicyServer, line: "zmq.Socket[bytes]", message: dict[str, object], until: str) -> None:
    deadline_s, sequence = time.monotonic() + WAIT_S, 1000
    while time.monotonic() < deadline_s:
        sequence += 1
        line.send(encode({**message, "sequence": sequence}))
        while not line.poll(20):
            server.turn()
        if decode(line.recv()).text("state") == until:
            return
    raise AssertionError(f"the server never said {until}")


def test_a_remote_policy_has_the_protocols_of_its_version_and_no_others(link: PolicyServerLink, tmp_path: Path) -> None:
    plain = made(link, tmp_path, "tests.fakes.point_task:load")
    gifted = made(link, tmp_path, f"{MODULE}:load_gifted")
    assert not isinstance(plain, PredictsSuccess | ContinuesChunks)
    assert not cast("DeclaresImages", plain).needs_images
    assert (gifted.horizon, gifted.execute) == (PointPolicy.horizon, PointPolicy.execute)
    assert isinstance(gifted, ContinuesChunks)
    assert isinstance(gifted, DeclaresImages)
    assert gifted.needs_images
    gifted.begin(2, 5)
    lanes, here = np.asarray([2]), Gifted()
    here.begin(2, 5)
    assert gifted.act(looked((1.0, 2.0)), lanes).tolist() == here.act(looked((1.0, 2.0)), lanes).tolist()
    picture = np.full((1, 4, 5, 3), 51, np.uint8)
    seen = Observation(stamp_ns=1, state=np.zeros((1, 2), np.float32), images={"top": picture})
    assert gifted.act(seen, lanes)[0, 0].tolist() == [np.float32(0.2)] * 2
    left = np.full((1, 4, 2), 0.5, np.float32)
    assert gifted.act_along(looked((1.0, 2.0)), lanes, left, 2)[0, :2].tolist() == left[0, :2].tolist()


@pytest.mark.parametrize(
    ("message", "word"),
    [
        ({"verb": "sing", "policy_id": "0" * 64}, "verb"),
        ({"verb": "open", "policy_id": "../secret"}, "policy_id"),
        ({"verb": "act", "policy_id": "0" * 64, "lanes": [0, 0]}, "observation"),
        ({"verb": "act", "policy_id": "0" * 64, "lanes": [1], "observation": observation_out(looked((0, 0), (1, 1)))},
         "lanes"),
        ({"verb": "act", "policy_id": "0" * 64, "lanes": [1], "begins": [], "client": "a",
          "observation": observation_out(looked((0, 0)))}, "does not hold"),
        ({"verb": "act", "policy_id": "0" * 64, "lanes": [1], "begins": [[1]], "client": "a",
          "observation": observation_out(looked((0, 0)))}, "pairs"),
        ({"verb": "act", "policy_id": "0" * 64, "lanes": [1], "begins": [], "client": "a",
          "observation": observation_out(Observation(stamp_ns=1, state=np.zeros((), np.float32)))}, "a state"),
        ({"verb": "act", "policy_id": "0" * 64, "lanes": [1], "begins": [], "client": "a", "observation":
          observation_out(Observation(stamp_ns=1, state=np.zeros((1, 2), np.float32),
                                      images={"top": np.zeros((2, 4, 4, 3), np.uint8)}))}, "lanes"),
        ({"verb": "act_along", "policy_id": "0" * 64, "lanes": [1], "begins": [], "client": "a", "delay": 1,
          "left": array_out(np.zeros((), np.float32)), "observation": observation_out(looked((0, 0)))}, "left"),
        ({"verb": "part", "policy_id": "1" * 64, "part": 0, "parts": 9, "data": b"x" * (PART + 1)}, "bytes"),
    ],
)  # fmt: skip
def test_calls_that_do_not_fit_are_refused_with_a_sentence(
    server: PolicyServer, message: dict[str, object], word: str
) -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    line = context.socket(zmq.DEALER)
    line.connect(server.address)
    line.send_multipart([b"", b"\xff" * 50, b"x"])
    line.send(b"garbage")
    line.send(encode({**message, "sequence": 4}))
    assert line.poll(10_000)
    answer = decode(line.recv())
    context.destroy(linger=0)
    assert answer.whole("sequence") == 4
    assert word in answer.text("text")


def test_files_that_are_not_those_of_the_hash_are_not_kept(link: PolicyServerLink, tmp_path: Path) -> None:
    folder = write_policy(tmp_path / "files")
    wrong = hashlib.sha256(b"another").hexdigest()
    with pytest.raises(PolicyProblem, match="damaged"):
        link.make(folder, wrong)
    assert not (tmp_path / "served" / wrong).exists()
    assert [path.name for path in (tmp_path / "served").iterdir()] == []
    for kind, word in (("no.such.module:load", "cannot load"), (f"{MODULE}:load_nothing", "is no policy")):
        broken = write_policy(tmp_path / kind, kind=kind)
        with pytest.raises(PolicyProblem, match=word):
            link.make(broken, versions.identify(broken))
    made(link, tmp_path, "tests.fakes.point_task:load")  # and it still serves


def test_a_version_that_names_any_code_is_refused_unless_allowed(tmp_path: Path) -> None:
    with (
        answering(tmp_path / "s", kinds=()) as server,
        closing(PolicyServerLink(server.address)) as link,
        pytest.raises(PolicyProblem, match="not installed here"),
    ):
        made(link, tmp_path, "site:addsitedir")


def test_two_stations_upload_one_large_version_together(
    server: PolicyServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_policy, "PART", 1000)
    folder = write_policy(tmp_path / "files")
    (folder / "weights.safetensors").write_bytes(bytes(range(256)) * 400)
    policy_id = versions.identify(folder)
    links = [PolicyServerLink(server.address) for _ in range(3)]
    with ThreadPoolExecutor(3) as pool:
        policies = list(pool.map(lambda link: link.make(folder, policy_id), links))
    assert [policy.horizon for policy in policies] == [PointPolicy.horizon] * 3
    assert versions.identify(tmp_path / "served" / policy_id) == policy_id
    for link in links:
        link.close()


def test_a_disk_that_refuses_a_version_ends_no_server(link: PolicyServerLink, tmp_path: Path) -> None:
    served, folder = tmp_path / "served", write_policy(tmp_path / "files")
    (served / f"{versions.identify(folder)}.parts").mkdir()
    with pytest.raises(PolicyProblem, match=r"policy server: Cannot write .*served: Is a directory"):
        link.make(folder, versions.identify(folder))
    assert made(link, tmp_path, f"{MODULE}:load_gifted").horizon == PointPolicy.horizon


def test_uploads_fit_on_the_disk_together_and_expire(tmp_path: Path) -> None:
    now_s, one, two = 0.0, "1" * 64, "2" * 64
    coming = VersionUploads(tmp_path, lambda: now_s)
    total = int(0.6 * (shutil.disk_usage(tmp_path).free - LEAST_FREE) / (2 * PART))
    assert coming.take(one, 0, total, b"part") == 1
    with pytest.raises(PolicyProblem, match="too full"):
        coming.take(two, 0, total, b"part")
    with pytest.raises(PolicyProblem, match="parts, not 7"):
        coming.take(one, 1, 7, b"part")
    now_s = EXPIRED_S - 1.0
    coming.sweep()
    assert coming.take(one, 1, total, b"part") == 2, "it goes on"
    now_s += EXPIRED_S + 1.0
    coming.sweep()
    assert not list(tmp_path.iterdir())
    assert coming.take(two, 0, total, b"part") == 1


def test_a_version_keeps_a_limited_number_of_episodes(server: PolicyServer, tmp_path: Path) -> None:
    folder = write_policy(tmp_path / "files")
    policy_id = versions.identify(folder)
    with closing(PolicyServerLink(server.address, decide_s=60.0)) as link:
        link.make(folder, policy_id)
        rows = observation_out(Observation(stamp_ns=1, state=np.zeros((2048, 2), np.float32)))
        for first in (0, 2048, 4096):
            lanes = list(range(first, first + 2048))
            begins = [[lane, 1] for lane in lanes]
            link.decide("act", policy_id, lanes=lanes, begins=begins, observation=rows)
        again: dict[str, object] = {"begins": [], "observation": rows}
        link.decide("act", policy_id, lanes=list(range(2048, 4096)), **again)
        with pytest.raises(PolicyProblem, match="restarted during the episode"):
            link.decide("act", policy_id, lanes=list(range(2048)), **again)


def test_no_more_versions_are_loaded_than_configured(tmp_path: Path) -> None:
    lanes = np.asarray([0])
    with answering(tmp_path / "s", loaded=1) as server, closing(PolicyServerLink(server.address)) as link:
        first = made(link, tmp_path, f"{MODULE}:load_gifted")
        second = made(link, tmp_path, "tests.fakes.point_task:load")
        for policy in (first, second):
            policy.begin(0, 1)
        assert second.act(looked((0.0, 0.0)), lanes).shape == (1, PointPolicy.horizon, 2)
        with pytest.raises(PolicyProblem, match="does not hold"):
            first.act(looked((0.0, 0.0)), lanes)
        assert cast("RemotePolicy", first).lost  # so that the station has it loaded again
