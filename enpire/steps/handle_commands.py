"""What people ask for: pause, resume, stop, promote, roll back. Read from the inbox, written to the ledger first.

A stop alone goes out, and is said to hold, before it is written down: a robot may always stand still, and the file in
the inbox stays until the ledger has it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from enpire.campaign.state import JUDGED
from enpire.errors import FileProblem
from enpire.gate.verifier_audit import BY, drift
from enpire.lab import Entry, Lab
from enpire.requests import operator_commands
from enpire.requests.operator_commands import Command, Spoilt
from enpire.steps.deploy import roll_back, swap
from enpire.store import versions
from enpire.store.records import PERSON_JUDGED

PATIENCE_S = 1.0
"""After so long a command that stations have not obeyed says which ones."""


def heed(lab: Lab) -> None:
    """Carry out every command in the inbox, once, in the order of arrival."""
    see_effects(lab)
    if not lab.due("inbox", 0.03):
        return
    for command in operator_commands.waiting(lab.home.inbox):
        if isinstance(command, Spoilt):
            lab.write(_set_aside(command))
        else:
            _heed_one(lab, command)
    _mind_the_verifier(lab)


def heed_stops(lab: Lab) -> None:
    """Send stops to the stations, and see what became of commands; what else was asked for waits."""
    see_effects(lab)
    for command in operator_commands.waiting(lab.home.inbox):
        if isinstance(command, Command) and command.verb == "stop":
            _heed_one(lab, command)


def refused_before(folder: Path, campaign_id: str) -> list[Entry]:
    """Put away what was left before a campaign began: the events that refuse it, for the campaign's begin."""
    entries: list[Entry] = []
    for command in list(operator_commands.waiting(folder)):
        if isinstance(command, Spoilt):
            entries.append(_set_aside(command))
            continue
        operator_commands.done(folder, command)
        body = _body(command)
        why = "it was left before this campaign began: ask again if it is still meant"
        entries += [("command requested", body), ("command refused", {**body, "why": why})]
    return [(kind, {"campaign_id": campaign_id, **body}) for kind, body in entries]


def _heed_one(lab: Lab, command: Command) -> None:
    body = _body(command)
    refusal = _why_not(lab, command)
    if refusal:
        lab.write(("command requested", body), ("command refused", {**body, "why": refusal}))
    else:
        if command.verb == "stop":
            _to_stations(lab, command)  # nobody waits for a disk to stop a robot
        lab.write(("command requested", body), ("command accepted", body))
        if command.verb != "stop":
            _CARRY_OUT[command.verb](lab, command)
        lab.pending_commands[command.command_id] = command, lab.clock()
    operator_commands.done(lab.home.inbox, command)


def _set_aside(spoilt: Spoilt) -> Entry:
    body = {"command_id": spoilt.command_id, "verb": "an unreadable file", "station": "", "by": "somebody"}
    return "command refused", {**body, "why": spoilt.why}


def _why_not(lab: Lab, command: Command) -> str:
    if command.verb not in _CARRY_OUT:
        return f"there is no verb {command.verb!r}; there are {', '.join(_CARRY_OUT)}"
    if command.campaign_id and command.campaign_id != lab.state.campaign_id:
        return f"it was for campaign {command.campaign_id}, and {lab.state.campaign_id} is the one that runs"
    if command.verb in _AT_STATIONS and command.target and command.target not in lab.stations:
        return f"there is no station {command.target!r} here; there are {', '.join(lab.stations) or 'none'}"
    if command.verb == "resume" and not lab.stations:
        return f"no station has joined yet, so there is none to {command.verb}"
    if command.verb == "promote":
        return _why_not_promoted(lab, command.target)
    if command.verb in _JUDGE and lab.state.ended.get(command.target) not in JUDGED:
        return f"{command.target!r} is no episode of this campaign that ended with a verdict"
    if command.verb == "rollback" and not _earlier(lab):
        return "there is no earlier champion to go back to"
    return ""


def _why_not_promoted(lab: Lab, policy_id: str) -> str:
    if not versions.ID.fullmatch(policy_id):
        return f"a policy version is named by 64 hexadecimal digits, which {policy_id[:70]!r} is not"
    try:
        versions.manifest(lab.home.versions / policy_id)
    except (FileProblem, OSError):
        return f"there is no policy version {policy_id!r}"
    own = {lab.campaign.base.policy, *lab.state.champions}
    if policy_id in own or any(
        (event.body["campaign_id"], event.body["policy_id"]) == (lab.state.campaign_id, policy_id)
        for event in lab.ledger.events(kinds=("version made",))
    ):
        return ""
    return f"the version {policy_id!r} was neither made in this campaign nor named as its base"


def _to_stations(lab: Lab, command: Command) -> None:
    for name in [command.target] if command.target else list(lab.stations):
        lab.fleet.control(name, command.verb, command.by)


