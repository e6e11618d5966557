"""Versions run inference in parallel."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import zmq

from enpire.policy_server.inference_batcher import InferenceBatcher, InferenceCall
from enpire.policy_server.policy_server import PolicyServer
from enpire.station.remote_policy import PolicyServerLink
from enpire.store import versions
from enpire.types import FloatArray, IntArray, Observation
from enpire.wire.rpc import decode, encode, observation_out
from tests.enpire.policy_server.test_policy_server import answering, looked, made
from tests.fakes.fleet_harness import WAIT_S
from tests.fakes.point_task import PointPolicy

MODULE = "tests.enpire.policy_server.test_inference_batcher"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PolicyServer]:
    with answering(tmp_path / "served") as opened:
        yield opened


class Slow(PointPolicy):
    """Runs inference until a file exists."""

    def __init__(self, until: Path) -> None:
        super().__init__()
        self.until = until

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        (self.until.parent / "thinks").touch()
        deadline_s = time.monotonic() + WAIT_S
        while not self.until.exists() and time.monotonic() < deadline_s:
            time.sleep(0.01)
        return super().act(observation, lanes)


def load_slow(folder: Path) -> Slow:
    return Slow(folder.parent.parent / "enough")


def load_slow_too(folder: Path) -> Slow:
    return load_slow(folder)


class Faulty(PointPolicy):
    def __init__(self, where: str, fault: Exception) -> None:
        self.where, self.fault = where, fault

    def begin(self, lane: int, seed: int) -> None:
        if self.where == "begin":
            raise self.fault

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        raise self.fault


@pytest.mark.parametrize("where", ["begin", "act"])
@pytest.mark.parametrize("fault", [OSError(24, "Too many open files"), MemoryError("no room"), ImportError("no jax")])
def test_an_error_in_a_policy_is_sent_as_a_reply(where: str, fault: Exception) -> None:
    rows = looked((0.5, 0.1))
    question = InferenceCall(
        peer=(b"p",), sequence=1, method="act", policy_id="a" * 64, client="c", lanes=[0], begins=[(0, 1)],
        observation=rows, left=None, delay=0, collects=False,
    )  # fmt: skip
    [(_, answer)] = InferenceBatcher(Faulty(where, fault)).infer([question])
    assert str(fault) in str(answer["text"])


def crowd(server: PolicyServer, *versions: str) -> str:
    """The first error among the replies to very many clients, which call these versions in turn."""
    rows = observation_out(looked((0.5, 0.1)))
    question = {"verb": "act", "lanes": [0], "begins": [[0, 1]], "observation": rows}
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    line = context.socket(zmq.DEALER)
    line.connect(server.address)
    for number in range(300):
        asked = versions[number % len(versions)]
        line.send(encode({**question, "policy_id": asked, "client": f"c{number}", "sequence": number}))
    assert line.poll(10_000)
    answer = decode(line.recv())
    context.destroy(linger=0)
    return answer.text("text")


def test_a_slow_version_delays_only_its_own_callers(server: PolicyServer, tmp_path: Path) -> None:
    links = [PolicyServerLink(server.address, decide_s=WAIT_S) for _ in range(2)]
    quick = PolicyServerLink(server.address)
    kinds = [f"{MODULE}:load_slow", f"{MODULE}:load_slow_too"]
    slow = [made(link, tmp_path, kind) for link, kind in zip(links, kinds, strict=True)]
    with ThreadPoolExecutor(2) as pool:
        waiting: list[Future[FloatArray]] = []
        for number, policy in enumerate(slow):
            policy.begin(0, number)
            waiting.append(pool.submit(policy.act, looked((0.5, 0.1)), np.asarray([0])))
            while not (tmp_path / "thinks").exists():
                time.sleep(0.01)
            (tmp_path / "thinks").unlink()
        other = made(quick, tmp_path, "tests.fakes.point_task:load")
        other.begin(0, 1)
        assert other.act(looked((0.5, 0.1)), np.asarray([0])).shape == (1, PointPolicy.horizon, 2)
        assert not any(future.done() for future in waiting)
        assert "256 calls wait" in crowd(server, *(versions.identify(tmp_path / f"files-{kind}") for kind in kinds))
        (tmp_path / "enough").touch()
        for number, future in enumerate(waiting):
            here = PointPolicy()
            here.begin(0, number)
            assert future.result(WAIT_S).tolist() == here.act(looked((0.5, 0.1)), np.asarray([0])).tolist()
    for link in (*links, quick):
        link.close()
