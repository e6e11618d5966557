"""A version whose inference runs at an openpi server: openpi's own, vLLM's, or `enpire policy serve --openpi`.

The version is a file policy.json that says where the server is and how our observations become its own. The server
takes no seed, so the actions cannot be repeated (`enpire.interfaces.Unrepeatable`). Where the server describes itself,
a hash of its metadata in the version finds that it now serves another policy; weights that change under the same
metadata are not found.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np

from enpire.errors import FileProblem, MissingExtra, PolicyProblem, TransportProblem
from enpire.files import canonical, is_mapping, parse
from enpire.policy_server.openpi_link import OpenpiLink, require_address
from enpire.store.versions import MANIFEST
from enpire.types import FloatArray, ImageArray, IntArray, Observation, TaskSpec
from enpire.wire.openpi_messages import Content, Value, array_of

KIND = "openpi"
OURS = "enpire"
"""Key of the metadata in which our own server says how it is called."""
STATE, PROMPT = "observation/state", "prompt"
IMAGE = "observation/image/"
"""Before the name of a camera, at our own server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenpiVersion:
    """The contents of policy.json."""

    kind: Literal["openpi"] = "openpi"
    address: str
    """ws://HOST:PORT or wss://HOST:PORT."""
    prompt: str
    """The task in words."""
    prompt_key: str = PROMPT
    states: Mapping[str, tuple[int, ...]]
    """Key of the server -> (first, end): which numbers of our state it gets. A dot in a key makes a map in a map."""
    images: Mapping[str, str] = field(default_factory=dict[str, str])
    """Camera -> key of the server; empty for a policy that needs no images."""
    image_px: int = 224
    """Height and width of the images that are sent: scaled, with black borders. 0: as recorded."""
    channels_first: bool = False
    """Whether images are sent as (3, height, width), as openpi's ALOHA policies need it."""
    action_dim: int
    """Numbers of our action: the first ones of each action of the server."""
    horizon: int
    execute: int
    deadline_s: float = 2.0
    """Longest time of one call for all lanes, in seconds."""
    metadata_hash: str = ""
    """sha256 of the metadata that the server sent; empty accepts any."""

    def __post_init__(self) -> None:
        if not 1 <= self.execute <= self.horizon or self.action_dim < 1:
            raise ValueError(f"it must execute at least 1 and at most {self.horizon} actions, not {self.execute}")
        if not 0 < self.deadline_s <= 60 or not 0 <= self.image_px <= 2048:
            raise ValueError("deadline_s must be in (0, 60] and image_px in [0, 2048]")
        if not self.states or any(len(part) != 2 or not 0 <= part[0] < part[1] for part in self.states.values()):
            raise ValueError("states must give a first and an end for each key, such as [0, 7]")


class OpenpiPolicy:
    """The loaded policy. A failure ends the episodes that wait for it; the next episode connects again."""

    unrepeatable = True

    def __init__(self, version: OpenpiVersion) -> None:
        """Connect.

        Raises:
            PeerSilent: the server does not answer.
            PolicyProblem: it describes another policy.
        """
        self.horizon, self.execute = version.horizon, version.execute
        self.needs_images = bool(version.images)
        self._version = version
        self._link = OpenpiLink(version.address, version.metadata_hash)
        self._link.open()

    @property
    def lost(self) -> bool:
        """Whether the connection must be made again before the next episode begins."""
        return not self._link.connected

    def begin(self, lane: int, seed: int) -> None:
        """Begin an episode. The server keeps no history of an episode and takes no seed."""

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        """Action chunks, float32 (len(lanes), horizon, action_dim), one request for each lane within one deadline.

        Raises:
            PolicyProblem: the server failed, was late, or returned another number of actions.
        """
        until_s = time.monotonic() + self._version.deadline_s
        try:
            return np.stack([self._of_row(observation, row, until_s) for row in range(len(lanes))])
        except TransportProblem as problem:
            raise PolicyProblem(str(problem)) from problem

    def close(self) -> None:
        """Close the connection. Allowed twice."""
        self._link.close()

    def _of_row(self, observation: Observation, row: int, until_s: float) -> FloatArray:
        images = {camera: image[row] for camera, image in observation.images.items()}
        answer = self._link.infer(request_of(self._version, observation.state[row], images), until_s)
        return _chunk(answer, self._version.action_dim, self._version.horizon)


def load(folder: Path) -> OpenpiPolicy:
    """Load a version's folder and connect to its server."""
    path = folder / MANIFEST
    try:
        document: object = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise PolicyProblem(f"{path} cannot be read ({error}); fetch the version again.") from error
    version = parse(OpenpiVersion, document, f"The version {path}")
    require_address(version.address)
    return OpenpiPolicy(version)