def _pause(lab: Lab, command: Command) -> None:
    lab.write(("campaign paused", {"by": command.by, "why": ""}))


def _continue(lab: Lab, command: Command) -> None:
    lab.write(("campaign continued", {"by": command.by}))


def _end(lab: Lab, command: Command) -> None:
    lab.wanted, lab.for_good = f"{command.by} stopped the campaign", True


def _judge(lab: Lab, command: Command) -> None:
    """A person's verdict stands beside the verifier's; it never changes it."""
    outcome = command.verb.removeprefix("judge ")
    lab.write((PERSON_JUDGED, {"order_id": command.target, "outcome": outcome, "by": command.by}))


def _mind_the_verifier(lab: Lab) -> None:
    """Pause when too many of the verifier's successes may be none, and more are known than a person accepted."""
    state = lab.state
    if state.paused or not state.labels:
        return
    now = drift(state.labels.values(), lab.campaign.drift)
    if now.passed and now.wrong > state.wrong_accepted:
        figures = {"checked": now.checked, "wrong": now.wrong, "high": now.high, "limit": now.limit}
        lab.write(("campaign paused", {"by": BY, "why": now.sentence, **figures}))


def _promote(lab: Lab, command: Command) -> None:
    swap(lab, command.target, f"promoted by {command.by}{_because(command)}")


def _roll_back(lab: Lab, command: Command) -> None:
    roll_back(lab, _earlier(lab)[-1], f"rolled back by {command.by}{_because(command)}")


def _earlier(lab: Lab) -> list[str]:
    """The champions before this one first was it: going back twice goes back two steps."""
    champions = lab.state.champions
    return champions[: champions.index(lab.state.champion)] if champions else []


def _because(command: Command) -> str:
    return f": {command.reason}" if command.reason else ""


def _body(command: Command) -> dict[str, object]:
    """What the ledger says of a command; `station` names whatever it concerns."""
    said = {"command_id": command.command_id, "verb": command.verb, "station": command.target, "by": command.by}
    return {**said, **({"reason": command.reason} if command.reason else {})}


_AT_STATIONS = ("pause", "resume", "stop")
_JUDGE = ("judge success", "judge failure", "judge unsafe")
_CARRY_OUT: Mapping[str, Callable[[Lab, Command], None]] = {
    "pause": _to_stations,
    "resume": _to_stations,
    "stop": _to_stations,
    "pause campaign": _pause,
    "continue campaign": _continue,
    "end campaign": _end,
    **dict.fromkeys(_JUDGE, _judge),
    "promote": _promote,
    "rollback": _roll_back,
}


def see_effects(lab: Lab) -> None:
    """A command at stations is effective when every station that it names says so in its beat."""
    for command, _ in list(lab.pending_commands.values()):
        if not _still_to_obey(lab, command) and (lab.stations or command.verb not in _AT_STATIONS):
            if command.verb == "stop":
                lab.tell("command effective", _body(command))  # nobody waits for a disk to hear that a robot holds
            lab.write(("command effective", _body(command)))
            del lab.pending_commands[command.command_id]


def hold_again(lab: Lab, station: str) -> None:
    """A station that is there (again) hears what people ask of it: words to one that was away were lost."""
    holds = lab.state.holds.at(station)
    for verb, by in holds.items():
        lab.fleet.control(station, verb, by)
        lab.write(("station held", {"station": station, "verb": verb, "by": by}))
    waiting = [command for command, _ in lab.pending_commands.values() if command.target in ("", station)]
    if not holds and (resumed := [command for command in waiting if command.verb == "resume"]):
        lab.fleet.control(station, "resume", resumed[-1].by)


def waited_for(lab: Lab) -> Mapping[str, str]:
    """Commands that stations should have obeyed by now: id -> which ones have not, in a sentence."""
    found: dict[str, str] = {}
    for command, since_s in lab.pending_commands.values():
        late = _still_to_obey(lab, command)
        if not lab.stations and command.verb in _AT_STATIONS:
            found[command.command_id] = "no station has joined yet; it holds whichever joins"
        if late and lab.clock() > since_s + PATIENCE_S:
            away = [name for name in late if lab.stations[name].away_since_s is not None]
            told = f"; not heard from: {', '.join(away)}, told again when back" if away else ""
            found[command.command_id] = f"not done yet by {', '.join(late)}{told}"
    return found


def _still_to_obey(lab: Lab, command: Command) -> list[str]:
    """Stations that a command names and that do not say yet that it holds."""
    if command.verb not in _AT_STATIONS:
        return []
    named = [command.target] if command.target else list(lab.stations)
    return [name for name in named if not _obeys(lab, name, command.verb)]


def _obeys(lab: Lab, station: str, verb: str) -> bool:
    beat = lab.stations[station].last_beat
    if beat is None:
        return False
    return {"stop": beat.stopped, "pause": beat.paused, "resume": not beat.stopped and not beat.paused}[verb]
