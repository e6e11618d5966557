"""openpi's protocol both ways: its servers are versions here, and its clients are served from here."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Origin

from enpire.errors import FileProblem, PeerSilent, PolicyProblem, TransportProblem
from enpire.home import Home
from enpire.parts import TASKS
from enpire.policy_server import openpi_link
from enpire.policy_server.openpi_link import OpenpiLink
from enpire.policy_server.openpi_policy import OpenpiChoices, OpenpiPolicy, connect_version, load, resized, save
from enpire.policy_server.openpi_server import MOST_CLIENTS, OpenpiServer, ServedPolicy
from enpire.processes.version_check import check_version
from enpire.service.openpi import connect_policy
from enpire.station.policy_cache import PolicyCache
from enpire.store import versions
from enpire.types import FloatArray, IntArray, Observation
from enpire.wire import openpi_messages
from policies import scripted
from tests.enpire.processes.test_version_check import recorded
from tests.fakes.openpi_peer import OpenpiPeer, openpi_peer, pack, unpack
from tests.fakes.point_task import PointPolicy, PointTask
from tests.fakes.waiting import until

SPEC = replace(PointTask.spec, cameras=("top",))
AT = np.array([[1.0, -2.0], [0.5, 4.0], [-3.0, 0.25]], np.float32)
LANES = np.arange(len(AT), dtype=np.int64)
HORIZON = 5


def follow_state(observation: Any) -> dict[str, Any]:
    """Actions of 4 numbers (openpi pads): the state in the first two, counted up over the chunk."""
    state = np.concatenate([np.atleast_1d(observation["robot"]["x"]), np.atleast_1d(observation["y"])])
    rows = np.arange(HORIZON)[:, None] + np.concatenate([state, [9.0, 9.0]])
    return {"actions": rows, "server_timing": {"infer_ms": np.float64(1.5)}}


def choices(peer: OpenpiPeer, **changes: Any) -> OpenpiChoices:
    states = {"robot.x": (0, 1), "y": (1, 2)}
    return replace(OpenpiChoices(address=peer.address, states=states, deadline_s=60.0), **changes)


def test_any_openpi_server_runs_as_a_version(tmp_path: Path) -> None:
    with openpi_peer(follow_state, {"model": "pi"}) as peer:
        asked = choices(peer, images={"top": "observation/image"}, image_px=32, execute=3)
        version = connect_version(asked, SPEC)
        save(version, tmp_path)
        policy = load(tmp_path)
        assert (policy.horizon, policy.execute, policy.needs_images, policy.lost) == (HORIZON, 3, True, False)
        image = np.full((48, 64, 3), 200, np.uint8)
        peer.seen.clear()
        policy.begin(0, 7)
        answer = policy.act(Observation(stamp_ns=0, state=AT, images={"top": np.stack([image] * 3)}), LANES)
        policy.close()
    assert answer.dtype == np.float32
    np.testing.assert_array_equal(answer, AT[:, None] + np.arange(HORIZON)[None, :, None])
    for row, seen in zip(AT, peer.seen, strict=True):
        assert seen["prompt"] == "move the point to the origin"
        assert (seen["robot"]["x"].dtype, seen["robot"]["x"].tolist(), seen["y"].tolist()) == (
            np.float32, [row[0]], [row[1]],
        )  # fmt: skip
        sent = seen["observation/image"]
        assert (sent.shape, sent.dtype) == ((32, 32, 3), np.uint8)
        assert (sent[4:28] == 200).all()
        assert not sent[:4].any()
        assert not sent[28:].any()


def test_a_version_of_another_policy_or_of_a_server_that_is_away_is_refused(tmp_path: Path) -> None:
    with openpi_peer(follow_state, {"model": "pi"}) as peer:
        policy_id, version = connect_policy(Home(tmp_path), choices(peer), "tests.fakes.point_task:PointTask")
        assert version.metadata_hash
        assert versions.identify(tmp_path / "versions" / policy_id) == policy_id
        peer.metadata = {"model": "another"}
        with pytest.raises(PolicyProblem, match="describes another policy"):
            load(tmp_path / "versions" / policy_id)
        for wrong, why in (
            ({"execute": 6}, "at most 5"),
            ({"states": {"robot.x": (0, 9), "y": (1, 2)}}, "9 state numbers"),
            ({"deadline_s": float("nan")}, "deadline_s must be"),
        ):
            with pytest.raises((FileProblem, PolicyProblem), match=why):
                connect_version(choices(peer, **wrong), SPEC)
        peer.infer = lambda _: {"actions": np.zeros((HORIZON, 1))}
        with pytest.raises(PolicyProblem, match="the task has 2 numbers"):
            connect_version(choices(peer), SPEC)
    with pytest.raises(PeerSilent, match="does not answer"):
        load(tmp_path / "versions" / policy_id)
    for address in ("tcp://host:1", "ws://", "ws://me:secret@host:1", "ws://host:99999"):
        with pytest.raises(FileProblem, match="is no address of an openpi server"):
            OpenpiLink(address)


def test_a_server_without_a_seed_passes_the_check_that_says_so(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    with openpi_peer(lambda seen: {"actions": draw.uniform(-0.05, 0.05, (HORIZON, 2))}) as peer:
        version = connect_version(OpenpiChoices(address=peer.address), PointTask.spec)
        save(replace(version, deadline_s=60.0), tmp_path)
        found = check_version(tmp_path, None, recorded(tmp_path / "e", 3))
    assert (found.why, found.repeatable) == ("", False)
    assert "Its actions cannot be repeated: its noise does not come from our seeds." in found.sentence


def test_a_late_answer_is_never_taken_for_the_answer_of_a_later_call() -> None:
    held, released = threading.Event(), threading.Event()

    def hold_the_first(observation: Any) -> dict[str, Any]:
        if observation["state"] == 1:
            held.set()
            assert released.wait(600)
        return {"actions": np.full((1, 1), observation["state"])}

    with openpi_peer(hold_the_first) as peer:
        link = OpenpiLink(peer.address)
        link.open(60.0)
        with pytest.raises(PeerSilent, match="did not answer in time"):
            link.infer({"state": 1}, time.monotonic() + 0.3)
        assert not link.connected
        assert held.wait(600)
        released.set()
        assert link.infer({"state": 2}, time.monotonic() + 60.0)["actions"] == 2
        assert (peer.connections, link.connected) == (2, True)
        link.close()


def test_a_stopped_server_that_reads_nothing_cannot_hold_a_robot() -> None:
    code = (
        "import time\nfrom tests.fakes.openpi_peer import OpenpiPeer\n"
        "print(OpenpiPeer(lambda _: {}, {}).address, flush=True)\ntime.sleep(600)"
    )
    peer = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert peer.stdout is not None
        link = OpenpiLink(peer.stdout.readline().strip())
        link.open(60.0)
        peer.send_signal(signal.SIGSTOP)
        with pytest.raises(PeerSilent):
            link.infer({"large": np.zeros(2**21)}, time.monotonic() + 0.5)
        assert not link.connected
    finally:
        peer.kill()
        peer.wait()
        assert peer.stdout is not None
        peer.stdout.close()


def loaded(cache: PolicyCache, policy_id: str) -> Any:
    until(lambda: cache.find(policy_id) is not None)
    found = cache.find(policy_id)
    assert found is not None
    return found.policy


def test_a_failing_server_ends_the_episode_and_the_next_one_connects_again(tmp_path: Path) -> None:
    with openpi_peer(follow_state) as peer:
        policy_id, _ = connect_policy(Home(tmp_path), choices(peer), "tests.fakes.point_task:PointTask")
        cache = PolicyCache(tmp_path / "versions", PointTask(), 0)
        policy = loaded(cache, policy_id)
        seen = Observation(stamp_ns=0, state=AT)
        assert policy.act(seen, LANES).shape == (3, HORIZON, 2)

        def fail(_: Any) -> dict[str, Any]:
            raise ValueError("no such embodiment")

        peer.infer = fail
        with pytest.raises(PolicyProblem, match="reports: ValueError: no such embodiment"):
            policy.act(seen, LANES)
        assert policy.lost
        port = peer.port
    until(lambda: cache.find(policy_id) is None and "does not answer" in cache.alarm)
    with openpi_peer(follow_state, port=port):
        made = loaded(cache, policy_id)
        assert made is not policy
        assert made.act(seen, LANES).shape == (3, HORIZON, 2)
        assert not cache.alarm
        made.close()
    cache.close()


def test_images_are_scaled_as_openpi_scales_them() -> None:
    draw = np.random.default_rng(0)
    for shape in ((48, 64), (64, 48), (30, 30), (20, 90)):
        image = draw.integers(0, 256, (*shape, 3)).astype(np.uint8)
        made = resized(image, 32)
        assert made.shape == (32, 32, 3)


def test_openpis_own_tools_scale_images_to_the_same_bytes() -> None:
    theirs: Any = pytest.importorskip("openpi_client.image_tools")
    draw = np.random.default_rng(0)
    for shape in ((48, 64), (64, 48), (30, 30), (20, 90)):
        image = draw.integers(0, 256, (*shape, 3)).astype(np.uint8)
        np.testing.assert_array_equal(resized(image, 32), theirs.resize_with_pad(image, 32, 32))


class Seeing(PointPolicy):
    """Adds the mean of its image to its actions."""

    needs_images = True

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        mean = observation.images["top"].mean(axis=(1, 2, 3))
        return super().act(observation, lanes) + mean[:, None, None].astype(np.float32)


@contextmanager
def served(policy: Any, key: str = "") -> Iterator[OpenpiServer]:
    lines: list[str] = []
    what = ServedPolicy(policy=policy, policy_id="a" * 64, spec=SPEC, key=key)
    server = OpenpiServer(what, "127.0.0.1", 0, lines.append)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield server
    finally:
        server.close()
        thread.join()


def test_openpis_clients_get_the_actions_of_our_policy() -> None:
    image = np.full((8, 8, 3), 3, np.uint8)
    wanted = Seeing()
    wanted.begin(0, 11)
    seen = Observation(stamp_ns=0, state=AT[:1], images={"top": image[None]})
    direct = [wanted.act(seen, LANES[:1])[0] for _ in range(2)]
    with served(Seeing()) as server, connect(server.address, compression=None, max_size=None) as client:
        about = unpack(client.recv())["enpire"]
        assert (about["state"], about["execute"], about["images"]) == (
            ["at_x", "at_y"], wanted.execute, {"top": "observation/image/top"},
        )  # fmt: skip
        observation = {"observation/state": AT[0], "observation/image/top": image, "prompt": "anything"}
        client.send(pack(observation | {"enpire/seed": 11}))
        answers = [unpack(client.recv())]
        client.send(pack(observation))
        answers.append(unpack(client.recv()))
        for answer, actions in zip(answers, direct, strict=True):
            np.testing.assert_array_equal(answer["actions"], actions)
            assert answer["server_timing"]["infer_ms"] >= 0
        version = connect_version(OpenpiChoices(address=server.address, deadline_s=60.0), SPEC)
        assert (version.horizon, version.execute, version.image_px) == (wanted.horizon, wanted.execute, 0)
        ours = OpenpiPolicy(version)
        chunk = ours.act(Observation(stamp_ns=0, state=AT, images={"top": np.stack([image] * 3)}), LANES)
        assert chunk.shape == (3, wanted.horizon, 2)
        ours.close()


@pytest.mark.filterwarnings("ignore:connect:DeprecationWarning")  # of openpi's own client
def test_openpis_own_client_gets_the_actions_of_our_policy() -> None:
    theirs: Any = pytest.importorskip("openpi_client.websocket_client_policy")
    image, policy = np.full((8, 8, 3), 3, np.uint8), Seeing()
    policy.begin(0, 11)
    direct = policy.act(Observation(stamp_ns=0, state=AT[:1], images={"top": image[None]}), LANES[:1])[0]
    with served(Seeing()) as server:
        client = theirs.WebsocketClientPolicy("127.0.0.1", int(server.address.rpartition(":")[2]))
        assert client.get_server_metadata()["enpire"]["state"] == ["at_x", "at_y"]
        answer = client.infer({"observation/state": AT[0], "observation/image/top": image, "enpire/seed": 11})
        np.testing.assert_array_equal(answer["actions"], direct)
        client._ws.close()


@pytest.mark.parametrize(
    ("frame", "why"),
    [
        ("a text", "a msgpack map"), (b"\xc1", "cannot be read"), (pack([1]), "must be a map"),
        (pack({"observation/state": np.zeros(3)}), "2 finite numbers"),
        (pack({"observation/state": np.array([np.nan, 0.0])}), "2 finite numbers"),
        (pack({"observation/state": np.zeros(2)}), "an image"),
        (pack({"s": {b"__ndarray__": True, b"data": b"1234", b"dtype": "|O", b"shape": [1]}}), "no array of numbers"),
        (pack({"s": {b"__ndarray__": True, b"data": b"1234", b"dtype": "<f4", b"shape": [2**40, 0]}}), "no shape"),
        (pack({"s": {b"__ndarray__": True, b"data": b"1234", b"dtype": "<f8", b"shape": [1]}}), "not have the shape"),
        (pack({"s": {b"__ndarray__": True, b"data": b"1234", b"dtype": "nonsense", b"shape": [1]}}), "cannot be read"),
        (
            pack({"observation/state": np.zeros(2), "observation/image/top": np.zeros((1, 1, 3), np.uint8),
                  "enpire/seed": -1}), "at least 0",
        ),
    ],
    ids=str,
)  # fmt: skip
def test_a_client_that_sends_anything_else_gets_a_sentence(frame: bytes | str, why: str) -> None:
    with served(Seeing()) as server, connect(server.address, compression=None) as client:
        client.recv()
        client.send(frame)
        said = client.recv()
        assert isinstance(said, str)
        assert why in said
        with pytest.raises(ConnectionClosed):
            client.recv()
        assert client.close_code == 1011


def test_a_key_is_sent_to_its_own_server_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with served(PointPolicy(), key="secret") as server:
        port = server.address.rpartition(":")[2]
        assert urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz").read() == b"OK\n"
        with pytest.raises(InvalidStatus, match="401"), connect(server.address):
            pass
        sent = {"Authorization": "Api-Key secret"}
        page = Origin("http://a.page")  # open in a browser of this machine
        with pytest.raises(InvalidStatus, match="403"), connect(server.address, additional_headers=sent, origin=page):
            pass
        keys = tmp_path / "enpire" / openpi_link.KEYS
        keys.parent.mkdir()
        keys.write_text(f"127.0.0.1:{port}: secret\nelsewhere:1: other\n")
        with pytest.raises(FileProblem, match="Other users may read the keys"):
            OpenpiLink(server.address).open()
        keys.chmod(0o600)
        link = OpenpiLink(server.address)
        link.open()
        assert "enpire" in link.metadata
        link.close()
        assert openpi_link.api_key("ws://127.0.0.1:1") == ""
        with suppress(HTTPError):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/other").read()


def test_too_many_clients_are_refused_and_a_free_place_is_given_again() -> None:
    with served(PointPolicy()) as server:
        clients = [connect(server.address, compression=None).__enter__() for _ in range(MOST_CLIENTS)]
        for client in clients:
            client.recv()
        with connect(server.address) as one_more:
            assert "connected already" in str(one_more.recv())
        clients.pop().close()

        def admitted() -> bool:
            with connect(server.address) as again:
                return isinstance(again.recv(), bytes)

        until(admitted)
        for client in clients:
            client.close()


def test_numbers_that_are_no_array_are_read_and_others_are_not_sent() -> None:
    assert openpi_messages.unpack(pack({"n": np.float32(1.5), "list": [1, 2]})) == {"n": 1.5, "list": [1, 2]}
    assert unpack(openpi_messages.pack({"n": np.float32(1.5)}))["n"] == 1.5
    with pytest.raises(TypeError, match="cannot be sent"):
        openpi_messages.pack({"n": np.array([object()])})
    with pytest.raises(TransportProblem, match="at most"):
        openpi_messages.unpack(bytes(openpi_messages.LARGEST + 1))


def test_from_one_home_to_another_by_the_command_line(tmp_path: Path) -> None:
    folder = tmp_path / "expert"
    folder.mkdir()
    scripted.save(scripted.Script(task="pin_insertion", script="clean_expert"), folder)
    enpire = [sys.executable, "-m", "enpire.cli", "policy"]
    asked = [*enpire, "serve", "--openpi", "127.0.0.1:0", "--policy", str(folder), "--task", "pin_insertion"]
    variables = os.environ | {"PYTHONUNBUFFERED": "1"}
    serving = subprocess.Popen(
        [*asked, "--home", str(tmp_path / "one")], stderr=subprocess.PIPE, text=True, env=variables
    )
    try:
        assert serving.stderr is not None
        line = serving.stderr.readline()
        address = line.partition("connect to ")[2].partition(". ")[0]
        home = ["--home", str(tmp_path / "two")]
        done = subprocess.run(
            [*enpire, "connect", address, "--task", "pin_insertion", *home], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, line + done.stderr
        policy_id = done.stdout.strip()
        assert (tmp_path / "two" / "versions" / policy_id / "policy.json").is_file()
        checked = subprocess.run(
            [*enpire, "check", policy_id, "--task", "pin_insertion", *home], capture_output=True, text=True, check=False
        )
        assert "The version was loaded" in checked.stdout, checked.stderr
        serving.send_signal(signal.SIGINT)
        assert serving.wait(600) == 0
        assert "Answered 1 observations." in serving.stderr.read()
    finally:
        serving.kill()
        serving.wait()
        assert serving.stderr is not None
        serving.stderr.close()
    assert TASKS.make("pin_insertion").spec.state_dim
