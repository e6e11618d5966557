"""The price file: which price holds for which call."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from agent_loop.model_gateway.prices import Price, Prices, read_prices
from agent_loop.model_gateway.usage import Usage
from enpire.errors import FileProblem

PRICE = Price(
    provider="anthropic", models=("big", "big-*"), since="2026-01-01", source="a page", fresh=3.0, output=15.0,
    cache_read=0.3, cache_write=3.75,
)  # fmt: skip
USAGE = Usage(fresh=1_000_000, cache_read=1_000_000, cache_write=1_000_000, output=1_000_000, complete=True)


def test_the_newest_price_of_the_day_holds() -> None:
    later = replace(PRICE, since="2026-06-01", fresh=2.0)
    over = replace(PRICE, since="2026-07-01", until="2026-07-31", fresh=1.0)
    prices = Prices(prices=(later, PRICE, over))
    for day, fresh in (("2026-05-31", 3.0), ("2026-06-01", 2.0), ("2026-07-31", 1.0), ("2026-08-01", 2.0)):
        found = prices.find("anthropic", ("big",), day)
        assert found is not None
        assert found.fresh == fresh
    assert prices.find("anthropic", ("big",), "2025-12-31") is None
    assert prices.find("openai", ("big",), "2026-08-01") is None
    assert prices.find("anthropic", ("bigger",), "2026-08-01") is None
    assert prices.find("anthropic", ("unknown", "big-20260101"), "2026-08-01") is later


def test_a_cost_is_the_sum_of_its_parts_and_unknown_where_the_price_does_not_reach() -> None:
    assert PRICE.of(USAGE) == pytest.approx(3.0 + 15.0 + 0.3 + 3.75)
    hour = replace(USAGE, cache_write_1h=500_000)
    assert PRICE.of(hour) is None
    assert replace(PRICE, cache_write_1h=6.0).of(hour) == pytest.approx(3.0 + 15.0 + 0.3 + 3.75 / 2 + 6.0 / 2)
    assert PRICE.of(replace(USAGE, ordinary=False)) is None
    assert replace(PRICE, longest_input=2_999_999).of(USAGE) is None
    assert replace(PRICE, longest_input=3_000_000).of(USAGE) == PRICE.of(USAGE)


def test_the_most_that_a_call_can_cost_is_never_below_its_cost() -> None:
    for price in (PRICE, replace(PRICE, cache_write_1h=6.0), replace(PRICE, cache_read=9.0)):
        for usage in (USAGE, replace(USAGE, fresh=0), replace(USAGE, cache_write=0), replace(USAGE, cache_read=0)):
            cost, bound = price.of(usage), price.at_most(usage.input, usage.output)
            assert cost is not None
            assert bound is not None
            assert bound >= cost
    assert replace(PRICE, longest_input=10).at_most(11, 1) is None


def test_a_home_has_its_own_prices_and_mistakes_are_named(tmp_path: Path) -> None:
    shipped, path = read_prices(tmp_path)
    assert (shipped.prices, path.name) == ((), "prices.yaml")
    own = tmp_path / "prices.yaml"
    entry = {
        "provider": "anthropic", "models": ["big"], "since": "2026-01-01", "source": "a page", "fresh": 3,
        "output": 15, "cache_read": 0.3, "cache_write": 3.75,
    }  # fmt: skip
    own.write_text(yaml.safe_dump({"currency": "EUR", "prices": [entry]}))
    assert read_prices(tmp_path)[0].currency == "EUR"
    for change, sentence in (
        ({"since": "soon"}, "soon"), ({"source": " "}, "a `source`"), ({"fresh": -1}, "at least 0"),
        ({"per": 1}, "unknown key 'per'"), ({"since": ""}, "needs `since`"),
    ):  # fmt: skip
        own.write_text(yaml.safe_dump({"prices": [{**entry, **change}]}))
        with pytest.raises(FileProblem, match=sentence):
            read_prices(tmp_path)
