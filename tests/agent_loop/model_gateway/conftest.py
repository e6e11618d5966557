"""The bench of the model gateway's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent_loop.model_gateway.bench import KEY, Bench
from tests.agent_loop.model_gateway.scripted_provider import serving
from tests.fakes.sample_campaign import record_campaign


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    record_campaign(tmp_path).flush()
    bench = Bench(tmp_path)
    with serving(bench.script) as address:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", address)
        monkeypatch.setenv("OPENAI_BASE_URL", f"{address}/v1")
        monkeypatch.setenv("MOONSHOT_BASE_URL", f"{address}/moon/v1")
        for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "MOONSHOT_API_KEY"):
            monkeypatch.setenv(name, KEY)
        yield bench
