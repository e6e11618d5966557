"""How versions fail on train starts, for briefs: clusters of failures, each with an example and its last camera image.

Nothing here is of hidden starts, or of work that the session must not see.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping
from typing import cast

from agent_loop.lab_client import LabClient
from enpire.errors import FileProblem, MissingExtra
from enpire.ids import file_name
from enpire.service.failures import FailureCluster, clusters_on_train_starts
from enpire.service.reading import Records
from enpire.service.recordings import jpeg, media_type, opened, shown

MOST_CLUSTERS = 3
"""Most clusters of one version, the largest."""
LARGEST_KEY_FRAME = 200_000
"""Bytes of one camera image; a larger one is shrunk."""
SHRUNK_SIDE = 400
"""Most pixels of a side of an image that was shrunk."""
LONGEST_HOW = 200
"""Characters of the description of a cluster."""


def failure_clusters(
    records: Records, campaign_id: str, policy_id: str, task: str, hides: Callable[[str, str], bool]
) -> list[dict[str, object]]:
    """The largest clusters of a version's failures on train starts; empty without recordings."""
    found = clusters_on_train_starts(records, campaign_id, policy_id, task, hides) if policy_id else ()
    return [
        {"n": one.n, "share": round(one.share, 2), "how": _how(one)[:LONGEST_HOW], "example": one.example}
        for one in found[:MOST_CLUSTERS]
    ]


def key_frame(client: LabClient, episode_id: str) -> dict[str, str] | None:
    """The last camera image of an episode of the campaign; None without one that can be read."""
    campaigns = client.home / "episodes"
    try:
        folder = campaigns / file_name(client.sender.campaign_id, "a campaign") / file_name(episode_id, "an episode")
        found = shown(folder)
        if found is None or not found.names:
            return None
        name = found.names[-1]
        data, kind = found.bytes_of(name), media_type(name)
        if len(data) > LARGEST_KEY_FRAME:
            data, kind = _shrunk(data), "image/jpeg"
    except (FileProblem, MissingExtra, OSError):  # damaged: `ledger verify` reports it
        return None
    return {"name": f"{episode_id}/{name}", "media_type": kind, "base64": base64.b64encode(data).decode("ascii")}


def _shrunk(data: bytes) -> bytes:
    """A JPEG with every n-th pixel of an image."""
    image = opened(data)
    step = math.ceil(max(image.shape[:2]) / SHRUNK_SIDE)
    return jpeg(image[::step, ::step])


def key_frames(client: LabClient, brief: Mapping[str, object]) -> list[dict[str, str]]:
    """The camera images that a brief names: of the champion's clusters, then of past experiments."""
    clusters = list(cast("list[Mapping[str, object]]", brief["failure_clusters"]))
    for past in cast("list[Mapping[str, object]]", brief["past_experiments"]):
        clusters += cast("list[Mapping[str, object]]", past.get("failures", []))
    found = (key_frame(client, str(one["example"])) for one in clusters if "key_frame" in one)
    return [image for image in found if image is not None]


def _how(one: FailureCluster) -> str:
    return ": ".join(part for part in (one.cause, one.what) if part) or f"ended as {one.outcome}"
