"""Which environment variables a child process gets: no credentials but its own; in an agent's room only a few.

No station, learner or other agent can then read a key that was set for one agent.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

ENDINGS = (
    "KEY", "KEYS", "TOKEN", "TOKENS", "SECRET", "SECRETS", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIALS",
    "AUTH_SOCK",
)  # fmt: skip
"""Endings of the names of credentials, in upper case."""

ALLOWED = ("LANG", "LANGUAGE", "TZ", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "PYTHONHASHSEED")
"""Variables that pass into the room of an agent, with those that begin with LC_."""


def only_allowed(environment: Mapping[str, str], own: Collection[str] = ()) -> dict[str, str]:
    """The variables that the room of an agent gets: language, time zone, threads, and the agent's `own`."""
    return {
        name: value for name, value in environment.items() if name in own or name in ALLOWED or name.startswith("LC_")
    }


def without_credentials(environment: Mapping[str, str], own: Collection[str] = ()) -> dict[str, str]:
    """The environment without credentials, except the process's `own`."""
    return {name: value for name, value in environment.items() if name in own or not is_credential(name)}


def is_credential(name: str) -> bool:
    """Whether a variable is a credential by its name, such as ANTHROPIC_API_KEY."""
    return name.upper().endswith(ENDINGS)
