"""The page exports the chosen episodes as one dataset, and never one from a hidden start."""

from __future__ import annotations

import io
import json
import zipfile

import pytest

from tests.web_ui.conftest import Site


@pytest.mark.slow
def test_a_selection_is_exported_as_a_dataset(site: Site) -> None:
    client = site.enter("viewer")
    rows = client.get("/api/v1/episodes", params={"purpose": "collect", "round": 2, "limit": 50}).json()["rows"]
    shown = [row["order_id"] for row in rows if row["outcome"] in ("success", "failure")][:3]
    answer = client.post("/api/v1/episodes/export", json={"episodes": shown})
    assert answer.status_code == 200, answer.text
    with zipfile.ZipFile(io.BytesIO(answer.content)) as packed:
        assert json.loads(packed.read("episodes/meta/info.json"))["total_episodes"] == 3


def test_a_hidden_start_or_an_unknown_episode_is_not_exported(site: Site) -> None:
    client = site.enter("viewer")
    shown = client.get("/api/v1/episodes", params={"purpose": "collect", "round": 2}).json()["rows"][0]["order_id"]
    hidden = client.get("/api/v1/episodes", params={"purpose": "gate", "round": 2}).json()["rows"][0]["order_id"]
    refused = client.post("/api/v1/episodes/export", json={"episodes": [shown, hidden]})
    assert refused.status_code == 409
    assert "hidden starts stay hidden" in refused.json()["detail"]
    unknown = client.post("/api/v1/episodes/export", json={"episodes": ["01JD3Y6Z8Q4M0C5T9V2K7B1XNA"]})
    assert unknown.status_code == 404


def test_a_selection_is_exported_for_viewers_with_one_file_for_each_episode(site: Site) -> None:
    client = site.enter("viewer")
    rows = client.get("/api/v1/episodes", params={"purpose": "collect", "round": 2, "limit": 50}).json()["rows"]
    shown = [row["order_id"] for row in rows if row["outcome"] in ("success", "failure")][:2]
    answer = client.post("/api/v1/episodes/export", json={"episodes": shown, "form": "mcap"})
    assert answer.status_code == 200, answer.text
    assert "episodes-mcap.zip" in answer.headers["content-disposition"]
    with zipfile.ZipFile(io.BytesIO(answer.content)) as packed:
        files = sorted(name for name in packed.namelist() if not name.endswith("/"))
    assert files == sorted(f"episodes/{order_id}.mcap" for order_id in shown)
    assert client.post("/api/v1/episodes/export", json={"episodes": shown, "form": "csv"}).status_code in (400, 422)
