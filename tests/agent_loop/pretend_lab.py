"""A laboratory whose recipe says how good its policies are: one setting matters, the others do not."""

from __future__ import annotations

import itertools
import json
import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from agent_loop.lab_client import LabClient
from enpire.campaign.apply_events import rebuilt
from enpire.campaign.campaign import Base, Budget, Campaign, Goal, Rounds, Stations
from enpire.campaign.recipe import Recipe
from enpire.files import plain
from enpire.gate.rule import GateRule
from enpire.home import Home
from enpire.interfaces import ImprovementJob, Progress
from enpire.lab import Lab
from enpire.loop import turn
from enpire.requests.agent_requests import Sender
from enpire.steps.ending import shut_down
from enpire.store import versions
from enpire.store.episodes import FolderStore
from enpire.store.ledger import SqliteLedger
from enpire.store.reading import Reading
from tests.fakes.fake_fleet import COIN_KIND, CoinTask, FakeFleet
from tests.fakes.sample_events import append

CAMPAIGN = Campaign(
    name="coin", task="coin", recipe="poor",
    goal=Goal(success=0.99, confirm_starts=30, attempt_chance=0.99),
    stations=Stations(count=0, lanes=4, ahead=8),
    base=Base(demonstrations=4, evaluate_starts=1),
    rounds=Rounds(episodes=500, train_starts=50),
    gate=GateRule(pairs=60),
    budget=Budget(wall_s=900, rounds=40),
    seed=3,
)  # fmt: skip
POOR = Recipe(
    name="poor", learner="tests.agent_loop.pretend_lab:Tuned",
    settings={"skill": 0.3, "colour": "red", "steps": 4},
    space={"skill": (0.05, 0.95, "linear"), "colour": ("red", "green"), "steps": (1, 8, "log")},
)  # fmt: skip


class Tuned:
    """A learner whose versions succeed as often as the setting `skill` says; the other settings change nothing."""

    def improve(self, job: ImprovementJob, report: Callable[[Progress], None]) -> Mapping[str, float]:
        settings = job.recipe["settings"]
        assert isinstance(settings, dict)
        staged = job.work / "staged"
        staged.mkdir(exist_ok=True)
        version = {"kind": COIN_KIND, "chance": settings["skill"], "round": job.round}
        (staged / "policy.json").write_text(json.dumps(version))
        staged.rename(job.output)
        return {"skill": float(settings["skill"]), "unknown": math.nan}


@dataclass
class Running:
    """A loop that turns in this thread until something is true, with whatever works beside it."""

    home: Home
    campaign: Campaign = CAMPAIGN
    recipe: Recipe = POOR
    regimes: Mapping[str, Recipe] = field(default_factory=dict[str, Recipe])
    measured: bool = True
    """Whether the base of a campaign with branches is measured before the loop begins."""
    paused: bool = False
    """No order and no training run begins; wishes are answered."""
    lab: Lab = field(init=False)
    ledger: SqliteLedger = field(init=False)

    def __enter__(self) -> Running:
        self.ledger = SqliteLedger(self.home.ledger)
        begun = [event.body["campaign_id"] for event in self.ledger.events(kinds=("campaign started",))]
        campaign_id = str(begun[0]) if begun else "C1"
        if not begun:
            file = {
                "budget": {"rounds": self.campaign.budget.rounds},
                **{key: plain(getattr(self.campaign, key)) for key in ("branches", "code")},
            }
            body = {"campaign_id": campaign_id, "name": "coin", "task": "coin", "campaign": file}
            append(self.ledger, [("campaign started", {**body, "goal": {"success": 0.99, "confirm_starts": 30}})])
            append(self.ledger, begun_with(self.home, float(str(self.recipe.settings["skill"])), campaign_id))
            if self.campaign.branches.recipes and self.measured:  # robots search after this measurement
                [base] = [event.body["policy_id"] for event in self.ledger.events(kinds=("deployed",))]
                body = {"campaign_id": campaign_id, "policy_id": base, "successes": 0, "n": 0, "low": 0.0, "high": 1.0}
                append(self.ledger, [("base measured", body)])
            if self.paused:
                append(self.ledger, [("campaign paused", {"campaign_id": campaign_id, "by": "the test"})])
        state = rebuilt(self.ledger, campaign_id)
        fleet = FakeFleet(self.home.versions, lease=state.lease + 1)
        self.lab = Lab(
            campaign=self.campaign, recipe=self.recipe, base_recipe=self.recipe, home=self.home, ledger=self.ledger,
            records=Reading.of(self.ledger), store=FolderStore(self.home.episodes), fleet=fleet, state=state,
            task=CoinTask(), regimes=self.regimes,  # pyright: ignore[reportArgumentType]
        )  # fmt: skip
        return self

    def __exit__(self, *problem: object) -> None:
        shut_down(self.lab)
        self.ledger.close()

    def client(self, lane: str = "one") -> LabClient:
        return LabClient(self.home.root, Sender(campaign_id=self.lab.state.campaign_id, author="test", lane=lane))

    def until(self, true: Callable[[Lab], object], turns: int = 1500) -> None:
        """Turn the loop until something holds; it must within so many turns, or five minutes where something trains."""
        latest = time.monotonic() + 300
        for done in itertools.count():
            if done >= turns and time.monotonic() > latest:
                break
            if true(self.lab):
                return
            turn(self.lab)
        raise AssertionError(
            f"not within {turns} turns; the events were {[e.kind for e in self.ledger.events()][-20:]}"
        )

    def beside[T](self, work: Callable[[], T]) -> T:
        """Do something in a thread while the loop turns; what it returned or raised."""
        ends: list[T] = []
        problems: list[Exception] = []

        def run() -> None:
            try:
                ends.append(work())
            except Exception as problem:  # noqa: BLE001 - handed on to the test
                problems.append(problem)

        thread = threading.Thread(target=run)
        thread.start()
        while thread.is_alive():
            turn(self.lab)
        if problems:
            raise problems[0]
        return ends[0]


def begun_with(home: Home, skill: float, campaign_id: str) -> list[tuple[str, dict[str, object]]]:
    """A deployed base, and one own round that came to nothing: the next training run may be an experiment."""
    folder = home.root / "base"
    folder.mkdir()
    (folder / "policy.json").write_text(json.dumps({"kind": COIN_KIND, "chance": skill, "round": 0}))
    base = versions.publish(folder, home.versions)
    shared = {"campaign_id": campaign_id, "recipe_hash": "1", "data_hash": "2", "recipe": {}, "episodes": []}
    return [
        ("learner started", {**shared, "job": "J0", "learner": "x", "parent": "", "round": 0}),
        ("version made", {**shared, "policy_id": base, "kind": COIN_KIND, "parent": "", "round": 0}),
        ("learner ended", {**shared, "job": "J0", "policy_id": base, "round": 0, "figures": {}, "seconds": 1.0}),
        ("deployed", {"campaign_id": campaign_id, "policy_id": base, "previous": "", "reason": "base", "round": 0}),
        ("learner started", {**shared, "job": "J1", "learner": "x", "parent": base, "round": 1}),
        ("learner failed", {"campaign_id": campaign_id, "job": "J1", "why": "the test says so"}),
    ]


def with_skill(skill: float) -> Recipe:
    """The recipe with another beginning."""
    return replace(POOR, settings={**POOR.settings, "skill": skill})
