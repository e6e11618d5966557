"""Put an experiment into quarantine when its success is not believable. A person clears it (docs/honesty.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from enpire.campaign.agent_events import ExperimentSubmitted
from enpire.campaign.learner_data import DataRow
from enpire.campaign.quarantine_events import EpisodeSuspected, ExperimentQuarantined, LaneSuspected, Tripwire
from enpire.campaign.state import OpenGate
from enpire.errors import EnpireError
from enpire.gate.plausibility import Compared, KnownSuccesses, doubt, gap_doubt, known_successes
from enpire.lab import Lab
from enpire.steps.quarantine_commands import hold
from enpire.store import canary
from enpire.store.arrays import unpack
from enpire.types import COLLECTION, Episode, FloatArray

MOST_KNOWN = 256
"""Known successes that are read at one time."""
_SHOWN = 4


def quarantine(lab: Lab) -> None:
    """Hold the experiments whose successes are suspected, and those far better in the search than in their gate."""
    held = [*_promotions(lab), *lab.state.quarantine.due()]  # what is suspected is newer than what waits
    changed = [gate for gate in lab.state.gates.values() if len(gate.trials) != gate.read]
    held += [found for gate in changed if (found := _gap(lab, gate)) is not None]
    if held:
        hold(lab, *held)


def _promotions(lab: Lab) -> list[ExperimentQuarantined]:
    """The candidates that wait for an approval before their gate; the first version of a campaign does not."""
    state = lab.state
    if not (lab.campaign.approvals.promotions and state.champion):
        return []
    found: list[ExperimentQuarantined] = []
    for candidate, _ in state.free_candidates:
        experiment, version = state.quarantine.subject_of(candidate)
        if state.quarantine.may_trip(experiment or version, "promotion approval"):
            found.append(
                ExperimentQuarantined(
                    experiment_id=experiment, policy_id=version, tripwire="promotion approval",
                    why="a candidate enters its gate, and can be promoted, only after an approval",
                )
            )  # fmt: skip
    return found


def suspicions(lab: Lab, arrived: Iterable[Episode]) -> list[EpisodeSuspected]:
    """The successes of versions that want to replace the champion and that no known success resembles.

    `arrived`: episodes with their arrays.
    """
    state = lab.state
    successes = [
        (episode.order, episode.arrays.state) for episode in arrived
        if episode.outcome == "success" and episode.arrays and episode.order.purpose in ("search", "gate")
        and episode.order.policy_id not in state.champions and episode.order.campaign_id == state.campaign_id
    ]  # fmt: skip
    known = _known(lab) if successes else None
    if known is None:
        return []
    found: list[EpisodeSuspected] = []
    for order, states in successes:
        why = doubt(states, known)
        experiment, version = state.quarantine.subject_of(order.policy_id)
        if why is not None and state.quarantine.may_trip(experiment or version, why.tripwire):
            found.append(
                EpisodeSuspected(
                    experiment_id=experiment, policy_id=version, order_id=order.order_id, tripwire=why.tripwire,
                    why=why.why, successes=_successes(lab, experiment, version),
                )
            )  # fmt: skip
    return found


def _successes(lab: Lab, experiment: str, version: str) -> int:
    """Successes of the versions of an experiment, or of one version, in the search and on hidden starts."""
    state = lab.state
    branch = state.branches.by_experiment.get(experiment)
    total = 0
    for one in branch.versions if branch else [version]:
        searched, trials = state.branches.searched.get(one), state.forecast.trials.get(one)
        total += sum(success for success, _ in searched.results.values()) if searched else 0
        total += trials.successes if trials else 0
    return total


def read_submission(
    lab: Lab, submitted: ExperimentSubmitted, files: Mapping[str, str], asked: Sequence[str] = ()
) -> list[ExperimentQuarantined]:
    """The quarantines of a new experiment: its texts repeat the canary, or its code asks for what it must not.

    Where the campaign asks for it, an experiment of an agent also waits for an approval.

    Args:
        lab: the lab.
        submitted: the experiment.
        files: its code: path -> text.
        asked: what its code asks for and must not (`probes`).
    """
    proposals = lab.state.proposals
    texts = [*files.values(), *(str(value) for value in submitted.changes.values())]
    if proposed := proposals.hypotheses.get(submitted.hypothesis_id):
        claim = proposed.hypothesis
        texts += [claim.statement, claim.falsifier, claim.regime, proposed.effect]
    texts += [one.text for one in proposals.conclusions if one.lane == submitted.lane]
    found: list[ExperimentQuarantined] = []
    if lab.campaign.approvals.experiments:  # first: who answers sees the newest reason
        found.append(_held(submitted, "approval", "an experiment of an agent starts only after an approval"))
    if canary.sung(lab.secret, texts):
        why = f"a text of its session repeats the word of {canary.FILE}, which nothing honest reads"
        found.append(_held(submitted, "canary", why))
    if asked:
        more = f", and {len(asked) - _SHOWN} more" if len(asked) > _SHOWN else ""
        found.append(_held(submitted, "probe", "; ".join(asked[:_SHOWN]) + more))
    return [*found, *lab.state.quarantine.of_lane(submitted.lane, submitted.experiment_id)]


def suspect_lane(lab: Lab, author: str, lane: str, tripwire: Tripwire, why: str) -> None:
    """Hold the open experiments of an agent session, and those that it submits until a person clears one."""
    quarantine = lab.state.quarantine
    if (lane, tripwire) in quarantine.suspects:
        return
    held = [
        ExperimentQuarantined(experiment_id=one.experiment_id, policy_id=one.policy_id, tripwire=tripwire, why=why)
        for one in lab.state.proposals.undecided(lane)
        if quarantine.may_trip(one.experiment_id, tripwire)
    ]
    hold(lab, LaneSuspected(author=author, lane=lane, tripwire=tripwire, why=why), *held)


def _held(submitted: ExperimentSubmitted, tripwire: Tripwire, why: str) -> ExperimentQuarantined:
    return ExperimentQuarantined(experiment_id=submitted.experiment_id, policy_id="", tripwire=tripwire, why=why)


def _gap(lab: Lab, gate: OpenGate) -> ExperimentQuarantined | None:
    """The quarantine of a candidate whose gain in the search is far above its gain in the gate."""
    state = lab.state
    experiment, version = state.quarantine.subject_of(gate.candidate)
    mine, other = (state.branches.searched.get(one) for one in (gate.candidate, gate.champion))
    if mine is None or other is None or not state.quarantine.may_trip(experiment or version, "gate gap"):
        return None
    starts = mine.results.keys() & other.results.keys()
    pairs = gate.finished.pairs
    if not starts or not pairs:
        return None
    search = Compared(
        version=sum(mine.results[start][0] for start in starts),
        champion=sum(other.results[start][0] for start in starts), n=len(starts),
    )  # fmt: skip
    ended = Compared(
        version=sum(pair.candidate.outcome == "success" for pair in pairs),
        champion=sum(pair.champion.outcome == "success" for pair in pairs), n=len(pairs),
    )  # fmt: skip
    if not (why := gap_doubt(search, ended)):
        return None
    return ExperimentQuarantined(experiment_id=experiment, policy_id=version, tripwire="gate gap", why=why)


def _known(lab: Lab) -> KnownSuccesses | None:
    """What the known successes have in common; read again when their number has doubled."""
    if len(lab.state.data.rows) < lab.known_due:
        return lab.known
    rows = [
        row for row in lab.state.data.rows
        if row.success and row.purpose in ("demonstrate", *COLLECTION) and not lab.state.quarantine.holds(row.policy_id)
    ]  # fmt: skip
    if len(rows) >= _due(lab.known_from):
        lab.known_from = max(1, len(rows))
        states = [state for row in spread(rows) if (state := _state(lab, row.order_id)) is not None]
        sensed = lab.task.spec.state
        lab.known = known_successes(states, [one.name for one in sensed], [one.is_rate for one in sensed])
    lab.known_due = len(lab.state.data.rows) + max(1, _due(lab.known_from) - len(rows))
    return lab.known


def spread(rows: Sequence[DataRow]) -> list[DataRow]:
    """At most MOST_KNOWN rows, about equally many of each version: one that acts alike each time stands not for all."""
    by_version: dict[str, list[DataRow]] = {}
    for row in rows:
        by_version.setdefault(row.policy_id, []).append(row)
    chosen: list[DataRow] = []
    for left, own in zip(range(len(by_version), 0, -1), sorted(by_version.values(), key=len), strict=True):
        room = (MOST_KNOWN - len(chosen)) // left
        step = max(1, -(-len(own) // max(1, room)))
        chosen += own[::step][:room]
    return chosen


def _due(known_from: int) -> int:
    """Number of known successes at which they are read again."""
    return min(2 * known_from, MOST_KNOWN) if known_from < MOST_KNOWN else 2 * known_from


def _state(lab: Lab, order_id: str) -> FloatArray | None:
    """The states of a stored episode; None where it cannot be read."""
    try:
        folder = lab.store.folder(order_id, lab.state.campaign_id)
        return unpack((folder / "arrays.npz").read_bytes()).state
    except (EnpireError, OSError):
        return None