def request_of(version: OpenpiVersion, state: FloatArray, images: Mapping[str, ImageArray]) -> Content:
    """The observation as the server wants it.

    Args:
        version: says how.
        state: (state_dim,).
        images: camera -> (height, width, 3), uint8, RGB.

    Raises:
        PolicyProblem: a camera, or a part of the state, is missing.
    """
    made: dict[str, Value] = {version.prompt_key: version.prompt}
    for key, (first, end) in version.states.items():
        if end > len(state):
            raise PolicyProblem(f"The openpi server needs {end} state numbers for {key}; this task has {len(state)}.")
        made[key] = np.ascontiguousarray(state[first:end], np.float32)
    for camera, key in version.images.items():
        if camera not in images:
            raise PolicyProblem(
                f"The openpi server needs images of {camera}; there are: {', '.join(images) or 'none'}."
            )
        image = resized(images[camera], version.image_px) if version.image_px else images[camera]
        made[key] = np.ascontiguousarray(image.transpose(2, 0, 1) if version.channels_first else image)
    return made


def resized(image: ImageArray, size_px: int) -> ImageArray:
    """The image (height, width, 3) scaled into a square (size_px, size_px, 3) with black borders, as openpi does."""
    height, width = image.shape[:2]
    if (height, width) == (size_px, size_px):
        return image
    try:
        from PIL import Image
    except ModuleNotFoundError as error:
        raise MissingExtra("Images need Pillow, which is not installed: pip install 'enpire[sim]'.") from error
    ratio = max(width, height) / size_px
    small = max(1, int(width / ratio)), max(1, int(height / ratio))
    scaled = np.asarray(Image.fromarray(image).resize(small, Image.Resampling.BILINEAR))
    made = np.zeros((size_px, size_px, 3), np.uint8)
    top, left = (size_px - small[1]) // 2, (size_px - small[0]) // 2
    made[top : top + small[1], left : left + small[0]] = scaled
    return made


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenpiChoices:
    """What a person says about a server; what is left out is found by asking it."""

    address: str
    states: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    images: Mapping[str, str] = field(default_factory=dict[str, str])
    prompt_key: str = PROMPT
    image_px: int = 224
    channels_first: bool = False
    execute: int = 0
    """0: the whole chunk."""
    deadline_s: float = 2.0


def connect_version(choices: OpenpiChoices, spec: TaskSpec, size_px: tuple[int, int] = (240, 320)) -> OpenpiVersion:
    """Ask a server for actions in the middle of the state's bounds with black images, and describe it as a version.

    Raises:
        EnpireError: the server does not answer, or its actions do not fit the task.
    """
    link = OpenpiLink(choices.address)
    link.open()
    try:
        ours = link.metadata.get(OURS)
        keys, execute = _of_ours(ours) if is_mapping(ours) else ({}, 0)
        states = choices.states or {STATE: (0, spec.state_dim)}
        asked = _described(
            lambda: OpenpiVersion(
                address=choices.address, prompt=spec.instruction, prompt_key=choices.prompt_key, states=dict(states),
                images=dict(choices.images or keys), channels_first=choices.channels_first, action_dim=spec.action_dim,
                image_px=0 if keys and not choices.images else choices.image_px, deadline_s=choices.deadline_s,
                metadata_hash=link.metadata_hash, horizon=1, execute=1,
            )
        )  # fmt: skip
        middle = np.array([(one.low + one.high) / 2 for one in spec.state], np.float32)
        black = {camera: np.zeros((*size_px, 3), np.uint8) for camera in asked.images}
        answer = link.infer(request_of(asked, np.nan_to_num(middle), black), time.monotonic() + 60.0)
        horizon = len(_chunk(answer, spec.action_dim, 0))
    finally:
        link.close()
    return _described(lambda: replace(asked, horizon=horizon, execute=choices.execute or execute or horizon))


def save(version: OpenpiVersion, folder: Path) -> None:
    """Write policy.json into an existing folder; equal versions give equal bytes."""
    (folder / MANIFEST).write_text(canonical(version) + "\n", encoding="utf-8")


def _described(make: Callable[[], OpenpiVersion]) -> OpenpiVersion:
    try:
        return make()
    except ValueError as problem:
        raise FileProblem(f"This openpi server cannot be a version: {problem}.") from problem


def _of_ours(about: Mapping[object, object]) -> tuple[dict[str, str], int]:
    """(camera -> key, actions sent before the next decision) in the metadata of our own server."""
    images, execute = about.get("images"), about.get("execute")
    keys = {str(camera): str(key) for camera, key in images.items()} if is_mapping(images) else {}
    return keys, execute if isinstance(execute, int) else 0


def _chunk(answer: Content, action_dim: int, horizon: int) -> FloatArray:
    """float32 (horizon, action_dim) of an answer; any positive horizon for 0."""
    actions = array_of(answer, "actions")
    if actions is None or actions.ndim != 2 or (horizon and len(actions) != horizon):
        found = "nothing" if actions is None else actions.shape
        raise PolicyProblem(
            f"The openpi server returned actions of shape {found}, not ({horizon or 'any'}, {action_dim})."
        )
    if actions.shape[1] < action_dim or not len(actions):
        raise PolicyProblem(
            f"The openpi server returned actions of shape {actions.shape}; the task has {action_dim} numbers."
        )
    return actions[:, :action_dim].astype(np.float32)
