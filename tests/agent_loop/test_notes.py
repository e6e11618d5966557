"""What agents find in the lab's notes, and in the findings of this campaign and of earlier ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_loop import tools
from agent_loop.lab_client import LabClient
from enpire.errors import UsageError
from enpire.requests.agent_requests import Sender
from enpire.store.ledger import SqliteLedger
from enpire.store.text_search import ranked
from tests.fakes.sample_events import append


@pytest.fixture
def client(tmp_path: Path) -> LabClient:
    """A home with two campaigns of one task and one of another."""
    ledger = SqliteLedger(tmp_path / "ledger.db")
    for campaign_id, task, text in (
        ("C1", "coin", "a small learning rate learns nothing"),
        ("C2", "dice", "the learning rate of dice"),
        ("C3", "coin", "colours do not matter"),
    ):
        body = {"campaign_id": campaign_id, "name": task, "task": task, "campaign": {}, "goal": {}, "seed": 0}
        said = {"finding_id": f"F{campaign_id}", "author": "search", "lane": "search-1", "text": text, "about": ""}
        append(ledger, [("campaign started", body), ("finding posted", {"campaign_id": campaign_id, **said})])
    ledger.close()
    return LabClient(tmp_path, Sender(campaign_id="C3", author="test", lane="one"))


def found(client: LabClient, **wanted: str) -> list[tuple[object, object]]:
    answer = tools.in_process(client)["query_findings"](**wanted)["findings"]
    assert isinstance(answer, list)
    return [(item["campaign"], item["text"]) for item in answer]


def test_findings_of_earlier_campaigns_of_the_task_are_carried_over(client: LabClient) -> None:
    old, new = ("C1", "a small learning rate learns nothing"), ("C3", "colours do not matter")
    assert found(client) == [new, old]
    assert found(client, words="which rates learn?") == [old]
    assert found(client, lane="search-2") == []
    assert found(client, words="gripper") == []


def test_passages_of_the_notes_are_named_by_file_and_line(client: LabClient) -> None:
    notes = client.home / "notes"
    (notes / "papers").mkdir(parents=True)
    (notes / "papers" / "flow.md").write_text("# Flow\n\nA chunk starts as noise.\n\nCooling\nlowers the noise.\n")
    (notes / "lab.txt").write_text("The gripper of station 3 slips when it is cold.\n")
    (notes / "data.bin").write_bytes(b"noise")
    (client.home / "outside.md").write_text("noise from outside")
    (notes / "link.md").symlink_to(client.home / "outside.md")
    told = tools.in_process(client)["search_notes"](words="lower noise: cooling?")["passages"]
    assert isinstance(told, list)
    assert [(item["file"], item["line"]) for item in told] == [("papers/flow.md", 5), ("papers/flow.md", 3)]
    assert told[0]["text"] == "Cooling\nlowers the noise."


def test_without_notes_or_words_it_says_so(client: LabClient) -> None:
    with pytest.raises(UsageError, match=r"has no notes; operators may put \.md and \.txt files into .*notes"):
        tools.call(client, "search_notes", {"words": "x"})
    (client.home / "notes").mkdir()
    with pytest.raises(UsageError, match="contains no word; give at least one"):
        tools.call(client, "search_notes", {"words": '" OR *'[0:1]})
    assert tools.call(client, "search_notes", {"words": 'near"(quote) OR *'}) == {"passages": []}


def test_the_rarest_word_counts_most() -> None:
    texts = ["the rate", "the the the", "the rate of decay", "nothing"]
    assert ranked(texts, "the decay", 2)[0] == 2
    assert ranked(texts, "everything", 5) == []
