"""Which variables of the environment are credentials: a child process gets those that are its own, and no others.

A key that was set for one agent is nothing that a station, a learner or another agent should be able to read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

ENDINGS = (
    "KEY", "KEYS", "TOKEN", "TOKENS", "SECRET", "SECRETS", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIALS",
    "AUTH_SOCK",
)  # fmt: skip
"""Ends of names that say so, in upper case."""


def without_credentials(environment: Mapping[str, str], own: Collection[str] = ()) -> dict[str, str]:
    """The environment without credentials, but for the process's `own`."""
    return {name: value for name, value in environment.items() if name in own or not is_credential(name)}


def is_credential(name: str) -> bool:
    """Whether a variable's name says that it holds a credential, such as ANTHROPIC_API_KEY."""
    return name.upper().endswith(ENDINGS)
