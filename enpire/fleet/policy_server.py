"""`enpire policy serve`: one computer, as a rule one with a GPU, thinks for the policies of several stations.

Questions that wait for the same version are answered by one call of the policy, whoever asks: rows of a batch never
influence each other (`enpire.interfaces.Policy`). A station is asked for the files of a version that is not here yet;
they are kept by their hash. Versions are taken over and loaded beside the answering, so that a new one never holds up
the others. A version comes from whoever may ask, so what it names as its kind must be installed here: "module:name",
which can be any code, is refused.
"""

from __future__ import annotations

import shutil
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import numpy as np
import zmq

from enpire import plugins, versions
from enpire.errors import EnpireError, PolicyProblem, TransportProblem
from enpire.fleet.chunks import FOREIGN_FAULTS
from enpire.fleet.coming_versions import ComingVersions
from enpire.fleet.curve_keys import Doorkeeper
from enpire.fleet.fields import Fields
from enpire.fleet.policy_shelf import check_version, load_version
from enpire.fleet.questions import (
    LARGEST,
    Message,
    array_out,
    decode,
    encode,
    error_out,
    floats_in,
    observation_in,
)
from enpire.fleet.remote_policy import PART
from enpire.fleet.zmq_link import check_plain, limit_costs, listen
from enpire.interfaces import Continues, Policy, Sees
from enpire.store import durable
from enpire.types import FloatArray, IntArray, Observation

LOADED, KEPT = 8, 64
"""Versions held in memory, unless somebody says how many, and on the disk."""
MOST_PARTS = 16 * 1024
MOST_SLOTS = 4096
"""Episodes that one version has in mind."""
_TURN_MS = 100
_AT_ONCE = 256
"""Questions that are read before they are answered."""
_UNREAD = 8
"""Questions of one connection that may wait here: a station waits for the answer before it asks again."""
_THINKING = ("act", "act_along")


@dataclass(slots=True)
class _Shelved:
    """A version in memory and the lanes that use it."""

    policy: Policy
    slots: dict[tuple[str, int], int] = field(default_factory=dict[tuple[str, int], int])
    """(client, lane) -> the lane under which the policy knows that episode; those that began last, last."""

    def slot(self, client: str, lane: int) -> int:
        """The lane for an episode that begins: its own, a new one, or that of the episode that began longest ago."""
        slot = self.slots.pop((client, lane), None)
        if slot is None:
            full = len(self.slots) >= MOST_SLOTS
            slot = self.slots.pop(next(iter(self.slots))) if full else len(self.slots)
        self.slots[client, lane] = slot
        return slot


@dataclass(slots=True, kw_only=True)
class _Question:
    """What somebody wants of a version, read and checked."""

    peer: bytes
    sequence: int
    verb: str
    policy_id: str
    client: str
    lanes: Sequence[int]
    begins: Sequence[tuple[int, int]]
    """(lane, seed)."""
    observation: Observation
    left: FloatArray | None
    delay: int

    @property
    def batch(self) -> tuple[object, ...]:
        """Questions with the same key fit into one call."""
        pictures = sorted((name, picture.shape[1:]) for name, picture in self.observation.images.items())
        return self.verb, self.policy_id, self.observation.state.shape[1:], tuple(pictures), self.delay


