"""Policies that are asked over the wire: `enpire policy serve` thinks, on the GPU that several stations share.

A station fetches and checks the files of a version as always, and hands them to the server when that does not have
them yet; a version is its hash, so neither side has to trust the other's copy. What the server answers is what the
policy would have answered here.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from enpire import versions
from enpire.errors import EnpireError, PolicyProblem, TransportProblem
from enpire.fleet.curve_keys import StationKeys, station_keys
from enpire.fleet.fields import Fields
from enpire.fleet.questions import Line, array_out, floats_in, observation_out
from enpire.fleet.station_file import StationFile
from enpire.fleet.zmq_link import check_plain, stays_here
from enpire.ids import mint
from enpire.interfaces import Policy
from enpire.types import FloatArray, IntArray, Observation

PART = 4 * 2**20
"""Bytes of one part of a version's files."""
ANSWER_S = 5.0
LOADING_S = 600.0
"""How long a server may take to load a version: a large model comes from a disk."""
_ASK_AGAIN_S = 0.1


class PolicyServerLink:
    """A station's connection to a policy server.

    Args:
        address: tcp://HOST:PORT.
        keys: for another machine.
        answer_s: how long an answer may take; a robot that waits for it holds still.

    Raises:
        TransportProblem: an address on another machine, without keys.
    """

    def __init__(self, address: str, keys: StationKeys | None = None, answer_s: float = ANSWER_S) -> None:
        if keys is None:
            check_plain(address)
        self._line = Line(address, keys, answer_s, "the policy server", TransportProblem)
        self._client = mint()
        """Whose lanes: two stations may both have a lane 0."""

    def make(self, folder: Path, policy_id: str) -> Policy:
        """The version, ready at the server; its files go there when it lacks them.

        Raises:
            TransportProblem: the server is away.
            PolicyProblem: it cannot load the version.
        """
        until_s = time.monotonic() + LOADING_S
        while (answer := self.ask("open", policy_id)).text("state") != "ready":
            if answer.text("state") == "missing":
                self._hand_over(versions.pack(folder), policy_id)
            elif time.monotonic() > until_s:
                raise PolicyProblem(f"the policy server did not load it within {LOADING_S:.0f} s")
            else:
                time.sleep(_ASK_AGAIN_S)
        kind = _KINDS[answer.flag("foresees"), answer.flag("continues")]
        return kind(self, policy_id, answer.whole("horizon", 1), answer.whole("execute", 1))

    def ask(self, verb: str, policy_id: str, **content: object) -> Fields:
        """One question about a version, and its answer."""
        return self._line.ask(verb, client=self._client, policy_id=policy_id, **content)

    def close(self) -> None:
        """Hang up."""
        self._line.close()

    def _hand_over(self, packed: bytes, policy_id: str) -> None:
        parts = [packed[at : at + PART] for at in range(0, len(packed), PART)]
        for number, data in enumerate(parts):
            self.ask("part", policy_id, part=number, parts=len(parts), data=data)


def policy_server(file: StationFile) -> PolicyServerLink | None:
    """The connection to the policy server that a station file names; None where it names none."""
    if not file.policy_server:
        return None
    server_key = file.policy_server_key or ("" if stays_here(file.policy_server) else file.server_key)
    keys = station_keys(file.key_file, server_key) if file.key_file and server_key else None
    return PolicyServerLink(file.policy_server, keys)


class RemotePolicy:
    """A version at a policy server. What fails between two episodes costs none: see `lost`."""

    def __init__(self, link: PolicyServerLink, policy_id: str, horizon: int, execute: int) -> None:
        self.horizon, self.execute = horizon, execute
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
            answer = self._link.ask(
                verb, self._policy_id, lanes=named, begins=begins, observation=rows, **more
            )  # fmt: skip
        except EnpireError:
            self.lost = True
            raise
        for lane, _ in begins:
            self._begins.pop(lane, None)
        return floats_in(answer, "answer")


class _Foreseeing(RemotePolicy):
    def viability(self, observation: Observation, lanes: IntArray) -> FloatArray:
        """p_v (len(lanes),)."""
        return self._asked("viability", observation, lanes)


class _Continuing(RemotePolicy):
    def act_along(self, observation: Observation, lanes: IntArray, left: FloatArray, delay: int) -> FloatArray:
        """Chunks that begin with what will be sent anyhow (`enpire.interfaces.Continues`)."""
        return self._asked("act_along", observation, lanes, left=array_out(np.asarray(left, np.float32)), delay=delay)


class _ForeseeingContinuing(_Foreseeing, _Continuing):
    pass


_KINDS: Mapping[tuple[bool, bool], type[RemotePolicy]] = {
    (False, False): RemotePolicy,
    (True, False): _Foreseeing,
    (False, True): _Continuing,
    (True, True): _ForeseeingContinuing,
}
"""(foresees, continues) -> the class that has just these methods, for stations look for them."""
