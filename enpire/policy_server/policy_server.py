"""`enpire policy serve`: one computer, usually with a GPU, runs inference for several stations.

Waiting calls for the same version run as one batch, also for different stations: the rows of a batch never influence
each other (`enpire.interfaces.Policy`). Each version runs in its own thread, so that a slow one delays only its own
callers. The server requests the files of a version that it lacks from a station and keeps them by their hash. It
receives and loads versions in other threads, so that a new version never delays inference. Any enrolled station can
send a version, so its kind must name a plug-in that is installed here: "module:name", which can be any code, is
refused unless the operator named it.
"""

from __future__ import annotations

import socket
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TypeGuard

import zmq

from enpire.errors import EnpireError, PolicyProblem, TransportProblem
from enpire.field_reader import Fields
from enpire.files import shown
from enpire.ids import is_version_id, version_id
from enpire.interfaces import ContinuesChunks, DeclaresImages, Policy
from enpire.log_lines import print_line
from enpire.policy_calls import PLUGIN_ERRORS, collector_of
from enpire.policy_server.inference_batcher import InferenceBatcher, InferenceCall, InferenceReply, read_call
from enpire.policy_server.repeated_calls import RepeatedCalls
from enpire.policy_server.version_uploads import VersionUploads
from enpire.station.policy_cache import check_version
from enpire.station.remote_policy import PART
from enpire.store import durable, removal, versions
from enpire.store.load_version import AllowedKinds, load_version
from enpire.wire.curve_keys import EncryptedBind
from enpire.wire.rpc import LARGEST, Message, decode, encode, error_out
from enpire.wire.server_socket import FromPeer, Peer, ServerSocket
from enpire.wire.socket_limits import SocketLimits

LOADED, KEPT = 8, 64
"""Most versions kept in memory by default, and on disk."""
MOST_PARTS = 16 * 1024
_TURN_MS = 100
_AT_ONCE = 256
"""Most calls that are read in one turn, and that wait for all versions together."""
_UNREAD = 8
"""Most unread calls of one connection: a station waits for the reply before its next call."""
_INFERENCE = ("act", "act_along")


