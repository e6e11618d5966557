"""The campaign's page shows every figure of a training run, the less telling ones behind a fold."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from enpire.home import Home
from enpire.requests.campaign_queue import CampaignQueue
from tests.end_to_end.axe import AXE, violations
from tests.end_to_end.conftest import NEEDED, PATIENCE_MS, set_up
from tests.web_ui.recorded import THIRD, History
from tests.web_ui.scripted_lab import ScriptedLab
from web_ui.server import Server

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = [*NEEDED]


def test_every_figure_of_a_training_run_is_there_in_plain_words(
    server: tuple[Server, ScriptedLab], past: History, browser: Browser
) -> None:
    running, _ = server
    context = browser.new_context()
    context.set_default_timeout(PATIENCE_MS)
    try:
        page = context.new_page()
        set_up(page, running)
        page.goto(f"{running.setup_link.partition('/setup')[0]}/campaigns/{past.campaign_id}")
        cell = page.locator("td.said", has=page.locator("summary")).first
        told = cell.locator('span[title$="(gate_saturated)"]')
        playwright.expect(cell.locator('span[title$="(efficiency_sound)"]')).to_be_visible()
        playwright.expect(told).to_be_hidden()
        cell.locator("summary").click()
        playwright.expect(told).to_have_text("weights at their limit 15.9 %")
    finally:
        context.close()


def test_pass_at_k_counts_the_trials_of_each_version(
    server: tuple[Server, ScriptedLab], past: History, context: BrowserContext, artefacts: Path
) -> None:
    past.confirm(THIRD, "success", 0, n=4)
    past.confirm(THIRD, "success", 1, n=2)
    past.confirm(THIRD, "success", 2)
    past.confirm(THIRD, "failure", 1)
    past.confirm(THIRD, "failure", 3)
    past.confirm(THIRD, "unsafe", 0)
    past.confirm(THIRD, "aborted", 1, n=2)
    page = context.new_page()
    set_up(page, server[0])
    page.goto(f"{server[0].setup_link.partition('/setup')[0]}/campaigns/{past.campaign_id}")
    card = page.locator("section[aria-label='pass@k']")
    playwright.expect(card.locator("thead")).to_have_text("VersionRoundTrialspass@1pass@2pass@3pass@4")
    cells = card.locator("tr", has=page.get_by_title(THIRD)).locator("td")
    playwright.expect(cells.nth(2)).to_have_text("10")
    told = ["40.0 % [16.8, 68.7]", "60.0 % [31.3, 83.2]", "70.0 % [39.7, 89.2]", "70.0 % [39.7, 89.2]"]
    for k, text in enumerate(told, start=1):
        playwright.expect(cells.nth(2 + k)).to_have_text(text)
    card.screenshot(path=artefacts / "pass-at-k.png")


def test_the_goal_names_the_time_limit_of_a_success(
    server: tuple[Server, ScriptedLab], past: History, context: BrowserContext
) -> None:
    past.say("limits changed", limits={"goal": {"commands": 50}}, by="ada", reason="")
    page = context.new_page()
    set_up(page, server[0])
    goal = "goal 97 % within 160 commands, median of at most 50 commands"
    page.goto(f"{server[0].setup_link.partition('/setup')[0]}/campaigns/{past.campaign_id}")
    playwright.expect(page.locator("dl.summary")).to_contain_text(goal)
    page.click("nav >> text=Policies")
    playwright.expect(page.locator("main")).to_contain_text(goal)


def test_an_open_gate_shows_its_pairs(
    server: tuple[Server, ScriptedLab], past: History, context: BrowserContext, artefacts: Path
) -> None:
    past.say(
        "gate opened", gate_id="G3", champion="b" * 64, candidate=THIRD, k=3, alpha=0.01, promoted=1, round=3,
        rule={"alpha": 0.05, "pairs": 400, "margin": 0.02},
    )  # fmt: skip
    page = context.new_page()
    set_up(page, server[0])
    page.click("nav >> text=Policies")
    playwright.expect(page.get_by_text(re.compile(r"Deciding +[1-9]\d* : \d+ in \d+ pairs"))).to_be_visible()
    page.screenshot(path=artefacts / "policies-open-gate.png", full_page=True)
    page.goto(f"{server[0].setup_link.partition('/setup')[0]}/campaigns/{past.campaign_id}")
    row = page.locator("tr", has=page.locator(".pill", has_text="Deciding"))
    playwright.expect(row).to_contain_text(re.compile(r"[1-9]\d* : \d+"))


def test_an_idea_that_is_tried_stays_so_when_its_agent_tries_again_too_early(
    server: tuple[Server, ScriptedLab], past: History, context: BrowserContext, artefacts: Path
) -> None:
    why = "Your experiment 01M82SEH2PZBJTJVJ60M4MA564 is not decided yet; wait for it, or give it up."
    past.say(
        "experiment submitted", experiment_id="again", hypothesis_id="idea-2", author="search", lane="search-1",
        changes={"passes": 9}, recipe={}, recipe_hash="d" * 64, champion="b" * 64,
    )  # fmt: skip
    past.say("experiment refused", experiment_id="again", why=why)
    page = context.new_page()
    set_up(page, server[0])
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto(f"{server[0].setup_link.partition('/setup')[0]}/campaigns/{past.campaign_id}")
    row = page.locator("#idea-idea-2")
    playwright.expect(row.locator(".pill")).to_contain_text("Queued")
    row.click()
    playwright.expect(page.locator("tr.details")).to_contain_text(why)
    box = page.locator(".scroll", has=row)
    assert box.evaluate("(one) => one.scrollWidth - one.clientWidth") == 0
    page.locator("section[aria-label=Hypotheses]").screenshot(path=artefacts / "tried-again.png")


def test_the_page_of_a_home_without_a_running_campaign_shows_the_last_result(
    server: tuple[Server, ScriptedLab], past: History, context: BrowserContext, artefacts: Path
) -> None:
    running, lab = server
    lab.gone = True
    past.say("campaign ended", reached=False, reason="the budget of 7200 s of wall-clock time is used up")
    page = context.new_page()
    set_up(page, running, stations=0)
    card = page.locator("section[aria-label='Latest campaign']")
    playwright.expect(card).to_contain_text("the budget of 7200 s of wall-clock time is used up")
    playwright.expect(card).to_contain_text(re.compile(r"\+35\.0 pt \[\+12\.0, \+58\.0\]"))
    page.screenshot(path=artefacts / "idle.png", full_page=True)
    card.get_by_role("link", name="Read the report").click()
    report = page.locator("article.report")
    playwright.expect(report.get_by_role("heading", name="pin_insertion")).to_be_visible()
    playwright.expect(report.get_by_role("link", name="promote")).to_have_attribute("href", re.compile("#gate-"))
    page.screenshot(path=artefacts / "report.png")
    page.emulate_media(media="print", color_scheme="dark")
    playwright.expect(page.get_by_role("button", name="Print")).to_be_hidden()
    assert report.locator(".lead").evaluate("(one) => getComputedStyle(one).color") == "rgb(24, 32, 43)"
    page.pdf(path=artefacts / "report.pdf")
    page.emulate_media(media="screen")
    episode = report.get_by_role("link", name=re.compile("^[0-9A-Z]{26}$")).first
    order_id = episode.inner_text()
    report.get_by_role("link", name="warmer noise finds more successes").click()
    playwright.expect(page.locator("#idea-idea-1.on")).to_be_visible()
    page.go_back()
    report.get_by_role("link", name=order_id).click()
    playwright.expect(page.get_by_role("heading", name=order_id)).to_be_visible()


def test_an_operator_queues_a_campaign_and_takes_it_back(
    server: tuple[Server, ScriptedLab], past: History, context: BrowserContext, artefacts: Path
) -> None:
    running, _ = server
    page = context.new_page()
    set_up(page, running)
    page.goto(f"{running.address}/start")
    form = page.get_by_role("form", name="New campaign")
    playwright.expect(form).to_contain_text("exact 95 % lower bound, 400 fresh starts")
    page.get_by_label("Begin from").select_option("push_t")
    playwright.expect(form.locator(".about")).to_contain_text("Push-T until 95 % are confirmed.")
    playwright.expect(form.locator(".about")).to_contain_text("Push-T, the easy form")
    playwright.expect(form).to_contain_text("% of 400 fresh starts")
    form.get_by_text("What they are").last.click()
    playwright.expect(form).to_contain_text("A seeded agent that needs no key.")
    page.get_by_label("Begin from").select_option("pin_insertion")
    page.get_by_label("Name").fill("night-1")
    page.get_by_label("Wall-clock").fill("480")
    ends = "It ends when the goal is confirmed, or after 8 h 00 min, whichever comes first."
    resumes = "After 14 rounds, branches continue until every agent has finished."
    most = "64 simulated robots use at most 512.00 robot-hours."
    playwright.expect(page.get_by_text(f"{ends} {resumes} {most}")).to_be_visible()
    page.get_by_label("Robot time").fill("2")
    playwright.expect(page.get_by_text("or after 8 h 00 min or 2.00 robot-hours, whichever")).to_be_visible()
    branches = form.get_by_role("group", name="Recipes of branches").get_by_label("spiral_search")
    branches.uncheck()
    rounds = "or after 8 h 00 min or 2.00 robot-hours or 14 rounds, whichever comes first."
    playwright.expect(page.get_by_text(rounds)).to_be_visible()
    branches.check()
    page.get_by_label("Goal: confirmed success").fill("99.9")
    page.get_by_role("button", name="Add to the queue").click()
    playwright.expect(form.get_by_role("alert")).to_contain_text("cannot be reached on 400 starts")
    page.get_by_label("Goal: confirmed success").fill("95")
    playwright.expect(form).to_contain_text("No station is enrolled in this home.")
    page.get_by_label("Simulated stations").fill("0")
    address = page.get_by_label("Stations of the lab connect at")
    playwright.expect(address).to_have_value("tcp://0.0.0.0:7000")
    address.fill("tcp://lab.example:7000")
    page.get_by_label("Tokens of agents").fill("500000")
    page.get_by_label("Cost of agents").fill("2.5")
    page.get_by_role("button", name="Add to the queue").click()
    playwright.expect(form.get_by_role("alert")).to_contain_text("Stations cannot connect at 'tcp://lab.example:7000'")
    address.fill("tcp://127.0.0.1:7000")
    page.get_by_role("button", name="Add to the queue").click()
    queue = page.locator("section[aria-label=Queue]")
    playwright.expect(queue.locator("tbody tr")).to_have_count(1)
    playwright.expect(queue).to_contain_text("night-1")
    [waiting] = CampaignQueue(Home(past.home)).waiting()
    asked = waiting.campaign
    assert (asked.stations.count, asked.stations.listens) == (0, "tcp://127.0.0.1:7000")
    assert (asked.budget.tokens, asked.budget.money) == (500000, 2.5)
    page.screenshot(path=artefacts / "start.png", full_page=True)
    queue.get_by_role("button", name="Remove night-1").click()
    playwright.expect(queue).to_have_count(0)


def test_goal_and_budget_of_the_running_campaign_are_changed(
    server: tuple[Server, ScriptedLab], past: History, context: BrowserContext
) -> None:
    running, lab = server
    page = context.new_page()
    set_up(page, running)
    page.goto(f"{running.address}/campaigns/{past.campaign_id}")
    page.get_by_role("button", name="Goal and budget").click()
    page.get_by_label("Wall-clock time").fill("240")
    page.get_by_label("Reason").fill("one more night")
    page.get_by_role("button", name="Change", exact=True).click()
    playwright.expect(page.locator("[data-command='change limits'][data-state=effective]")).to_have_count(1)
    assert [(kind, target) for kind, target, _ in lab.given.values()] == [("change limits", "budget.wall_s=14400")]


def test_an_operator_pins_rejects_and_proposes_and_sees_what_each_change_contributed(
    server: tuple[Server, ScriptedLab], past: History, context: BrowserContext, artefacts: Path
) -> None:
    running, lab = server
    effect = {"delta": 0.12, "low": 0.05, "high": 0.19}
    change = {"experiment": "test-1", "changes": {"passes": 8}, "effects": {"leave_one_out": effect, "shapley": effect}}
    found = {
        "campaign": past.campaign_id, "base": "a" * 64, "episodes": 80, "starts": 200, "first_start": 1000000,
        "seed": 0, "exact": True, "orders": [], "changes": [change], "left_out": [],
        "sets": [{"changes": [0], "recipe_hash": "d" * 64, "successes": 120, "n": 200, "low": 0.53, "high": 0.67}],
    }  # fmt: skip
    (past.home / "reports").mkdir()
    (past.home / "reports" / f"attribution-{past.campaign_id}.json").write_text(json.dumps(found))
    past.say("hypothesis marked", hypothesis_id="idea-1", mark="pinned", by="bob", reason="it is cheap")
    page = context.new_page()
    set_up(page, running)
    page.goto(f"{running.address}/campaigns/{past.campaign_id}#idea-idea-1")
    chart = page.get_by_role("region", name="Attribution")
    playwright.expect(chart).to_contain_text("+12.0 pt [+5.0, +19.0]")
    playwright.expect(page.locator("#idea-idea-1")).to_contain_text("pinned")
    playwright.expect(page.locator(".evidence-card")).to_contain_text("by bob: it is cheap")
    acts = page.get_by_role("group", name="Commands to this hypothesis")
    acts.get_by_role("button", name="Unpin").click()
    acts.get_by_role("button", name="Reject").click()
    page.get_by_label("Reason").fill("tried last week")
    page.locator("dialog").get_by_role("button", name="Reject").click()
    page.get_by_role("button", name="Propose a hypothesis").click()
    page.get_by_label("Statement").fill("fewer passes are enough")
    page.get_by_label("Changed settings").fill("passes=2")
    page.locator("dialog").get_by_role("button", name="Propose", exact=True).click()
    commands = page.locator(".commands")
    playwright.expect(commands).to_contain_text("Propose hypothesis")
    given = [(kind, target) for kind, target, _ in lab.given.values()]
    assert given == [
        ("hypothesis unpin", "idea-1"), ("hypothesis reject", "idea-1"), ("hypothesis propose", "passes=2"),
    ]  # fmt: skip
    page.locator("section[aria-label=Hypotheses]").screenshot(path=artefacts / "hypotheses.png")
    page.set_viewport_size({"width": 390, "height": 844})
    page.emulate_media(color_scheme="dark")
    page.locator("section[aria-label=Hypotheses]").screenshot(path=artefacts / "hypotheses-390-dark.png")
    if AXE.is_file():
        page.locator(".scroll[tabindex]").first.wait_for()
        assert violations(page) == []
