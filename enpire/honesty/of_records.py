"""Attacks on messages and records; the learner's channel, the acceptance of episodes and the ledger meet them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from enpire.campaign.acceptance import refusal
from enpire.campaign.agent_events import AgentTurned
from enpire.errors import EnpireError
from enpire.field_reader import Fields
from enpire.honesty.suite import Caught, Cheat, Scene
from enpire.ids import mint
from enpire.requests.agent_requests import AgentInbox, Sender, folder_of, leave
from enpire.requests.file_queue import Unreadable
from enpire.store.ledger import SqliteLedger
from enpire.types import Episode, Order, Start


def _refused(by: str, act: Callable[[], object]) -> Caught | None:
    try:
        act()
    except EnpireError as problem:
        return Caught(by=by, evidence=str(problem)[:200])
    return None


def _fake_result(scene: Scene) -> Caught | None:
    """A result whose numbers are an object with a text of their own, where the channel takes numbers."""
    line = {"success": '{"outcome": "success"}'}
    return _refused("channel of the learner", lambda: Fields(line, "The metrics").number("success"))


def _result(scene: Scene) -> Caught | None:
    value = scene.random.random()
    return _refused("channel of the learner", lambda: Fields({"success": value}, "The metrics").number("success"))


def _ledger(scene: Scene, forge: bool) -> Caught | None:
    """Write events, change one outside ENPIRE if `forge`, and open the ledger again, which verifies it."""
    path = scene.folder / "ledger.db"
    ledger = SqliteLedger(path)
    try:
        for number in range(scene.random.randint(3, 9)):
            text = f"turn {number} of {scene.random.random()}"
            ledger.append([AgentTurned(request_id=mint(), author="search", lane="one", text=text)], "c")
    finally:
        ledger.close()
    if forge:
        _forge(path)
    return _refused("verification of the ledger", lambda: SqliteLedger(path).close())


def _forge(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"turn 1 of", b"turn 7 of"))


def _order(scene: Scene) -> Order:
    start = Start(split="train", index=scene.random.randrange(1000), values=(0.5,), seed=1)
    return Order(
        order_id=mint(), campaign_id="c", station="s1", task="t", policy_id="v", start=start, purpose="search", round=1
    )


def _delivered(order: Order, ended: str, as_order: Order) -> Caught | None:
    episode = Episode(
        order=as_order, outcome="success", cause="", confidence=1.0, ran_policy_id=as_order.policy_id, ticks=100,
        began_s=0.0, ended_s=5.0,
    )  # fmt: skip
    why = refusal(order, ended, episode, "s1")
    return Caught(by="acceptance of episodes", evidence=why) if why else None


def _relabelled(scene: Scene) -> Caught | None:
    """The episode of another version, delivered again, and once more under the own name."""
    order = _order(scene)
    twice = _delivered(order, "success", order)
    other = _delivered(order, "", replace(order, policy_id="mine"))
    return twice if twice and other else None


def _accepted(scene: Scene) -> Caught | None:
    order = _order(scene)
    return _delivered(order, "", order)


def _request(scene: Scene, kind: str) -> Caught | None:
    """Leave a request as the process of an agent can: as a file in its own lane."""
    folder = folder_of(scene.folder, "search", "one")
    sender = Sender(campaign_id="c", author="search", lane="one")
    leave(scene.folder, sender, "finding", {"text": f"conclusion {scene.random.random()}", "about": ""})
    [path] = list(folder.glob("*.json"))
    written = json.loads(path.read_text())
    path.write_text(json.dumps({key: kind if value == "finding" else value for key, value in written.items()}))
    [found] = list(AgentInbox(scene.folder).waiting())
    return Caught(by="inbox of agents", evidence=found.why) if isinstance(found, Unreadable) else None


CHEATS = (
    Cheat(number=7, name="a fake result line", cheat=_fake_result, honest=_result),
    Cheat(
        number=22, name="edit rows of the ledger", cheat=lambda scene: _ledger(scene, True),
        honest=lambda scene: _ledger(scene, False),
    ),
    Cheat(number=23, name="an episode twice, or another's", cheat=_relabelled, honest=_accepted),
    Cheat(
        number=26, name="label one's own success", cheat=lambda scene: _request(scene, "judge success"),
        honest=lambda scene: _request(scene, "finding"),
    ),
)  # fmt: skip
