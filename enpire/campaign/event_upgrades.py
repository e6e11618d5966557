"""Bodies of events that older versions of ENPIRE wrote, as the present version would write them: one function per kind.

An upgrade sees the body of any older version, and of the present one, which it leaves as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from enpire.types import Json

type Body = dict[str, Json]


def _campaign_started(body: Body) -> Body:
    """1 -> 2: the digest of the verifier."""
    return {"verifier": "", **body}


def _campaign_resumed(body: Body) -> Body:
    """1 -> 2: why the session before it was cut off."""
    return {"after": "", **body}


def _campaign_paused(body: Body) -> Body:
    """1 -> 2: why."""
    return {"why": "", **body}


def _episode_refused(body: Body) -> Body:
    """1 -> 2: the outcome of the episode."""
    return {"outcome": "", **body}


def _command(body: Body) -> Body:
    """1 -> 2: the target stood under `station`, whatever it was."""
    if "target" in body:
        return body
    return {("target" if key == "station" else key): value for key, value in body.items()}


def _learner_ended(body: Body) -> Body:
    """1 -> 2: how long it took."""
    return {"seconds": 0.0, **body}


def _agent_started(body: Body) -> Body:
    """1 -> 2: the sandbox."""
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
"""Kind -> what brings its older bodies to the present form. Kinds that are not here have had one form only."""
