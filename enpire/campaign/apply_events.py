"""Events folded into the state of a campaign: one function per kind of event that moves it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

from enpire.campaign.state import CampaignState, Confirmation, OpenGate, Training
from enpire.interfaces import Ledger
from enpire.store.records import episode_from, order_from


def fold(state: CampaignState, kind: str, body: Mapping[str, object]) -> None:
    """Fold one event in; kinds that do not move the campaign are passed over."""
    handler = _HANDLERS.get(kind)
    if handler is not None:
        handler(state, body)
    state.ideas.apply(kind, body)


def rebuilt(ledger: Ledger, campaign_id: str) -> CampaignState:
    """The state of a campaign from its events; what people ask of stations holds across campaigns."""
    state = CampaignState(campaign_id=campaign_id)
    for event in ledger.events():
        if event.body.get("campaign_id") == campaign_id:
            fold(state, event.kind, event.body)
        elif event.kind == "command accepted":
            _accepted(state, event.body)
    return state


def _orders_issued(state: CampaignState, body: Mapping[str, object]) -> None:
    for item in cast("Iterable[Mapping[str, object]]", body["orders"]):
        state.issue(order_from(item))


def _orders_ended(state: CampaignState, body: Mapping[str, object]) -> None:
    for item in cast("Iterable[Mapping[str, object]]", body["episodes"]):
        order = state.open.get(str(item["order_id"]))
        if order is not None:
            state.end(episode_from(item, order))


def _orders_found(state: CampaignState, body: Mapping[str, object]) -> None:
    for item in cast("Iterable[Mapping[str, object]]", body["episodes"]):
        order = state.unknown.get(str(item["order_id"]))
        if order is not None:
            state.find(episode_from(item, order))


def _started(state: CampaignState, body: Mapping[str, object]) -> None:
    state.campaign_id = _text(body, "campaign_id")
    state.verifier = str(body.get("verifier", ""))


def _resumed(state: CampaignState, body: Mapping[str, object]) -> None:
    state.wall_s, state.session_s = state.wall_s + state.session_s, 0.0
    state.robot_s, state.robot_session_s = state.robot_s + state.robot_session_s, 0.0
    state.over = False
    state.verifier = str(body.get("verifier", "")) or state.verifier
    if why := str(body.get("after", "")):
        state.cut_off = dict.fromkeys(state.open, why)


def _robot_time(state: CampaignState, body: Mapping[str, object]) -> None:
    state.session_s = _number(body, "wall_s")
    state.robot_session_s = _number(body, "robot_s")


def _joined(state: CampaignState, body: Mapping[str, object]) -> None:
    state.lease = max(state.lease, int(_number(body, "lease")))


def _learning(state: CampaignState, body: Mapping[str, object]) -> None:
    state.training = Training(
        job=_text(body, "job"),
        parent=_text(body, "parent"),
        round=int(_number(body, "round")),
        recipe_hash=_text(body, "recipe_hash"),
        data_hash=_text(body, "data_hash"),
        recipe=cast("Mapping[str, object]", body["recipe"]),
        episodes=tuple(map(str, cast("Iterable[object]", body["episodes"]))),
        experiment_id=str(body.get("experiment_id", "")),
    )
    state.round = max(state.round, state.training.round)
    if not state.training.experiment_id:
        state.fresh = 0


def _learned(state: CampaignState, body: Mapping[str, object]) -> None:
    own = state.training is None or not state.training.experiment_id
    state.training, state.failures_in_a_row = None, 0 if own else state.failures_in_a_row
    version = _text(body, "policy_id")
    state.candidates.append((version, int(_number(body, "round"))))


def _not_learned(state: CampaignState, body: Mapping[str, object]) -> None:
    own = state.training is None or not state.training.experiment_id
    state.training, state.failures_in_a_row = None, state.failures_in_a_row + own


def _accepted(state: CampaignState, body: Mapping[str, object]) -> None:
    verb = _text(body, "verb")
    if verb in ("stop", "pause", "resume"):
        state.holds.ask(verb, _text(body, "station"), _text(body, "by"))


def _base_measured(state: CampaignState, body: Mapping[str, object]) -> None:
    state.base_measured = True


def _gate_opened(state: CampaignState, body: Mapping[str, object]) -> None:
    state.gates = int(_number(body, "k"))
    candidate = _text(body, "candidate")
    state.candidates = [item for item in state.candidates if item[0] != candidate]
    state.gate = OpenGate(
        gate_id=_text(body, "gate_id"), champion=_text(body, "champion"), candidate=candidate,
        round=int(_number(body, "round")), k=state.gates, level=_number(body, "alpha"),
    )  # fmt: skip


def _gate_decided(state: CampaignState, body: Mapping[str, object]) -> None:
    state.gate = None
    state.promoted += body["decision"] == "promote"


def _deployed(state: CampaignState, body: Mapping[str, object]) -> None:
    state.champion = _text(body, "policy_id")
    if state.gate is not None:  # a person was quicker: the candidate is judged anew, against the new champion
        state.candidates.insert(0, (state.gate.candidate, state.gate.round))
        state.gate = None
    if state.confirmation is not None and state.confirmation.policy_id != state.champion:
        state.confirmation = None
    state.candidates = [item for item in state.candidates if item[0] != state.champion]
    state.champions.append(state.champion)
    state.base_policy = state.base_policy or state.champion


def _rolled_back(state: CampaignState, body: Mapping[str, object]) -> None:
    state.champion = _text(body, "to")
    state.champions.append(state.champion)
    state.candidates, state.gate, state.confirmation = [], None, None


def _confirming(state: CampaignState, body: Mapping[str, object]) -> None:
    state.confirmation = Confirmation(policy_id=_text(body, "policy_id"), n=int(_number(body, "n")))


def _confirmed(state: CampaignState, body: Mapping[str, object]) -> None:
    state.confirmation = None
    state.confirmed[_text(body, "policy_id")] = bool(body["passed"])


def _judged(state: CampaignState, body: Mapping[str, object]) -> None:
    said = state.ended.get(_text(body, "order_id"))
    if said is not None:
        state.labels[_text(body, "order_id")] = (said, _text(body, "outcome"))


def _paused(state: CampaignState, body: Mapping[str, object]) -> None:
    state.paused, state.paused_why = True, str(body.get("why", ""))


def _continued(state: CampaignState, body: Mapping[str, object]) -> None:
    state.paused, state.paused_why = False, ""
    state.wrong_accepted = sum(said == "success" != person for said, person in state.labels.values())


def _ended(state: CampaignState, body: Mapping[str, object]) -> None:
    state.over = True


_HANDLERS = {
    "order issued": _orders_issued,
    "orders ended": _orders_ended,
    "orders found": _orders_found,
    "campaign started": _started,
    "command accepted": _accepted,
    "campaign resumed": _resumed,
    "person judged": _judged,
    "campaign paused": _paused,
    "campaign continued": _continued,
    "campaign ended": _ended,
    "robot time": _robot_time,
    "station joined": _joined,
    "learner started": _learning,
    "learner ended": _learned,
    "learner failed": _not_learned,
    "base measured": _base_measured,
    "gate opened": _gate_opened,
    "gate decided": _gate_decided,
    "deployed": _deployed,
    "rolled back": _rolled_back,
    "confirm opened": _confirming,
    "confirmed": _confirmed,
}


def _text(body: Mapping[str, object], key: str) -> str:
    return str(body[key])


def _number(body: Mapping[str, object], key: str) -> float:
    return float(cast("float", body[key]))
