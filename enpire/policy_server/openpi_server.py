"""`enpire policy serve --openpi`: one version behind openpi's WebSocket policy protocol, for openpi's clients.

A connection is one episode, until an observation has the key `enpire/seed`: it begins the next one, with this seed.
Clients on other machines need the server's API key; the connection is not encrypted, so use a trusted network or a
proxy with TLS.
"""

from __future__ import annotations

import hmac
import http
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from enpire.errors import EnpireError, PolicyProblem, TransportProblem
from enpire.interfaces import DeclaresImages, Policy
from enpire.log_lines import print_line
from enpire.policy_calls import NOT_FINITE, PLUGIN_ERRORS, call_policy, described, policy_seed
from enpire.policy_server.openpi_policy import IMAGE, OURS, PROMPT, STATE
from enpire.types import FloatArray, ImageArray, Observation, TaskSpec
from enpire.wire.openpi_messages import LARGEST, Content, array_of, pack, unpack

SEED = "enpire/seed"
MOST_CLIENTS = 64
"""Most connections at a time; each is a lane of the policy."""
_INTERNAL_ERROR = 1011


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedPolicy:
    """What is served."""

    policy: Policy
    policy_id: str
    spec: TaskSpec
    key: str = ""
    """API key that clients must send; empty: none."""


class OpenpiServer:
    """A WebSocket server with one thread for each client; the policy runs one call at a time.

    Args:
        served: the policy.
        host: where it listens.
        port: 0 takes a free one.
        say: prints one line about an event.

    Raises:
        TransportProblem: it cannot listen there.
    """

    def __init__(self, served: ServedPolicy, host: str, port: int, say: Callable[[str], None] = print_line) -> None:
        from websockets.sync.server import serve

        self._served, self._say = served, say
        self._policy_lock, self._lanes_lock = threading.Lock(), threading.Lock()
        self._free = list(range(MOST_CLIENTS))[::-1]
        self._episodes = 0
        self.answered = 0
        """Observations that were answered."""
        try:
            self._server: Any = serve(
                self._client, host, port, process_request=self._admit, compression=None, max_size=LARGEST,
                ping_interval=None, close_timeout=1.0, origins=[None],  # no web page may ask
            )  # fmt: skip
        except OSError as problem:
            raise TransportProblem(f"Cannot listen at {host}:{port} ({problem}); choose another one.") from problem
        found = self._server.socket.getsockname()
        self.address = f"ws://{f'[{host}]' if ':' in host else host}:{found[1]}"

    def run(self) -> None:
        """Serve until `close` is called in another thread."""
        self._server.serve_forever()

    def close(self) -> None:
        """End `run`. Allowed twice, from any thread."""
        self._server.shutdown()

    def metadata(self) -> Content:
        """What a client gets first: how this policy is called."""
        policy, spec = self._served.policy, self._served.spec
        about = {
            "policy_id": self._served.policy_id, "task": spec.name, "state": [one.name for one in spec.state],
            "action": [one.name for one in spec.action], "horizon": policy.horizon, "execute": policy.execute,
            "images": self._image_keys(), "rate_hz": spec.rate_hz,
        }  # fmt: skip
        return {OURS: about}

    def _image_keys(self) -> dict[str, str]:
        """Camera -> key of its image in an observation."""
        policy, cameras = self._served.policy, self._served.spec.cameras
        return {
            camera: f"{IMAGE}{camera}"
            for camera in cameras
            if isinstance(policy, DeclaresImages) and policy.needs_images
        }

    def _admit(self, connection: Any, request: Any) -> Any:
        if request.path == "/healthz":
            return connection.respond(http.HTTPStatus.OK, "OK\n")
        sent = request.headers.get_all("Authorization")
        wanted = f"Api-Key {self._served.key}".encode()
        if self._served.key and not (len(sent) == 1 and hmac.compare_digest(sent[0].encode(), wanted)):
            return connection.respond(http.HTTPStatus.UNAUTHORIZED, "The API key is missing or wrong.\n")
        return None

    def _client(self, connection: Any) -> None:
        from websockets.exceptions import ConnectionClosed

        with self._lanes_lock:
            lane = self._free.pop() if self._free else -1
        try:
            if lane < 0:
                connection.send(f"{MOST_CLIENTS} clients are connected already; close one.")
                connection.close(_INTERNAL_ERROR, "too many clients")
                return
            self._begin(lane, None)
            connection.send(pack(self.metadata()))
            for frame in connection:
                connection.send(pack(self._answer(lane, frame)))
        except ConnectionClosed:
            pass
        except PLUGIN_ERRORS as problem:
            why = str(problem) if isinstance(problem, EnpireError) else described(problem)
            self._say(f"a client was refused: {why}")
            connection.send(why)
            connection.close(_INTERNAL_ERROR, "see the text before")
        finally:
            if lane >= 0:
                with self._lanes_lock:
                    self._free.append(lane)

    def _begin(self, lane: int, seed: int | None) -> None:
        with self._policy_lock:
            self._episodes += 1
            self._served.policy.begin(lane, policy_seed(self._episodes) if seed is None else seed)

    def _answer(self, lane: int, frame: bytes | str) -> Content:
        if isinstance(frame, str):
            raise TransportProblem("A client sent a text; an observation is a msgpack map in a binary message.")
        content = unpack(frame)
        state, images = self._state(content), self._images(content)
        if SEED in content:
            seed: object = content[SEED]
            if not isinstance(seed, int) or not 0 <= seed < 2**63:
                raise TransportProblem(f"The key {SEED!r} must be a whole number of at least 0 and below 2**63.")
            self._begin(lane, seed)
        began_s = time.monotonic()
        policy, spec = self._served.policy, self._served.spec
        seen = Observation(stamp_ns=time.monotonic_ns(), state=state[None], images=images)
        wanted = (1, policy.horizon, spec.action_dim)
        with self._policy_lock:
            chunks = call_policy(lambda: policy.act(seen, np.array([lane], np.int64)), wanted)
            self.answered += 1
        if isinstance(chunks, str) or not np.isfinite(chunks).all():
            raise PolicyProblem(chunks if isinstance(chunks, str) else NOT_FINITE)
        return {"actions": chunks[0], "server_timing": {"infer_ms": 1000 * (time.monotonic() - began_s)}}

    def _state(self, content: Content) -> FloatArray:
        state, names = array_of(content, STATE), [one.name for one in self._served.spec.state]
        if state is None or state.shape != (len(names),) or not np.isfinite(state).all():
            found = "nothing" if state is None else state.shape
            raise TransportProblem(
                f"An observation needs {STATE!r}: {len(names)} finite numbers ({', '.join(names)[:200]}), not {found}. "
                f"{PROMPT!r} and other keys are not used."
            )
        return state.astype(np.float32)

    def _images(self, content: Content) -> dict[str, ImageArray]:
        found: dict[str, ImageArray] = {}
        for camera, key in self._image_keys().items():
            image = array_of(content, key)
            if image is None or image.dtype != np.uint8 or image.shape[2:] != (3,):
                raise TransportProblem(f"An observation needs {key!r}: an image (height, width, 3) of uint8, RGB.")
            found[camera] = image[None]
        return found