class PolicyServer:
    """Versions behind a ROUTER socket.

    Args:
        folder: where versions are kept; made when missing.
        address: such as tcp://127.0.0.1:7100; only this machine is let in without keys.
        keys: folder with this server's keys and the `allowed` stations (`enpire.fleet.curve_keys`).
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
        self._versions: OrderedDict[str, _Shelved] = OrderedDict()
        self._loading: dict[str, Future[Policy]] = {}
        self._coming = ComingVersions(folder)
        self._loader = ThreadPoolExecutor(1, "policy-loader")
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._door = Doorkeeper(self._context, keys) if keys is not None else None
        self._router = self._context.socket(zmq.ROUTER)
        limit_costs(self._router, LARGEST, _UNREAD)
        if self._door is not None:
            self._door.guard(self._router)
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
        """Answer what waits, at most `wait_ms` after now."""
        self._coming.sweep()
        poller = zmq.Poller()
        poller.register(self._router, zmq.POLLIN)
        if self._door is not None:
            poller.register(self._door.socket, zmq.POLLIN)
        ready = dict(poller.poll(wait_ms))
        if self._door is not None and self._door.socket in ready and (refused := self._door.answer()):
            self._say(refused)
        if self._router in ready:
            self._answer_all()

    def close(self) -> None:
        """Hang up and let the versions go. Allowed twice."""
        self._loader.shutdown(wait=True, cancel_futures=True)
        self._context.destroy(linger=500)

    def _answer_all(self) -> None:
        batches: dict[tuple[object, ...], dict[str, _Question]] = {}
        for _ in range(_AT_ONCE):
            try:
                frames = self._router.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                break
            question = self._heard(frames)
            if question is not None:  # who asks again has given up its earlier question
                batches.setdefault(question.batch, {})[question.client] = question
        for batch in batches.values():
            self._think(list(batch.values()))

    def _heard(self, frames: Sequence[bytes]) -> _Question | None:
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
                return _question(peer, sequence, verb, policy_id, message)
            said = self._open(policy_id) if verb == "open" else self._take(policy_id, message)
            self._answer(peer, sequence, {"error": "", **said})
        except EnpireError as problem:
            self._answer(peer, sequence, error_out(problem))
        except OSError as problem:
            refused = PolicyProblem(f"the policy server: {durable.refusal(problem, self._folder)}")
            self._answer(peer, sequence, error_out(refused))
        return None

    def _open(self, policy_id: str) -> Message:
        shelved = self._versions.get(policy_id)
        if shelved is None and policy_id not in self._loading:
            if not (self._folder / policy_id).is_dir():
                return {"state": "missing"}
            self._loading[policy_id] = self._loader.submit(self._load, policy_id)
        if shelved is None:
            shelved = self._loaded(policy_id)
        if shelved is None:
            return {"state": "loading"}
        policy = shelved.policy
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

    def _loaded(self, policy_id: str) -> _Shelved | None:
        future = self._loading[policy_id]
        if not future.done():
            return None
        del self._loading[policy_id]
        try:
            policy = future.result()
        except (*FOREIGN_FAULTS, OSError, ImportError) as problem:
            why = " ".join(str(problem).split())
            raise PolicyProblem(f"the policy server cannot load it: {why}"[:1000]) from problem
        shelved = self._versions[policy_id] = _Shelved(policy)
        while len(self._versions) > self._most_loaded:
            self._versions.popitem(last=False)
        self._say(f"loaded {policy_id[:12]}")
        return shelved

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

    def _think(self, batch: Sequence[_Question]) -> None:
        """Answer questions to one version with one call."""
        first = batch[0]
        shelved = self._versions.get(first.policy_id)
        if shelved is None:
            return self._refuse(batch, PolicyProblem("the policy server does not hold this version (any more)"))
        self._versions.move_to_end(first.policy_id)
        begun = [question for question in batch if self._begun(shelved, question)]
        known = [question for question in begun if self._known(shelved, question)]
        if known:
            self._call(shelved, known)
        return None

    def _begun(self, shelved: _Shelved, question: _Question) -> bool:
        """Give every episode of a question its own lane of the policy; False when it is refused."""
        try:
            for lane, seed in question.begins:
                shelved.policy.begin(shelved.slot(question.client, lane), seed)
        except FOREIGN_FAULTS as problem:
            self._refuse([question], PolicyProblem(f"{type(problem).__name__}: {problem}"[:500]))
            return False
        return True

    def _known(self, shelved: _Shelved, question: _Question) -> bool:
        """Whether the policy has begun all the episodes of a question; False when it is refused."""
        if all((question.client, lane) in shelved.slots for lane in question.lanes):
            return True
        self._refuse([question], PolicyProblem("the policy server was started anew during the episode"))
        return False

    def _call(self, shelved: _Shelved, batch: Sequence[_Question]) -> None:
        lanes = np.asarray(
            [shelved.slots[question.client, lane] for question in batch for lane in question.lanes], np.int64
        )
        self.calls += 1
        try:
            answer = np.asarray(_asked(shelved.policy, batch, lanes), np.float32)
            if len(answer) != len(lanes):
                raise PolicyProblem(f"it answered {len(answer)} rows to {len(lanes)}")
        except FOREIGN_FAULTS as problem:
            return self._refuse(batch, PolicyProblem(f"{type(problem).__name__}: {problem}"[:500]))
        at = 0
        for question in batch:
            rows = answer[at : at + len(question.lanes)]
            at += len(question.lanes)
            self._answer(question.peer, question.sequence, {"error": "", "answer": array_out(rows)})
        self.answered += len(batch)
        return None

    def _refuse(self, batch: Sequence[_Question], problem: EnpireError) -> None:
        for question in batch:
            self._answer(question.peer, question.sequence, error_out(problem))

    def _answer(self, peer: bytes, sequence: int, message: Message) -> None:
        with suppress(zmq.Again):  # whoever asked is gone, or reads nothing: it will say that no answer came
            self._router.send_multipart([peer, encode({**message, "sequence": sequence})], zmq.NOBLOCK)


def _question(peer: bytes, sequence: int, verb: str, policy_id: str, message: Fields) -> _Question:
    """A question, read; TransportProblem for what does not fit together."""
    lanes, observation = message.wholes("lanes"), observation_in(Fields(message.get("observation"), "The observation"))
    seen = [observation.state, *observation.images.values()]
    if [item.ndim for item in seen] != [2, *[4] * len(observation.images)]:
        raise message.refuse("observation", "a state (n, state_dim) and pictures (n, height, width, 3)")
    if not lanes or len(set(lanes)) != len(lanes) or any(len(item) != len(lanes) for item in seen):
        raise message.refuse("lanes", f"{len(observation.state)} different lanes, one for each row of the observation")
    begins: list[tuple[int, int]] = []
    for item in message.items("begins"):
        pair = Fields({"begin": item}, "An episode that begins").wholes("begin")
        if len(pair) != 2:
            raise message.refuse("begins", "pairs of a lane and a seed")
        begins.append((pair[0], pair[1]))
    along = verb == "act_along"
    left = floats_in(message, "left") if along else None
    if left is not None and (left.ndim != 3 or len(left) != len(lanes)):
        raise message.refuse("left", f"({len(lanes)}, any, action_dim)")
    return _Question(
        peer=peer, sequence=sequence, verb=verb, policy_id=policy_id, client=message.identifier("client"), lanes=lanes,
        begins=begins, observation=observation, left=left, delay=message.whole("delay") if along else 0,
    )  # fmt: skip


def _asked(policy: Policy, batch: Sequence[_Question], lanes: IntArray) -> FloatArray:
    """One call for all the rows of a batch."""
    rows = _together([question.observation for question in batch])
    verb = batch[0].verb
    if verb == "act":
        return policy.act(rows, lanes)
    if verb == "act_along" and isinstance(policy, Continues):
        left = [cast("FloatArray", question.left) for question in batch]
        widest = max(item.shape[1] for item in left)
        padded = [
            np.pad(item, ((0, 0), (0, widest - item.shape[1]), (0, 0)), constant_values=np.nan) for item in left
        ]  # nan behind the end, as everywhere
        return policy.act_along(rows, lanes, np.concatenate(padded), batch[0].delay)
    raise PolicyProblem(f"this version has no {verb}")


def _together(observations: Sequence[Observation]) -> Observation:
    """One observation with the rows of several."""
    first = observations[0]
    images = {camera: np.concatenate([item.images[camera] for item in observations]) for camera in first.images}
    state = np.concatenate([item.state for item in observations])
    return Observation(stamp_ns=first.stamp_ns, state=state, images=images)
