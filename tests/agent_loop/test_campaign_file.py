"""What a campaign file says about agents, and what is refused before anything is written."""

from __future__ import annotations

from dataclasses import replace

import pytest

from enpire.campaign.branch_plan import BranchPlan
from enpire.campaign.campaign import AgentPlan, Campaign, read_campaign
from enpire.errors import FileProblem, UnknownName, UsageError
from enpire.files import parse, plain
from enpire.steps.agent_process import require_agents


def test_the_shipped_campaign_has_one_agent_without_a_key_and_may_have_more() -> None:
    campaign = read_campaign("pin_insertion")
    assert campaign.agents == (AgentPlan(name="search"),)
    require_agents(campaign)
    some = replace(campaign, agents=(AgentPlan(name="search", lanes=2),))
    assert parse(Campaign, plain(some), "The dump") == some
    require_agents(some)


def test_agents_that_cannot_work_are_named_before_the_start() -> None:
    campaign = read_campaign("pin_insertion")
    with pytest.raises(UnknownName, match="no agent called 'oracle'"):
        require_agents(replace(campaign, agents=(AgentPlan(name="oracle"),)))
    with pytest.raises(UsageError, match="declares no `space`"):
        require_agents(replace(campaign, branches=BranchPlan(), recipe="clone_demonstrations"))
    with pytest.raises(FileProblem, match="from 1 to 16"):
        parse(Campaign, {"name": "a", "task": "b", "recipe": "c", "agents": [{"name": "search", "lanes": 0}]}, "It")
    with pytest.raises(ValueError, match="its agents name search twice, so two sessions would have one name"):
        replace(campaign, agents=(AgentPlan(name="search"), AgentPlan(name="cli"), AgentPlan(name="search", lanes=2)))
