"""Policies whose inference runs at a policy server (`enpire policy serve`), on a GPU that several stations share.

A station fetches and checks the files of a version as usual, and sends them to the server if the server lacks them. A
version is named by its hash, so neither side needs to trust the other's copy. The server's actions equal those that the
policy would compute at the station.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from enpire.errors import EnpireError, PeerSilent, PolicyProblem, TransportProblem
from enpire.field_reader import Fields
from enpire.ids import mint
from enpire.interfaces import Policy
from enpire.station.station_file import StationFile
from enpire.store import versions
from enpire.types import FloatArray, IntArray, Observation
from enpire.wire.curve_keys import StationKeys, station_keys
from enpire.wire.private_socket import check_plain, is_private
from enpire.wire.rpc import RpcClient, array_out, floats_in, observation_out

PART = 4 * 2**20
"""Bytes of one part of a version's files; equal at every station, so that several can upload one version together."""
WAITING_S, OVERLAPPED_S = 2.0, 10.0
"""How long inference may take: while the robot waits for it, and while the robot moves."""
ANSWER_S = 10.0
"""How long a reply may take that no robot waits for."""
LOADING_S = 600.0
"""How long the server may take to load a version; a large model takes minutes."""
_ASK_AGAIN_S = 0.1


class PolicyServerLink:
    """A station's connection to a policy server: one client for inference, one for slow calls.

    Args:
        address: tcp://HOST:PORT with keys, or ipc:///FOLDER/NAME.
        keys: needed unless the address is a private socket.
        decide_s: how long inference may take.

    Raises:
        TransportProblem: the address needs keys, and there are none.
    """

    def __init__(self, address: str, keys: StationKeys | None = None, decide_s: float = WAITING_S) -> None:
        if keys is None:
            check_plain(address)
        self._decide = RpcClient(address, keys, decide_s, "the policy server", PeerSilent)
        self._prepare = RpcClient(address, keys, max(decide_s, ANSWER_S), "the policy server", PeerSilent)
        self._client = mint()
        """Distinguishes the lanes of this station from those of others at the server."""

    def make(self, folder: Path, policy_id: str) -> Policy:
        """Have the server load a version, and upload its files if the server lacks them.

        Raises:
            PeerSilent: the server does not answer.
            PolicyProblem: the server cannot load the version.
        """
        until_s = time.monotonic() + LOADING_S
        while (reply := self._prepare.call_repeatable("open", policy_id=policy_id)).text("state") != "ready":
            if reply.text("state") == "missing":
                self._upload(versions.pack(folder), policy_id)
            if time.monotonic() > until_s:
                raise PolicyProblem(f"the policy server did not load it within {LOADING_S:.0f} s")
            time.sleep(_ASK_AGAIN_S)
        kind = _Continuing if reply.flag("continues") else RemotePolicy
        made = kind(self, policy_id, reply.whole("horizon", 1), reply.whole("execute", 1))
        made.needs_images = reply.flag("needs_images")
        if "collects" in reply and reply.flag("collects"):
            made.collector = kind(self, policy_id, made.horizon, made.execute, collects_for=made)
            made.collector.needs_images = made.needs_images
        return made

    def decide(self, method: str, policy_id: str, **content: object) -> Fields:
        """Call a method of a version (`act` or `act_along`); returns the reply."""
        return self._decide.call_repeatable(method, client=self._client, policy_id=policy_id, **content)

    def close(self) -> None:
        """Close the connections."""
        self._decide.close()
        self._prepare.close()

    def _upload(self, packed: versions.Packed, policy_id: str) -> None:
        """Send every part that the server lacks; another station may upload the same version at the same time."""
        parts = -(-packed.size // PART)
        have = 0
        while have < parts:
            data = packed.read(have * PART, PART)
            reply = self._prepare.call_repeatable("part", policy_id=policy_id, part=have, parts=parts, data=data)
            have = reply.whole("have", 0, parts)


def policy_server(file: StationFile) -> PolicyServerLink | None:
    """The connection to the policy server that a station file names; None where it names none."""
    if not file.policy_server:
        return None
    server_key = file.policy_server_key or ("" if is_private(file.policy_server) else file.server_key)
    keys = station_keys(file.key_file, server_key) if file.key_file and server_key else None
    return PolicyServerLink(file.policy_server, keys, OVERLAPPED_S if file.inference == "overlap" else WAITING_S)


class RemotePolicy:
    """A version at a policy server. A failure between two episodes ends none: see `lost`.

    It reports no viability, even if the version can: each value would delay the control loop by one call.
    """

    def __init__(
        self, link: PolicyServerLink, policy_id: str, horizon: int, execute: int,
        collects_for: RemotePolicy | None = None,
    ) -> None:  # fmt: skip
        """`collects_for`: the policy that this one collects data for."""
        self.horizon, self.execute = horizon, execute
        self.collector: RemotePolicy = self
        self._collects_for = collects_for
        self.needs_images = False
        self._link, self._policy_id = link, policy_id
        self._begins: dict[int, int] = {}
        """Lane -> seed of episodes that the server has not begun yet."""
        self.lost = False
        """Whether the server failed to answer or has dropped this version: it must be made again."""

    def begin(self, lane: int, seed: int) -> None:
        """Begin an episode; the server begins it with the first call."""
        self._begins[lane] = seed

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        """Action chunks, float32 (len(lanes), horizon, action_dim)."""
        return self._infer("act", observation, lanes)

    def _infer(self, method: str, observation: Observation, lanes: IntArray, **more: object) -> FloatArray:
        named = [int(lane) for lane in lanes]
        begins = [[lane, self._begins[lane]] for lane in named if lane in self._begins]
        rows = observation_out(observation)
        if self._collects_for is not None:
            more["collects"] = True
        try:
            reply = self._link.decide(method, self._policy_id, lanes=named, begins=begins, observation=rows, **more)
            chunks = floats_in(reply, "answer")
        except TransportProblem as problem:
            (self._collects_for or self).lost = True
            raise PolicyProblem(str(problem)) from problem
        except EnpireError:
            (self._collects_for or self).lost = True
            raise
        for lane, _ in begins:
            self._begins.pop(lane, None)
        return chunks


class _Continuing(RemotePolicy):
    def act_along(self, observation: Observation, lanes: IntArray, left: FloatArray, delay: int) -> FloatArray:
        """Action chunks that continue the present ones, float32 (n, horizon, action_dim)."""
        return self._infer("act_along", observation, lanes, left=array_out(np.asarray(left, np.float32)), delay=delay)
