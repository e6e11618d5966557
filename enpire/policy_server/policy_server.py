"""`enpire policy serve`: one computer, as a rule one with a GPU, thinks for the policies of several stations.

Questions that wait for the same version are answered by one call of the policy, whoever asks: rows of a batch never
influence each other (`enpire.interfaces.Policy`). A version thinks in a thread of its own, so that a slow one holds up
only those who ask it. A station is asked for the files of a version that is not here yet;
they are kept by their hash. Versions are taken over and loaded beside the answering, so that a new one never holds up
the others. A version comes from whoever may ask, so what it names as its kind must be installed here: "module:name",
which can be any code, is refused.
"""

from __future__ import annotations

import shutil
import socket
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import cast

import zmq

from enpire import plugins
from enpire.errors import EnpireError, PolicyProblem, TransportProblem
from enpire.fields import Fields
from enpire.interfaces import Continues, Policy, Sees
from enpire.policy_server.inference_batcher import InferenceBatcher, InferenceCall, InferenceReply, read_call
from enpire.policy_server.version_uploads import VersionUploads
from enpire.station.chunks import PLUGIN_ERRORS
from enpire.station.policy_cache import check_version, load_version
from enpire.station.remote_policy import PART
from enpire.store import durable, versions
from enpire.wire.curve_keys import KeyAuthenticator
from enpire.wire.rpc import LARGEST, Message, decode, encode, error_out
from enpire.wire.zmq_link import check_plain, limit_costs, listen

LOADED, KEPT = 8, 64
"""Versions held in memory, unless somebody says how many, and on the disk."""
MOST_PARTS = 16 * 1024
_TURN_MS = 100
_AT_ONCE = 256
"""Questions that are read in one turn, and that wait for all versions together."""
_UNREAD = 8
"""Questions of one connection that may wait here: a station waits for the answer before it asks again."""
_THINKING = ("act", "act_along")


