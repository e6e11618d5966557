"""Policies that are asked over the wire: `enpire policy serve` thinks, on the GPU that several stations share.

A station fetches and checks the files of a version as always, and hands them to the server when that does not have
them yet; a version is its hash, so neither side has to trust the other's copy. What the server answers is what the
policy would have answered here.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from enpire.errors import EnpireError, PeerSilent, PolicyProblem, TransportProblem
from enpire.fields import Fields
from enpire.ids import mint
from enpire.interfaces import Policy
from enpire.station.station_file import StationFile
from enpire.store import versions
from enpire.types import FloatArray, IntArray, Observation
from enpire.wire.curve_keys import StationKeys, station_keys
from enpire.wire.rpc import RpcClient, array_out, floats_in, observation_out
from enpire.wire.zmq_link import check_plain, stays_here

PART = 4 * 2**20
"""Bytes of one part of a version's files; every station cuts alike, so that several may hand over one version."""
WAITING_S, OVERLAPPED_S = 2.0, 10.0
"""How long an answer may take: where the robot stands still for it, and where it moves meanwhile."""
ANSWER_S = 10.0
"""How long an answer may take that no robot waits for."""
LOADING_S = 600.0
"""How long a server may take to load a version: a large model comes from a disk."""
_ASK_AGAIN_S = 0.1


class PolicyServerLink:
    """A station's connection to a policy server: one line for decisions, one for everything that takes its time.

    Args:
        address: tcp://HOST:PORT.
        keys: for another machine.
        decide_s: how long a decision may take.

    Raises:
        TransportProblem: an address on another machine, without keys.
    """

    def __init__(self, address: str, keys: StationKeys | None = None, decide_s: float = WAITING_S) -> None:
        if keys is None:
            check_plain(address)
        self._decide = RpcClient(address, keys, decide_s, "the policy server", PeerSilent)
        self._prepare = RpcClient(address, keys, max(decide_s, ANSWER_S), "the policy server", PeerSilent)
        self._client = mint()
        """Whose lanes: two stations may both have a lane 0."""

    def make(self, folder: Path, policy_id: str) -> Policy:
        """The version, ready at the server; its files go there when it lacks them.

        Raises:
            PeerSilent: the server is away.
            PolicyProblem: it cannot load the version.
        """
        until_s = time.monotonic() + LOADING_S
        while (answer := self._prepare.call("open", policy_id=policy_id)).text("state") != "ready":
            if answer.text("state") == "missing":
                self._hand_over(versions.pack(folder), policy_id)
            if time.monotonic() > until_s:
                raise PolicyProblem(f"the policy server did not load it within {LOADING_S:.0f} s")
            time.sleep(_ASK_AGAIN_S)
        kind = _Continuing if answer.flag("continues") else RemotePolicy
        made = kind(self, policy_id, answer.whole("horizon", 1), answer.whole("execute", 1))
        made.needs_images = answer.flag("needs_images")
        return made

    def decide(self, verb: str, policy_id: str, **content: object) -> Fields:
        """One question to a version, and its answer."""
        return self._decide.call(verb, client=self._client, policy_id=policy_id, **content)

    def close(self) -> None:
        """Hang up."""
        self._decide.close()
        self._prepare.close()

    def _hand_over(self, packed: versions.Packed, policy_id: str) -> None:
        """Every part that the server does not have; another station may hand over the same version meanwhile."""
        parts = -(-packed.size // PART)
        have = 0
        while have < parts:
            data = packed.read(have * PART, PART)
            answer = self._prepare.call("part", policy_id=policy_id, part=have, parts=parts, data=data)
            have = answer.whole("have", 0, parts)


def policy_server(file: StationFile) -> PolicyServerLink | None:
    """The connection to the policy server that a station file names; None where it names none."""
    if not file.policy_server:
        return None
    server_key = file.policy_server_key or ("" if stays_here(file.policy_server) else file.server_key)
    keys = station_keys(file.key_file, server_key) if file.key_file and server_key else None
    return PolicyServerLink(file.policy_server, keys, OVERLAPPED_S if file.inference == "overlap" else WAITING_S)


class RemotePolicy:
    """A version at a policy server. What fails between two episodes costs none: see `lost`.

    It foresees nothing, also where the version does: that would hold up the control loop for every capture_live.
    """

    def __init__(self, link: PolicyServerLink, policy_id: str, horizon: int, execute: int) -> None:
        self.horizon, self.execute = horizon, execute
        self.needs_images = False
        self._link, self._policy_id = link, policy_id
        self._begins: dict[int, int] = {}
        """Lane -> seed of episodes that the server has not heard of yet."""
        self.lost = False
        """Whether the server failed to answer, or does not know this version any more: it has to be made anew."""

    def begin(self, lane: int, seed: int) -> None:
        """A new episode; told to the server together with its first question."""
        self._begins[lane] = seed

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        """Chunks (len(lanes), horizon, action_dim)."""
        return self._asked("act", observation, lanes)

    def _asked(self, verb: str, observation: Observation, lanes: IntArray, **more: object) -> FloatArray:
        named = [int(lane) for lane in lanes]
        begins = [[lane, self._begins[lane]] for lane in named if lane in self._begins]
        rows = observation_out(observation)
        try:
            answer = self._link.decide(verb, self._policy_id, lanes=named, begins=begins, observation=rows, **more)
            chunks = floats_in(answer, "answer")
        except TransportProblem as problem:
            self.lost = True
            raise PolicyProblem(str(problem)) from problem
        except EnpireError:
            self.lost = True
            raise
        for lane, _ in begins:
            self._begins.pop(lane, None)
        return chunks


class _Continuing(RemotePolicy):
    def act_along(self, observation: Observation, lanes: IntArray, left: FloatArray, delay: int) -> FloatArray:
        """Chunks that begin with what will be sent anyhow (`enpire.interfaces.Continues`)."""
        return self._asked("act_along", observation, lanes, left=array_out(np.asarray(left, np.float32)), delay=delay)
