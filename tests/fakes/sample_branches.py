"""A campaign with branches in a real ledger: one enters a gate and is kept, one ends without a gain, one still acts."""

from __future__ import annotations

from pathlib import Path

from enpire.campaign.branches import Branches
from enpire.types import Order
from tests.fakes.sample_campaign import BASE, CampaignWriter, begin
from tests.fakes.sample_events import event

GOOD, BAD, MORE = (f"01J000000000000000000{name}" for name in ("GOOD0", "BAD00", "MORE0"))
"""Experiments of the branches."""
LIMIT = 100
"""Time limit of the task, in ticks."""
RECIPE = {"name": "hil_serl", "learner": "hil_serl", "settings": {"updates": 8}}


def version(name: str, turn: int) -> str:
    """The version that a branch made in a turn."""
    return {GOOD: "1", BAD: "2", MORE: "3"}[name] + f"{turn:063}"


def record_branches(home: Path, regime: str = "hil_serl", **plan: object) -> CampaignWriter:
    """Write the campaign. A branch's version succeeds on all starts, on none, or on two of three.

    `regime` is that of the last branch.
    """
    record = begin(home)
    record.entries[0][1]["campaign"] = {
        "branches": {"robot_s": 400.0, "learns_from": "own", "sharing": "adopt", **plan}
    }
    for number, name in enumerate((GOOD, BAD, MORE), start=1):
        _submit(record, name, number, regime if name == MORE else "hil_serl")
    _search(record, BASE, "", 24, every=3)
    for turn in (1, 2):
        _learn(record, GOOD, turn, BASE if turn == 1 else version(GOOD, 1))
        _search(record, version(GOOD, turn), GOOD, 12 * turn, every=1)
    _learn(record, BAD, 1, BASE)
    _search(record, version(BAD, 1), BAD, 24, every=0)
    late = _order(record, version(BAD, 1), BAD, 30)
    record.end(late, "unknown", "no answer")
    record.end(_order(record, version(BAD, 1), BAD, 31), "aborted", "refused: it cannot load the version")
    _decide(record, "branch ended", BAD, reason="no gain", detail="")
    _decide(record, "branch entered gate", GOOD)
    decision = record.gate(1, 0, (BASE, 0.3), (version(GOOD, 2), 0.95))
    assert decision == "promote"
    gate_id = f"01J{1:023}"
    record.tell(
        "experiment decided", experiment_id=GOOD, hypothesis_id="idea-1", policy_id=version(GOOD, 2), gate_id=gate_id,
        pairs=20, recipe_hash="r", decision="keep", reason="better", delta=0.6, low=0.2, high=0.9,
    )  # fmt: skip
    _search(record, version(GOOD, 2), "", 24, every=1)
    _learn(record, MORE, 1, version(GOOD, 2))
    _search(record, version(MORE, 1), MORE, 15, every=2)
    _order(record, version(MORE, 1), MORE, 15)
    record.robot_time(60.0)
    record.flush()
    return record


def _submit(record: CampaignWriter, name: str, number: int, regime: str) -> None:
    idea = {
        "hypothesis_id": f"idea-{number}", "statement": f"regime {number} is better", "falsifier": "no gain",
        "regime": "offline RL", "kind": "draft", "author": "search", "lane": f"search-{number}", "parents": [],
    }  # fmt: skip
    record.tell("hypothesis proposed", hypothesis=idea, edges=[], effect="", lane=f"search-{number}")
    record.tell(
        "experiment submitted", experiment_id=name, hypothesis_id=f"idea-{number}", author="search",
        lane=f"search-{number}", changes={"updates": 8}, recipe=RECIPE, recipe_hash="r", champion=BASE,
        regime=regime, parent_experiment=GOOD if name == MORE else "", turn_rollouts=12,
    )  # fmt: skip
    record.tell("experiment checked", experiment_id=name, hypothesis_id=f"idea-{number}")


def _order(record: CampaignWriter, policy: str, branch: str, index: int) -> Order:
    return record.order("search", policy, 1, index=2 * index, branch=branch)


def _search(record: CampaignWriter, policy: str, branch: str, n: int, *, every: int) -> None:
    """Search rollouts on the first n starts, of which each `every`-th succeeds (0: none)."""
    for index in range(n):
        won = bool(every) and index % every == 0
        record.end(_order(record, policy, branch, index), "success" if won else "failure", ticks=40 if won else 90)


def _learn(record: CampaignWriter, name: str, turn: int, parent: str) -> None:
    own = [order for kind, body in record.entries if kind == "order issued" for order in _orders(body)]
    episodes = [str(one["order_id"]) for one in own if one["purpose"] == "demonstrate" or one.get("branch") == name]
    shared = {"recipe_hash": "r", "data_hash": "d"}
    job, made = f"{name}-{turn}", version(name, turn)
    record.tell(
        "learner started", job=job, learner="hil_serl", parent=parent, round=1 + turn, episodes=episodes,
        recipe=RECIPE, experiment_id=name, turn=turn, **shared,
    )  # fmt: skip
    record.tell("version made", policy_id=made, kind="flow", parent=parent, round=1 + turn, **shared)
    record.tell("learner ended", job=job, policy_id=made, round=1 + turn, seconds=12.0, figures={})


def _orders(body: dict[str, object]) -> list[dict[str, object]]:
    orders = body["orders"]
    assert isinstance(orders, list)
    return orders


def _decide(record: CampaignWriter, kind: str, name: str, **more: object) -> None:
    branches = Branches()
    for entry, body in record.entries:
        branches.apply(event(entry, **body))
    branch = branches.by_experiment[name]
    gain = branches.gain(branch.newest, LIMIT)
    record.tell(
        kind, experiment_id=name, policy_id=branch.newest, champion=branches.champion, n=gain.n, gain=gain.mean,
        low=gain.low, high=gain.high, robot_s=branch.robot_s, learner_s=branch.learner_s, limit_ticks=LIMIT, **more,
    )  # fmt: skip