class PolicyServer:
    """Versions behind a ROUTER socket.

    Args:
        folder: where versions are kept; made when missing.
        address: such as tcp://127.0.0.1:7100; only this machine is let in without keys.
        keys: folder with this server's keys and the `allowed` stations (`enpire.wire.curve_keys`).
        say: where one line about what happened goes.
        any_kind: whether versions may also name their kind as "module:name", which can be any code.
        loaded: versions held in memory, at least 1.

    Raises:
        TransportProblem: the address is in use, or can be reached from elsewhere and there are no keys.
    """

    def __init__(  # noqa: PLR0913 - where it listens, and what its owner allows
        self, folder: Path, address: str, keys: Path | None = None, say: Callable[[str], None] = print,
        *, any_kind: bool = False, loaded: int = LOADED,
    ) -> None:  # fmt: skip
        if keys is None:
            check_plain(address)
        durable.make_folder(folder)
        self._folder, self._say, self._any_kind, self._most_loaded = folder, say, any_kind, loaded
        self._versions: OrderedDict[str, InferenceBatcher] = OrderedDict()
        self._waiting: dict[str, dict[str, InferenceCall]] = {}
        """Version -> client -> what it asked last and nobody thinks about yet."""
        self._thinking: dict[str, Future[list[InferenceReply]]] = {}
        self._loading: dict[str, Future[Policy]] = {}
        self._coming = VersionUploads(folder)
        self._loader, self._thinkers = ThreadPoolExecutor(1, "policy-loader"), ThreadPoolExecutor(loaded, "thinker")
        self._wake_in, self._wake = socket.socketpair()
        """`_wake`: a byte that is written here ends the waiting for questions."""
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._authenticator = KeyAuthenticator(self._context, keys) if keys is not None else None
        self._router = self._context.socket(zmq.ROUTER)
        limit_costs(self._router, LARGEST, _UNREAD)
        if self._authenticator is not None:
            self._authenticator.encrypt(self._router)
        try:
            self.address = listen(self._router, address)
        except TransportProblem:
            self.close()
            raise
        self.answered = self.calls = 0
        """Questions answered, and the calls of policies that it took."""

    def run(self, ended: threading.Event) -> None:
        """Serve until `ended` is set."""
        while not ended.is_set():
            self.turn(_TURN_MS)

    def turn(self, wait_ms: int = 0) -> None:
        """InferenceReply what waits, at most `wait_ms` after now."""
        self._coming.sweep()
        poller = zmq.Poller()
        poller.register(self._router, zmq.POLLIN)
        poller.register(self._wake_in, zmq.POLLIN)
        if self._authenticator is not None:
            poller.register(self._authenticator.socket, zmq.POLLIN)
        ready = dict(poller.poll(wait_ms))
        if (
            self._authenticator is not None
            and self._authenticator.socket in ready
            and (refused := self._authenticator.decide())
        ):
            self._say(refused)
        if self._wake_in.fileno() in ready:
            self._wake_in.recv(4096)
        self._answer_all()
        if self._router in ready:
            self._hear_all()
        self._think_on()

    def close(self) -> None:
        """Hang up and let the versions go. Allowed twice."""
        for pool in (self._loader, self._thinkers):
            pool.shutdown(wait=True, cancel_futures=True)
        self._wake_in.close()
        self._wake.close()
        self._context.destroy(linger=500)

    def _hear_all(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                frames = self._router.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                break
            question = self._heard(frames)
            if question is None:
                continue
            waiting = self._waiting.get(question.policy_id, {})
            if question.client in waiting or sum(map(len, self._waiting.values())) < _AT_ONCE:
                waiting[question.client] = question  # who asks again has given up its earlier question
                self._waiting[question.policy_id] = waiting
            else:
                self._refuse([question], PolicyProblem(f"{_AT_ONCE} questions wait at this policy server already"))

    def _think_on(self) -> None:
        """Give what waits to the versions that think about nothing."""
        for policy_id in [one for one in self._waiting if one not in self._thinking]:
            waiting = self._waiting.pop(policy_id)
            thinker = self._versions.get(policy_id)
            if thinker is None:
                held = PolicyProblem("the policy server does not hold this version (any more)")
                self._refuse(list(waiting.values()), held)
                continue
            self._versions.move_to_end(policy_id)
            first = next(iter(waiting.values()))
            together = [question for question in waiting.values() if question.batch == first.batch]
            later = {client: question for client, question in waiting.items() if question.batch != first.batch}
            if later:
                self._waiting[policy_id] = later
            thought = self._thinking[policy_id] = self._thinkers.submit(thinker.think, together)
            thought.add_done_callback(lambda _: self._wake.send(b"\0"))

    def _answer_all(self) -> None:
        """Send what was thought."""
        for policy_id in [one for one, thought in self._thinking.items() if thought.done()]:
            answers = self._thinking.pop(policy_id).result()
            for question, answer in answers:
                self._answer(question.peer, question.sequence, answer)
            well = sum(not answer["error"] for _, answer in answers)
            self.answered, self.calls = self.answered + well, self.calls + bool(well)

    def _heard(self, frames: Sequence[bytes]) -> InferenceCall | None:
        """A question for a policy; anything else is answered here and now, and what cannot be read is dropped."""
        try:
            peer, frame = frames
            message = decode(frame)
            sequence = message.whole("sequence")
        except (ValueError, TransportProblem):
            return None
        try:
            verb = message.choice("verb", ("open", "part", *_THINKING))
            policy_id = message.text("policy_id", 64)
            if not versions.ID.fullmatch(policy_id):
                raise message.refuse("policy_id", "64 hexadecimal digits")
            if verb in _THINKING:
                return read_call(peer, sequence, verb, policy_id, message)
            said = self._open(policy_id) if verb == "open" else self._take(policy_id, message)
            self._answer(peer, sequence, {"error": "", **said})
        except EnpireError as problem:
            self._answer(peer, sequence, error_out(problem))
        except OSError as problem:
            refused = PolicyProblem(f"the policy server: {durable.refusal(problem, self._folder)}")
            self._answer(peer, sequence, error_out(refused))
        return None

    def _open(self, policy_id: str) -> Message:
        thinker = self._versions.get(policy_id)
        if thinker is None and policy_id not in self._loading:
            if not (self._folder / policy_id).is_dir():
                return {"state": "missing"}
            self._loading[policy_id] = self._loader.submit(self._load, policy_id)
        if thinker is None:
            thinker = self._loaded(policy_id)
        if thinker is None:
            return {"state": "loading"}
        policy = thinker.policy
        sees = isinstance(policy, Sees) and policy.needs_images
        return {
            "state": "ready", "horizon": policy.horizon, "execute": policy.execute,
            "continues": isinstance(policy, Continues), "needs_images": sees,
        }  # fmt: skip

    def _load(self, policy_id: str) -> Policy:
        """On the loader's thread: a policy that is known to be one."""
        folder = self._folder / policy_id
        check_version(folder, policy_id)
        kind = str(versions.manifest(folder)["kind"])
        if not (self._any_kind or plugins.is_part("policies", kind)):
            raise PolicyProblem(f"its kind {kind[:80]!r} is not installed here; see `enpire policy serve --any-kind`")
        policy = cast("object", load_version(folder, policy_id))
        if not isinstance(policy, Policy) or not 1 <= policy.execute <= policy.horizon:
            raise PolicyProblem(f"what {kind[:80]!r} loads is no policy")
        return policy

    def _loaded(self, policy_id: str) -> InferenceBatcher | None:
        future = self._loading[policy_id]
        if not future.done():
            return None
        del self._loading[policy_id]
        try:
            policy = future.result()
        except PLUGIN_ERRORS as problem:
            why = " ".join(str(problem).split())
            raise PolicyProblem(f"the policy server cannot load it: {why}"[:1000]) from problem
        thinker = self._versions[policy_id] = InferenceBatcher(policy)
        while len(self._versions) > self._most_loaded:
            self._versions.popitem(last=False)
        self._say(f"loaded {policy_id[:12]}")
        return thinker

    def _take(self, policy_id: str, message: Fields) -> Message:
        """One part of a version's files, if it is the next one; how many are here now."""
        total = message.whole("parts", 1, MOST_PARTS)
        number, data = message.whole("part", 0, total - 1), message.data("data")
        if len(data) > PART:
            raise message.refuse("data", f"at most {PART} bytes")
        if (self._folder / policy_id).is_dir() or policy_id in self._loading:
            return {"have": total}  # another station was quicker
        have = self._coming.take(policy_id, number, total, data)
        if have == total:
            self._loading[policy_id] = self._loader.submit(self._take_over, policy_id, self._coming.arrived(policy_id))
        return {"have": have}

    def _take_over(self, policy_id: str, parts: Path) -> Policy:
        """On the loader's thread: check the files that arrived, keep them by their hash, load them."""
        versions.keep(parts, policy_id, self._folder)
        kept = [path for path in self._folder.iterdir() if path.is_dir() and path.name not in self._versions]
        for path in sorted(kept, key=lambda path: path.stat().st_mtime_ns, reverse=True)[KEPT:]:
            shutil.rmtree(path, ignore_errors=True)
        return self._load(policy_id)

    def _refuse(self, batch: Sequence[InferenceCall], problem: EnpireError) -> None:
        for question in batch:
            self._answer(question.peer, question.sequence, error_out(problem))

    def _answer(self, peer: bytes, sequence: int, message: Message) -> None:
        with suppress(zmq.Again):  # whoever asked is gone, or reads nothing: it will say that no answer came
            self._router.send_multipart([peer, encode({**message, "sequence": sequence})], zmq.NOBLOCK)
