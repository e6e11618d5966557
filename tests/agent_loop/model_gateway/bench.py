"""One home, a scripted provider and a gateway, for tests of the model gateway."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import yaml

from agent_loop.model_gateway.gateway import Gateway
from enpire.campaign.agent_events import ModelCalled
from enpire.requests.model_calls import CallRecords
from enpire.requests.model_leases import ModelLease, ModelLeases, ModelLimits
from tests.agent_loop.model_gateway.scripted_provider import Script
from tests.fakes.event_loops import run_async
from tests.fakes.sample_campaign import CAMPAIGN

KEY = "the provider's own key"
QUESTION: Mapping[str, Any] = {
    "model": "a-model",
    "max_tokens": 100,
    "messages": [{"role": "user", "content": "Well?"}],
}
COUNT = {"input_tokens": 20, "cache_creation_input_tokens": 80, "cache_read_input_tokens": 400, "output_tokens": 50}
LEASE = ModelLease(
    campaign_id=CAMPAIGN, author="anthropic", lane="one", providers=("anthropic", "openai", "moonshot"),
    own=ModelLimits(), shared=ModelLimits(),
)  # fmt: skip
PRICE = {
    "provider": "anthropic", "models": ["a-model*"], "since": "2020-01-01", "source": "the test", "fresh": 3.0,
    "output": 15.0, "cache_read": 0.3, "cache_write": 3.75,
}  # fmt: skip
Talk = Callable[["Line"], Awaitable[None]]


@dataclass
class Line:
    """An agent's connection to a gateway."""

    client: httpx.AsyncClient
    gateway: Gateway
    token: str

    async def ask(self, path: str = "/v1/messages", key: object = "", **changes: object) -> httpx.Response:
        headers = {"authorization": f"Bearer {self.token}", **({"idempotency-key": str(key)} if key else {})}
        body = json.dumps({**QUESTION, **changes})  # escapes, so that half of a character is one, too
        return await self.client.post(path, content=body, headers=headers | {"content-type": "application/json"})


@dataclass
class Bench:
    """One home, a scripted provider, and a gateway for each talk."""

    home: Path
    script: Script = field(default_factory=lambda: Script(answers=[]))

    def talk(self, talk: Talk, lease: ModelLease = LEASE, token: str = "") -> None:
        """Have a talk over a gateway of its own, with a new lease or with that of an earlier talk."""

        async def run() -> None:
            gateway = Gateway(self.home, lambda line: None)
            transport = httpx.ASGITransport(app=gateway.app())
            async with httpx.AsyncClient(transport=transport, base_url="http://gateway", timeout=60) as client:
                await talk(Line(client, gateway, token or ModelLeases(self.home).grant(lease)))
            await gateway.close()

        run_async(run)

    def prices(self, *prices: Mapping[str, object]) -> None:
        (self.home / "prices.yaml").write_text(yaml.safe_dump({"currency": "USD", "prices": list(prices)}))

    @property
    def calls(self) -> list[ModelCalled]:
        return CallRecords.of(self.home, CAMPAIGN).ended()
