"""How the champion and past experiments failed, in the brief: clusters of failures on train starts, and key frames."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from agent_loop import tools
from agent_loop.failure_evidence import LARGEST_KEY_FRAME, failure_clusters, key_frame
from agent_loop.lab_client import LabClient
from agent_loop.past_experiments import past_experiments
from agent_loop.tool_documents import answered
from enpire.queries.campaigns import open_records
from enpire.service.asking import Sender
from enpire.store.pictures import NAME, keep, opened
from tests.fakes.sample_events import append
from tests.web_ui.failing import add_failures
from tests.web_ui.recorded import BASE, History
from tests.web_ui.tiny_task import ADDRESS

RECIPE = {"name": "r", "learner": "habc", "settings": {"skill": 1}, "space": {"skill": [1, 2]}}


@pytest.fixture
def past(tmp_path: Path) -> Iterator[History]:
    """A campaign whose champion fails in two ways on train starts."""
    made = History(tmp_path / "home")
    made.say(
        "campaign started", name="tiny", task=ADDRESS, seed=1, code="0.1.0", campaign={},
        goal={"success": 0.97, "confirm_starts": 400}, home=str(made.home),
    )  # fmt: skip
    made.say("recipe declared", recipe=RECIPE, recipe_hash="h")
    made.say("deployed", policy_id=BASE, previous="", reason="base", round=0)
    yield made
    made.ledger.close()


def client_of(past: History, lane: str = "one") -> LabClient:
    return LabClient(past.home, Sender(campaign_id=past.campaign_id, author="test", lane=lane))


def brief_of(client: LabClient) -> dict[str, Any]:
    return tools.call(client, "get_brief", {})


def add_image(past: History, order_id: str, side: int = 8) -> bytes:
    """Record two camera images of an episode; the bytes of the last one."""
    image = np.random.default_rng(3).integers(0, 255, (side, side, 3), np.uint8)
    folder = past.home / "episodes" / past.campaign_id / order_id
    keep(folder / NAME, {3: {"front": image // 2}, 11: {"front": image}})
    return image.tobytes()


def test_a_brief_shows_how_the_champion_fails_and_the_last_image_of_an_example(past: History) -> None:
    how = add_failures(past)
    first, second = brief_of(client_of(past))["failure_clusters"]
    assert (how[first["example"]], how[second["example"]]) == ("above", "aside")
    assert first["n"] == sum(one == "above" for one in how.values())
    assert first["share"] == round(first["n"] / len(how), 2)
    assert "z 0.08 m (successes" in first["how"]
    assert "key_frame" not in first
    assert "pictures" not in brief_of(client_of(past))
    add_image(past, second["example"])
    brief = brief_of(client_of(past))
    [picture] = brief["pictures"]
    assert brief["failure_clusters"][1]["key_frame"] == picture["name"] == f"{second['example']}/front_00011.png"
    assert base64.b64decode(picture["base64"]).startswith(b"\x89PNG")
    shown = answered(lambda name, given: tools.call(client_of(past), name, given), "get_brief", {}).content
    assert [block["type"] for block in shown] == ["text", "image"]
    assert picture["base64"] not in cast(str, shown[0]["text"])


def test_a_large_image_is_shrunk_and_a_damaged_one_left_out(past: History) -> None:
    how = add_failures(past)
    client, example = client_of(past), next(iter(how))
    assert len(add_image(past, example, side=410)) > LARGEST_KEY_FRAME
    image = key_frame(client, example)
    assert image is not None
    assert (image["name"], image["media_type"]) == (f"{example}/front_00011.png", "image/jpeg")
    data = base64.b64decode(image["base64"])
    assert len(data) <= LARGEST_KEY_FRAME
    assert opened(data).shape == (205, 205, 3)
    (past.home / "episodes" / past.campaign_id / example / NAME).write_bytes(b"no zip")
    assert key_frame(client, example) is None
    assert brief_of(client)["failure_clusters"]


def test_failures_of_hidden_starts_and_of_hidden_work_are_not_shown(past: History) -> None:
    past.run(60, "gate", BASE, 0.5, gate_id="G", round=2)
    assert brief_of(client_of(past))["failure_clusters"] == [], "all of them are of hidden starts"
    add_failures(past)
    with open_records(past.home) as records:
        shown = failure_clusters(records, past.campaign_id, BASE, ADDRESS, lambda policy, branch: branch == "E")
        hidden = failure_clusters(records, past.campaign_id, BASE, ADDRESS, lambda policy, branch: policy == BASE)
    assert len(shown) == 2
    assert hidden == []


def test_a_past_experiment_shows_how_its_version_failed(past: History) -> None:
    add_failures(past)
    past.say("experiment submitted", experiment_id="E1", hypothesis_id="H", lane="two", author="test", champion="c")
    past.say("learner started", job="J", learner="habc", parent="c", experiment_id="E1", round=1)
    past.say("learner ended", job="J", policy_id=BASE, round=1)
    past.say("experiment decided", experiment_id="E1", policy_id=BASE, decision="revert")
    client = client_of(past)
    [entry] = past_experiments(client, client.proposals())
    failures = cast("list[dict[str, Any]]", entry["failures"])
    assert failures == brief_of(client)["failure_clusters"]
    add_image(past, failures[0]["example"])
    [entry] = past_experiments(client, client.proposals())
    assert cast("Any", entry["failures"])[0]["key_frame"] == f"{failures[0]['example']}/front_00011.png"
    assert len(brief_of(client)["pictures"]) == 2, "of the champion's cluster and of the experiment's"
    begun = {"name": "again", "task": ADDRESS, "campaign": {}, "goal": {"success": 0.9, "confirm_starts": 4}}
    append(past.ledger, [("campaign started", begun)], "LATER")
    later = LabClient(past.home, Sender(campaign_id="LATER", author="test", lane="one"))
    [entry] = past_experiments(later, later.proposals())
    assert entry["failures"] == [{key: one[key] for key in ("n", "share", "how")} for one in failures]
