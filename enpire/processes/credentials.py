"""Which environment variables are credentials. A child process gets only its own.

No station, learner or other agent can then read a key that was set for one agent.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

ENDINGS = (
    "KEY", "KEYS", "TOKEN", "TOKENS", "SECRET", "SECRETS", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIALS",
    "AUTH_SOCK",
)  # fmt: skip
"""Endings of the names of credentials, in upper case."""


def without_credentials(environment: Mapping[str, str], own: Collection[str] = ()) -> dict[str, str]:
    """The environment without credentials, except the process's `own`."""
    return {name: value for name, value in environment.items() if name in own or not is_credential(name)}


def is_credential(name: str) -> bool:
    """Whether a variable is a credential by its name, such as ANTHROPIC_API_KEY."""
    return name.upper().endswith(ENDINGS)