class PolicyServer:
    """Versions behind a ROUTER socket.

    Args:
        folder: where versions are kept; made when missing.
        address: such as tcp://127.0.0.1:7100; without keys it must be a private socket, ipc:///FOLDER/NAME.
        keys: folder with this server's keys and the `allowed` stations (`enpire.wire.curve_keys`).
        say: prints one line about an event.
        kinds: "module:name" of versions that are also allowed; they can be any code.
        loaded: versions held in memory, at least 1.

    Raises:
        TransportProblem: the address is in use, or needs keys and there are none.
    """

    def __init__(  # noqa: PLR0913 - where it listens, and what the operator allows
        self, folder: Path, address: str, keys: Path | None = None, say: Callable[[str], None] = print_line,
        *, kinds: Sequence[str] = (), loaded: int = LOADED,
    ) -> None:  # fmt: skip
        durable.make_folder(folder)
        self._folder, self._say, self._most_loaded = folder, say, loaded
        self._allowed = AllowedKinds(kinds=kinds, where="start the policy server with --allow-kind MODULE:NAME")
        self._versions: OrderedDict[str, InferenceBatcher] = OrderedDict()
        self._waiting: dict[str, dict[str, InferenceCall]] = {}
        """Version -> client -> its last call, which no batch contains yet."""
        self._running: dict[str, Future[list[InferenceReply]]] = {}
        self._repeated = RepeatedCalls()
        self._loading: dict[str, Future[Policy]] = {}
        self._uploads = VersionUploads(folder)
        self._loader, self._inference_pool = (
            ThreadPoolExecutor(1, "policy-loader"),
            ThreadPoolExecutor(loaded, "inference"),
        )
        self._wake_in, self._wake = socket.socketpair()
        """`_wake`: a byte written here ends the wait for messages."""
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        bind = address if keys is None else EncryptedBind(address=address, keys=keys)
        try:
            self._server = ServerSocket(
                self._context, bind, "policy-server", SocketLimits(largest=LARGEST, unread=_UNREAD)
            )
        except TransportProblem:
            self._close()
            raise
        self.address = self._server.address
        self.answered = self.calls = 0
        """Calls answered, and the batches that were needed."""

    def run(self, ended: threading.Event) -> None:
        """Serve until `ended` is set."""
        while not ended.is_set():
            self.turn(_TURN_MS)

    def turn(self, wait_ms: int = 0) -> None:
        """Handle waiting messages and finished batches; waits at most `wait_ms` for the first."""
        self._uploads.sweep()
        poller = zmq.Poller()
        poller.register(self._server.socket, zmq.POLLIN)
        poller.register(self._wake_in, zmq.POLLIN)
        ready = dict(poller.poll(wait_ms))
        for report in self._server.reports():
            self._say(report)
        if self._wake_in.fileno() in ready:
            self._wake_in.recv(4096)
        self._answer_all()
        if self._server.socket in ready:
            self._hear_all()
        self._start_batches()

    def close(self) -> None:
        """Close the sockets and end the threads. Allowed twice."""
        self._server.close()
        self._close()

    def _close(self) -> None:
        for pool in (self._loader, self._inference_pool):
            pool.shutdown(wait=True, cancel_futures=True)
        self._wake_in.close()
        self._wake.close()
        self._context.destroy(linger=500)

    def _hear_all(self) -> None:
        for _ in range(_AT_ONCE):
            came = self._server.receive()
            if came is None:
                break
            if came.refused:
                self._say(came.refused)
                continue
            call = self._heard(came)
            if call is None or self._repeated.is_running(call):
                continue
            if (answer := self._repeated.answer(call)) is not None:
                self._answer(call.peer, call.sequence, answer)
                continue
            waiting = self._waiting.get(call.policy_id, {})
            if call.client in waiting or sum(map(len, self._waiting.values())) < _AT_ONCE:
                waiting[call.client] = call  # a client that calls again has given up its earlier call
                self._waiting[call.policy_id] = waiting
            else:
                self._refuse([call], PolicyProblem(f"{_AT_ONCE} calls wait at this policy server already"))

    def _start_batches(self) -> None:
        """Start a batch for every idle version that has waiting calls."""
        for policy_id in [one for one in self._waiting if one not in self._running]:
            waiting = self._waiting.pop(policy_id)
            batcher = self._versions.get(policy_id)
            if batcher is None:
                held = PolicyProblem("the policy server does not hold this version, or has dropped it")
                self._refuse(list(waiting.values()), held)
                continue
            self._versions.move_to_end(policy_id)
            first = next(iter(waiting.values()))
            together = [call for call in waiting.values() if call.batch == first.batch]
            later = {client: call for client, call in waiting.items() if call.batch != first.batch}
            if later:
                self._waiting[policy_id] = later
            self._repeated.begin(together)
            running = self._running[policy_id] = self._inference_pool.submit(batcher.infer, together)
            running.add_done_callback(lambda _: self._wake.send(b"\0"))

    def _answer_all(self) -> None:
        """Send the replies of finished batches."""
        for policy_id in [one for one, running in self._running.items() if running.done()]:
            answers = self._running.pop(policy_id).result()
            for call, answer in answers:
                self._repeated.end(call, answer)
                self._answer(call.peer, call.sequence, answer)
            well = sum(not answer["error"] for _, answer in answers)
            self.answered, self.calls = self.answered + well, self.calls + bool(well)

    def _heard(self, came: FromPeer) -> InferenceCall | None:
        """Read a message: returns a call for inference; answers any other call; drops unreadable bytes."""
        try:
            peer, [frame] = came.peer, came.frames
            message = decode(frame.bytes)
            sequence = message.whole("sequence")
        except (ValueError, TransportProblem):
            return None
        try:
            method = message.choice("verb", ("open", "part", *_INFERENCE))
            policy_id = message.text("policy_id", 64)
            if not is_version_id(policy_id):
                raise message.refuse("policy_id", "64 hexadecimal digits")
            if method in _INFERENCE:
                return read_call(peer, sequence, method, policy_id, message)
            reply = self._open(policy_id) if method == "open" else self._take(policy_id, message)
            self._answer(peer, sequence, {"error": "", **reply})
        except EnpireError as problem:
            self._answer(peer, sequence, error_out(problem))
        except OSError as problem:
            refused = PolicyProblem(f"the policy server: {durable.refusal(problem, self._folder)}")
            self._answer(peer, sequence, error_out(refused))
        return None

    def _open(self, policy_id: str) -> Message:
        batcher = self._versions.get(policy_id)
        if batcher is None and policy_id not in self._loading:
            if not (self._folder / version_id(policy_id)).is_dir():
                return {"state": "missing"}
            self._loading[policy_id] = self._loader.submit(self._load, policy_id)
        if batcher is None:
            batcher = self._loaded(policy_id)
        if batcher is None:
            return {"state": "loading"}
        policy = batcher.policy
        sees = isinstance(policy, DeclaresImages) and policy.needs_images
        return {
            "state": "ready", "horizon": policy.horizon, "execute": policy.execute,
            "continues": isinstance(policy, ContinuesChunks), "needs_images": sees,
            "collects": batcher.collector is not None,
        }  # fmt: skip

    def _load(self, policy_id: str) -> Policy:
        """In the loader's thread: load a version and check that it is a policy."""
        folder = check_version(self._folder, policy_id)
        policy = load_version(folder, policy_id, self._allowed)
        if not _is_policy(policy) or not 1 <= policy.execute <= policy.horizon:
            raise PolicyProblem(f"what {shown(versions.manifest(folder)['kind'])} loads is no policy")
        return policy

    def _loaded(self, policy_id: str) -> InferenceBatcher | None:
        future = self._loading[policy_id]
        if not future.done():
            return None
        del self._loading[policy_id]
        try:
            policy = future.result()
            other = collector_of(policy)
        except PLUGIN_ERRORS as problem:
            why = " ".join(str(problem).split())
            raise PolicyProblem(f"the policy server cannot load it: {why}"[:1000]) from problem
        batcher = self._versions[policy_id] = InferenceBatcher(policy, other)
        while len(self._versions) > self._most_loaded:
            self._versions.popitem(last=False)
        self._say(f"loaded {policy_id[:12]}")
        return batcher

    def _take(self, policy_id: str, message: Fields) -> Message:
        """Take a part of a version's files if it is the next one; replies with the number of parts here."""
        total = message.whole("parts", 1, MOST_PARTS)
        number, data = message.whole("part", 0, total - 1), message.data("data")
        if len(data) > PART:
            raise message.refuse("data", f"at most {PART} bytes")
        if (self._folder / version_id(policy_id)).is_dir() or policy_id in self._loading:
            return {"have": total}  # another station has uploaded it
        have = self._uploads.take(policy_id, number, total, data)
        if have == total:
            self._loading[policy_id] = self._loader.submit(self._keep, policy_id, self._uploads.arrived(policy_id))
        return {"have": have}

    def _keep(self, policy_id: str, parts: Path) -> Policy:
        """In the loader's thread: check the uploaded files, keep them by their hash, load them."""
        versions.keep(parts, policy_id, self._folder)
        kept = [path for path in self._folder.glob("[!.]*") if path.is_dir() and path.name not in self._versions]
        for path in sorted(kept, key=lambda path: path.stat().st_mtime_ns, reverse=True)[KEPT:]:
            removal.try_remove(path, self._folder)
        return self._load(policy_id)

    def _refuse(self, batch: Sequence[InferenceCall], problem: EnpireError) -> None:
        for call in batch:
            self._answer(call.peer, call.sequence, error_out(problem))

    def _answer(self, peer: Peer, sequence: int, message: Message) -> None:
        # Where the client is gone or reads nothing, its call times out.
        self._server.send(peer, encode({**message, "sequence": sequence}))


def _is_policy(loaded: object) -> TypeGuard[Policy]:
    """A plug-in of another laboratory may load anything."""
    return isinstance(loaded, Policy)
