"""A finished campaign in the browser: what agents proposed, what the gate said of it, and how sure that is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from mcp import Client

from agent_loop.mcp_server import tool_server
from enpire.home import Home, open_home
from enpire.loop import run
from enpire.monitor.live_lab import LiveLab
from enpire.queries import campaigns
from enpire.queries.models import CampaignView, ExperimentView
from enpire.requests import operator_commands
from tests.agent_loop.pretend_lab import Running, with_skill
from tests.agent_loop.test_gate_of_proposals import Proposed, tried
from tests.end_to_end.conftest import NEEDED, set_up
from tests.end_to_end.watch import Watch
from tests.fakes.event_loops import run_async
from web_ui.server import Server

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = [*NEEDED]
WORSE, BETTER = "less skill is enough", "more skill helps"
SHOWN = {"keep": ("Kept", "Promoted"), "revert": ("Reverted", "Rejected"), "inconclusive": ("Inconclusive", "Held")}
"""Decision of an experiment -> its word and the word of its gate. Stations' timing decides what the gate sees first."""


@pytest.fixture
def finished(tmp_path: Path) -> Home:
    """A campaign in which an MCP client proposed a worse and a better recipe, and which was then ended."""
    home = open_home(tmp_path / "home")

    async def talk() -> None:
        async with Client(tool_server(lab.client("mcp"))) as client:
            await tried(client, Proposed(statement=WORSE, changes={"skill": 0.05}), 200)
            await tried(client, Proposed(statement=BETTER, changes={"skill": 0.95, "steps": 6}), 200)

    with Running(home, recipe=with_skill(0.5)) as lab:
        lab.beside(lambda: run_async(talk))
        operator_commands.leave(home.inbox, "end campaign", operator="ada")
        assert run(lab.lab).over
    return home


@pytest.fixture
def site(finished: Home) -> Iterator[Server]:
    """The pages over its records; nothing runs any more."""
    live = LiveLab(finished)
    live.update(None)
    server = Server(finished.root, live)
    server.start()
    yield server
    server.stop()


@pytest.mark.slow
def test_the_idea_tree_shows_what_was_rejected_and_what_was_promoted(
    finished: Home, site: Server, context: BrowserContext, artefacts: Path
) -> None:
    view = campaign(finished)
    watch, page = Watch(), context.new_page()
    watch.follow(page)
    expect = playwright.expect
    set_up(page, site, stations=0)
    expect(page.get_by_text("no campaign runs in this home")).to_be_visible()
    page.click("nav >> text=Campaigns")
    page.click("tr.pick a")
    expect(page.locator("h1 + .pill")).to_contain_text("Ended, goal not reached")
    assert [idea.statement for idea in view.ideas] == [WORSE, BETTER]
    for number, idea in enumerate(view.ideas, 1):
        one = idea.experiments[-1]
        state, decision = SHOWN[one.decision]
        gate = next(gate for gate in view.gates if gate.id == one.gate_id)
        row = page.locator(f"#idea-{idea.id}")
        expect(row).to_contain_text(idea.statement)
        expect(row.locator(".pill")).to_contain_text(state)
        expect(row).to_contain_text(
            f"{decision}: {gate.reason}, {gate.wins} won, {gate.losses} lost of {gate.pairs} pairs"
        )
        expect(row).to_contain_text(interval(one))
        dot = re.compile(f"^Hypothesis {number} .*: {re.escape(idea.statement)}; {state}")
        expect(page.get_by_role("button", name=dot)).to_be_visible()
        judged = page.locator(".judged", has=page.locator("text", has_text=str(number)))
        expect(judged.locator("title")).to_contain_text(f"Hypothesis {number}: ")
        in_gates = page.locator("tr", has_text=f"hypothesis {number}").locator(".pill")
        expect(in_gates).to_contain_text(decision)
    page.get_by_role("button", name=re.compile(f"^Hypothesis 2 .*: {BETTER}; ")).press("Enter")
    expect(page.locator("tr.details")).to_contain_text("skill 0.95")
    expect(page.get_by_role("link", name="Trials of its gate")).to_be_visible()
    page.evaluate("scrollTo(0, 0)")
    page.screenshot(path=artefacts / "ideas.png", full_page=True)
    page.emulate_media(color_scheme="dark")
    page.set_viewport_size({"width": 900, "height": 900})
    page.locator("section[aria-label=Hypotheses]").screenshot(path=artefacts / "ideas-dark.png")
    assert watch.complaints == []
    assert watch.hosts == {"127.0.0.1"}


def campaign(home: Home) -> CampaignView:
    with campaigns.open_records(home.root) as records:
        return campaigns.campaign_view(records, campaigns.find_campaign(records, ""))


def interval(one: ExperimentView) -> str:
    """As the page writes it, in points."""
    assert one.low is not None
    assert one.high is not None
    low, high = (f"{100 * value:+.1f}".replace("-", "\N{MINUS SIGN}") for value in (one.low, one.high))
    return f"{low} … {high}"
