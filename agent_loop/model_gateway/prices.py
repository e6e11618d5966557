"""Prices of language models, from the lab's price file. A call without a dated price there has an unknown cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from fnmatch import fnmatchcase
from pathlib import Path

from agent_loop.model_gateway.usage import Usage
from enpire.errors import FileProblem
from enpire.files import configs_root, parse, read_yaml

FILE = "prices.yaml"
"""In the home; else the shipped one in configs."""
MILLION = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What some models of one provider cost from one day on, for a million tokens."""

    provider: str
    models: tuple[str, ...]
    """Names of models as the provider spells them; `*` stands for any ending."""
    since: str
    """First day, as YYYY-MM-DD in UTC."""
    source: str
    """Where the price stands, and when it was read there."""
    fresh: float
    output: float
    cache_read: float
    cache_write: float
    """Also for what stays in the cache for five minutes."""
    cache_write_1h: float | None = None
    """For what stays in the cache for an hour; None: unknown."""
    until: str = ""
    """Last day; empty: no end is known."""
    longest_input: int = 0
    """Input tokens of a call beyond which other prices hold; 0: none do."""

    def __post_init__(self) -> None:
        """Refuse days that are none, prices below zero, and a price without a source."""
        for day in filter(None, (self.since, self.until)):
            date.fromisoformat(day)
        amounts = (self.fresh, self.output, self.cache_read, self.cache_write, self.cache_write_1h or 0.0)
        if min(amounts) < 0 or not self.source.strip() or not self.since:
            raise ValueError("a price needs `since`, a `source`, and amounts of at least 0.")

    @property
    def name(self) -> str:
        """The entry, as events name it."""
        return f"{', '.join(self.models)} since {self.since}: {self.source}"

    def holds(self, provider: str, model: str, day: str) -> bool:
        """Whether it is the price of a model on a day."""
        named = any(fnmatchcase(model, pattern) for pattern in self.models)
        return named and self.provider == provider and self.since <= day and (not self.until or day <= self.until)

    def of(self, usage: Usage) -> float | None:
        """Cost of a call with a complete count; None where this price does not cover it."""
        hour = self.cache_write_1h if usage.cache_write_1h else 0.0
        long = bool(self.longest_input) and usage.input > self.longest_input
        if hour is None or long or not usage.ordinary:
            return None
        parts = (
            (usage.fresh, self.fresh), (usage.cache_read, self.cache_read), (usage.output, self.output),
            (usage.cache_write - usage.cache_write_1h, self.cache_write), (usage.cache_write_1h, hour),
        )  # fmt: skip
        return sum(tokens * price for tokens, price in parts) / MILLION

    def at_most(self, read: int, answered: int) -> float | None:
        """Most that a call with at most so many input and output tokens can cost; None: not known."""
        if self.longest_input and read > self.longest_input:
            return None
        dearest = max(self.fresh, self.cache_read, self.cache_write, self.cache_write_1h or 0.0)
        return (read * dearest + answered * self.output) / MILLION


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """The price file."""

    currency: str = "USD"
    prices: tuple[Price, ...] = field(default=())

    def find(self, provider: str, models: Sequence[str], day: str = "") -> Price | None:
        """The newest price of the first of these names that has one, today or on another day."""
        day = day or datetime.now(UTC).date().isoformat()
        for model in models:
            held = [price for price in self.prices if price.holds(provider, model, day)]
            if held:
                return max(held, key=lambda price: price.since)
        return None


def read_prices(home: Path) -> tuple[Prices, Path]:
    """The prices of a lab, and the file that holds them: prices.yaml of the home, else the shipped one.

    Raises:
        FileProblem: the file is wrong; the sentence names the key.
    """
    own = home / FILE
    path = own if own.exists() else configs_root() / FILE
    if not path.exists():
        raise FileProblem(f"The price file {path} is missing; write one, or install ENPIRE again.")
    return parse(Prices, read_yaml(path), f"The price file {path}"), path
