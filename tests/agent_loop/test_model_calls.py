"""Calls of language models in the loop, the ledger and what is shown of them."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from agent_loop.model_gateway.recorded import recorded_calls
from agent_loop.session import AgentSession, run_session
from enpire.campaign.agent_events import AgentStarted, CallOutcome, ModelCalled
from enpire.campaign.campaign import AgentPlan, Budget, Campaign
from enpire.errors import FileProblem, UsageError
from enpire.files import parse, plain
from enpire.home import open_home
from enpire.ids import mint
from enpire.queries import campaigns, texts
from enpire.requests.model_calls import CallRecords
from enpire.requests.model_leases import ModelLimits
from enpire.steps.agent_process import require_agents
from enpire.steps.model_calls import record_left_calls, record_model_calls
from tests.agent_loop.pretend_lab import CAMPAIGN, POOR, Running
from tests.agent_loop.recorded_model import Recording, served, tool_use
from tests.fakes.sample_events import event

CALL = ModelCalled(
    call_id="CALL-1", author="cli", lane="cli-1", provider="anthropic", endpoint="messages", model="a-model",
    outcome="answered", status=200, fresh=20, cache_read=400, cache_write=80, output=50, bound=3000, money=0.25,
    currency="USD", price="a-model since 2020-01-01: the test", bound_money=0.5,
)  # fmt: skip
LOST = replace(CALL, call_id="CALL-2", outcome="lost", status=0, fresh=10, output=0, money=None, currency="", price="")


def test_each_call_is_recorded_once_whichever_process_dies(tmp_path: Path) -> None:
    home = open_home(tmp_path / "home")
    with Running(home, paused=True) as lab:
        records = CallRecords.of(home.root, lab.lab.state.campaign_id)
        records.begin(replace(CALL, outcome="lost"))
        assert records.ended() == []
        records.end(CALL)
        records.begin(LOST)
        records.close()  # of a gateway that was killed
        records.close()
        record_model_calls(lab.lab)
        assert records.ended() == []
        records.end(CALL)  # the loop died after its write and before it removed the file
        record_model_calls(lab.lab)
        assert records.ended() == []
        recorded = [entry.event for entry in lab.ledger.events(kinds=("model called",))]
        assert sorted(recorded, key=lambda one: one.call_id) == [CALL, LOST]  # pyright: ignore[reportAttributeAccessIssue]
        assert lab.lab.state.proposals.tokens == {"cli-1": 550 + 3000}
        spending = recorded_calls(home.root, lab.lab.state.campaign_id, [CALL]).spending
        assert (spending.shared.tokens, spending.shared.money) == (3550, 0.75)


def test_calls_that_an_ended_campaign_left_are_written_into_its_record_once(tmp_path: Path) -> None:
    """kill -9 of the orchestrator after the end of a campaign was written and before its last calls were."""
    home, earlier = open_home(tmp_path / "home"), mint()
    with Running(home, paused=True) as lab:
        records = CallRecords.of(home.root, earlier)
        for call in (CALL, LOST):
            records.end(call)
        lab.lab.write_to(earlier, CALL)
        for _ in range(2):
            record_left_calls(lab.lab)
            assert records.ended() == []
        found = [entry for entry in lab.ledger.events(kinds=("model called",)) if entry.campaign_id == earlier]
        assert [entry.event for entry in found] == [CALL, LOST]
        assert lab.lab.state.proposals.tokens == {}, "they count for their own campaign"


@pytest.mark.parametrize("outcome", ["answered", "failed", "lost"])
def test_a_call_whose_end_was_written_counts_once_whatever_its_outcome(tmp_path: Path, outcome: CallOutcome) -> None:
    """kill -9 of the gateway after it wrote the end of a call and before it left the call for the loop."""
    records = CallRecords.of(tmp_path, "C")
    ended = replace(CALL, outcome=outcome, request="a" * 64)
    records.begin(replace(ended, outcome="lost"))
    records.begin(ended)  # the first half of `end`
    for _ in range(3):
        records.close()
    assert records.ended() == [ended]
    assert list((records.folder / "open").iterdir()) == []
    records.end(ended)
    assert records.ended() == [ended]


def test_an_open_call_of_an_earlier_version_is_passed_on_with_what_it_asked(tmp_path: Path) -> None:
    records = CallRecords.of(tmp_path, "C")
    records.begin(LOST)
    [path] = (records.folder / "open").iterdir()
    path.rename(path.with_name(f"{LOST.call_id}.{'b' * 64}.json"))
    records.close()
    assert records.ended() == [replace(LOST, request="b" * 64)]
    assert list((records.folder / "open").iterdir()) == []


def test_a_file_that_is_no_call_is_set_aside(tmp_path: Path) -> None:
    home = open_home(tmp_path / "home")
    with Running(home, paused=True) as lab:
        records = CallRecords.of(home.root, lab.lab.state.campaign_id)
        records.end(CALL)
        done = records.folder / "done"
        for name, text in (("a", "not JSON"), ("b", json.dumps(CALL.body())), ("c", "{}")):
            (done / f"{name}.json").write_text(text)
        (records.folder / "open").mkdir(exist_ok=True)
        (records.folder / "open" / "d.json").write_text("half a wri")
        records.close()
        record_model_calls(lab.lab)
        assert len(list(lab.ledger.events(kinds=("model called",)))) == 1
        assert list(done.iterdir()) == []


def test_a_call_wakes_no_agent_that_waits(tmp_path: Path) -> None:
    home = open_home(tmp_path / "home")
    with Running(home, paused=True) as lab:
        client = lab.client()
        newest = client.newest()
        lab.lab.write(CALL)
        assert client.newest() == newest, "each of its own calls would end the wait of a model that waits"


def test_tokens_and_money_are_shown_for_each_session(tmp_path: Path) -> None:
    home = open_home(tmp_path / "home")
    own = {"fresh": 7, "cached": 3, "output": 2, "model": "m", "cache_write": 1, "self_reported": True, "lane": "cli-1"}
    earlier = {"fresh": 100, "cached": 10, "output": 1, "model": "m", "lane": "old-1"}
    with Running(home, paused=True) as lab:
        started = AgentStarted(lane="cli-1", agent="cli", start=1, sandbox="none")
        refused = replace(CALL, call_id="CALL-4", outcome="failed", fresh=0, cache_read=0, cache_write=0, output=0,
                          money=0.0, lane="cli-2")  # fmt: skip
        lab.lab.write(started, CALL, LOST, replace(CALL, call_id="CALL-3", lane="cli-2", money=None, currency=""))
        lab.lab.write(refused)
        lab.lab.write(event("tokens spent", **own), event("tokens spent", **earlier))
        assert lab.lab.state.proposals.self_reported == {"cli-1": 13}
        assert lab.lab.state.proposals.tokens == {"cli-1": 3550, "cli-2": 550, "old-1": 111}
    with campaigns.open_records(home.root) as records:
        view = campaigns.campaign_view(records, campaigns.find_campaign(records, ""))
    assert view.spending is not None
    one, two = view.spending.lanes
    assert (one.calls, one.lost, one.counted_for_budget, one.money) == (2, 1, 3550, {"USD": 0.25})
    assert (one.calls_of_unknown_cost, two.calls_of_unknown_cost, two.money) == (1, 1, {})
    assert (two.calls, two.lost, two.failed) == (2, 0, 1)
    assert asdict(one)["self_reported"] == {"fresh": 7, "cached": 3, "cache_write": 1, "output": 2}
    total = view.spending.total
    assert (total.calls, total.fresh, total.cache_read, total.cache_write, total.output) == (4, 50, 1200, 240, 100)
    assert (view.tokens.fresh, view.tokens.cached, view.tokens.output) == (50 + 240 + 100, 1200 + 10, 100 + 1)
    shown = texts.campaign(view)
    assert "money          0.2500 USD and 2 calls of unknown cost" in shown
    assert "cli-1: 2 calls, 3550 tokens (fresh 30, from the cache 800, into the cache 160, output 50)" in shown
    assert "1 call sent, outcome unknown: the most that it could cost is counted" in shown
    assert "1 call refused by the provider, at no cost" in shown
    assert "self-reported: fresh 7, cached 3, written 1, output 2" in shown
    json.dumps(plain(view), allow_nan=False)


def test_limits_of_a_campaign_file_are_read_and_shown(tmp_path: Path) -> None:
    plan = AgentPlan(name="cli", tokens=9000, money=2.5)
    campaign = replace(CAMPAIGN, agents=(plan,), budget=Budget(tokens=20_000, money=5.0))
    assert parse(Campaign, plain(campaign), "The dump") == campaign
    for wrong in ({"budget": {"tokens": -1}}, {"agents": [{"name": "cli", "money": -0.5}]}):
        with pytest.raises(FileProblem, match="must be at least 0"):
            parse(Campaign, {"name": "a", "task": "b", "recipe": "c", **wrong}, "It")


def test_an_agent_whose_provider_has_no_key_is_refused_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    plan = AgentPlan(name="cli", options={"recipe": "codex", "model": "m"})
    campaign = replace(CAMPAIGN, recipe="habc_timid", agents=(plan,))
    with pytest.raises(UsageError, match="The agent cli needs a key of the provider openai: set OPENAI_API_KEY"):
        require_agents(campaign)
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    require_agents(campaign)


def test_a_session_in_a_terminal_starts_the_gateway_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = open_home(tmp_path / "home")
    recording = Recording(answers=[[tool_use("finish", summary="Nothing is left to try.")]])
    lines: list[str] = []
    with served(recording) as address, Running(home, recipe=POOR, paused=True) as lab:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", address)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "the key")
        session = AgentSession(
            home=home.root, campaign_id=lab.lab.state.campaign_id, lane="mine", agent="anthropic",
            work=tmp_path / "work", options={"model": "a-model"}, starts_gateway=True, own=ModelLimits(tokens=100_000),
        )  # fmt: skip
        session.work.mkdir()
        assert lab.beside(lambda: run_session(session, lines.append)) == 0, lines
        record_model_calls(lab.lab)
        calls = [entry.event for entry in lab.ledger.events(kinds=("model called",))]
    assert [(call.lane, call.outcome) for call in calls if isinstance(call, ModelCalled)] == [("mine", "answered")] * 2
    assert list((home.root / "agents" / ".model-leases").iterdir()) == []
