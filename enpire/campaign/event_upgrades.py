"""Converts event bodies of older versions of ENPIRE to the present form: one function per kind.

An upgrade takes a body of any version and leaves a body of the present version unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from enpire.types import Json

type Body = dict[str, Json]


def _campaign_started(body: Body) -> Body:
    """1 -> 2: adds the digest of the verifier."""
    return {"verifier": "", **body}


def _campaign_resumed(body: Body) -> Body:
    """1 -> 2: adds the reason why the previous session was cut off."""
    return {"after": "", **body}


def _campaign_paused(body: Body) -> Body:
    """1 -> 2: adds the reason."""
    return {"why": "", **body}


def _episode_refused(body: Body) -> Body:
    """1 -> 2: adds the outcome of the episode."""
    return {"outcome": "", **body}


def _command(body: Body) -> Body:
    """1 -> 2: renames `station` to `target`, because a target may also be a version or an episode."""
    if "target" in body:
        return body
    return {("target" if key == "station" else key): value for key, value in body.items()}


def _learner_ended(body: Body) -> Body:
    """1 -> 2: adds the duration."""
    return {"seconds": 0.0, **body}


def _agent_started(body: Body) -> Body:
    """1 -> 2: adds the sandbox."""
    return {"sandbox": "", **body}


UPGRADES: Mapping[str, Callable[[Body], Body]] = {
    "campaign started": _campaign_started,
    "campaign resumed": _campaign_resumed,
    "campaign paused": _campaign_paused,
    "episode refused": _episode_refused,
    "command requested": _command,
    "command accepted": _command,
    "command refused": _command,
    "command effective": _command,
    "learner ended": _learner_ended,
    "agent started": _agent_started,
}
"""Kind -> its upgrade. A kind that is not listed has only ever had one form."""
