"""Providers of language models: where each is reached, and which environment variables hold its address and its key."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from enpire.errors import UnknownName, UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """One provider. The variables are those that its own clients read."""

    name: str
    style: Literal["anthropic", "openai"]
    """How it is spoken to: Messages API; or Chat Completions and Responses API."""
    address_variable: str
    default_address: str
    """Without the version `v1` for the style anthropic, with it for openai, as their clients expect."""
    key_variable: str
    bearer_variable: str = ""
    """Variable of a token that is sent as bearer token instead of the key."""

    @property
    def address(self) -> str:
        """Where it is reached."""
        return (os.environ.get(self.address_variable) or self.default_address).rstrip("/")

    @property
    def variables(self) -> tuple[str, ...]:
        """Variables that hold its credentials."""
        return tuple(filter(None, (self.key_variable, self.bearer_variable)))

    @property
    def ready(self) -> bool:
        """Whether there is a key, or an address of a server of one's own, which may need none."""
        return any(os.environ.get(name) for name in (*self.variables, self.address_variable))


PROVIDERS: Mapping[str, Provider] = {
    provider.name: provider
    for provider in (
        Provider(
            name="anthropic", style="anthropic", address_variable="ANTHROPIC_BASE_URL",
            default_address="https://api.anthropic.com", key_variable="ANTHROPIC_API_KEY",
            bearer_variable="ANTHROPIC_AUTH_TOKEN",
        ),
        Provider(
            name="openai", style="openai", address_variable="OPENAI_BASE_URL",
            default_address="https://api.openai.com/v1", key_variable="OPENAI_API_KEY",
        ),
        Provider(
            name="moonshot", style="openai", address_variable="MOONSHOT_BASE_URL",
            default_address="https://api.moonshot.ai/v1", key_variable="MOONSHOT_API_KEY",
        ),
    )
}  # fmt: skip
"""name -> provider."""
KEY_VARIABLES = tuple(name for provider in PROVIDERS.values() for name in provider.variables)
"""Every variable with a provider's credentials. Only the model gateway gets them."""


def find_provider(name: str) -> Provider:
    """The provider of a name.

    Raises:
        UnknownName: there is none.
    """
    if name not in PROVIDERS:
        raise UnknownName(f"There is no provider of models called {name[:80]!r}; there are: {', '.join(PROVIDERS)}.")
    return PROVIDERS[name]


def require_ready(names: Iterable[str], agent: str) -> None:
    """Check that each provider of an agent has a key.

    Raises:
        UsageError: one has none; the sentence names the variable.
    """
    for provider in map(find_provider, names):
        if not provider.ready:
            raise UsageError(
                f"The agent {agent} needs a key of the provider {provider.name}: set {provider.key_variable} for "
                "`enpire run`, or use the agent search, which needs none."
            )
