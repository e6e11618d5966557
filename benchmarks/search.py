"""`search` alone on a deliberately bad recipe, in the real simulator: `python -m benchmarks.search`.

Each run is `enpire run search_alone` in a fresh home. The first seed runs twice; the second home gets the first one's
secret, so that both have the same hidden starts. It prints the proposals in order with the decisions of their gates,
the time to the first that was kept, and whether the promises of docs/agents.md hold.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from agent_loop.agent_context import AgentContext
from agent_loop.agents.search import Search
from agent_loop.brief import make_brief
from agent_loop.lab_client import LabClient
from benchmarks.intervals import LEAST_SEEDS
from benchmarks.machine import describe
from benchmarks.tuning_seeds import SEARCH, verdict
from enpire.campaign.agent_events import ExperimentDecided, ExperimentSubmitted, HypothesisProposed
from enpire.campaign.events import LedgerEntry, kinds_of
from enpire.campaign.experiments import KINDS, Proposals
from enpire.campaign.gate_events import GateDecided
from enpire.campaign.session_events import CampaignStarted
from enpire.gate.reasons import reason_text
from enpire.home import open_home
from enpire.queries import campaigns
from enpire.queries.hypotheses import changes_text
from enpire.requests.agent_requests import Sender

CAMPAIGN, LANE = "search_alone", "search-1"
LIMIT_S = 600.0
FRESH = list(range(10, 10 + LEAST_SEEDS))
"""Seeds on which no setting was chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """One experiment and its decision."""

    statement: str
    changes: Mapping[str, object]
    decision: str
    gate: Mapping[str, Any]
    """The event "gate decided"; empty if its gate has not decided."""
    at_s: float
    """Seconds from the beginning of the campaign to the decision."""

    def line(self) -> str:
        """One line of the table."""
        if not self.gate:
            return f"          {self.decision:<12}  {changes_text(self.changes)}"
        points = f"{100 * self.delta:+6.1f} points [{100 * self.gate['low']:+6.1f}, {100 * self.gate['high']:+6.1f}]"
        reason = reason_text(str(self.gate["reason"]))
        counts = f"+{self.gate['wins']} -{self.gate['losses']} in {self.gate['pairs']} pairs, {reason}"
        return f"  {self.at_s:5.0f} s  {self.decision:<12}  {points}  {counts:<36}  {changes_text(self.changes)}"

    @property
    def delta(self) -> float:
        """Observed difference in success, candidate minus champion."""
        return (self.gate["wins"] - self.gate["losses"]) / max(1, self.gate["pairs"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One campaign."""

    seed: int
    proposals: Sequence[Proposal]
    gates: Sequence[tuple[object, ...]]
    """Of every gate, the campaign's own rounds included: decision, pairs, wins, losses, candidate's hash."""
    recomputed: bool
    """Whether the chain holds and every decision came out the same from the records."""
    proposed_again: tuple[int, int]
    """(proposals that the agent repeats from the ledger's facts of that time, all proposals)."""

    @property
    def first_kept_s(self) -> float:
        """Seconds to the first experiment that its gate accepted; infinite when there is none."""
        return min((item.at_s for item in self.proposals if item.decision == "keep"), default=float("inf"))


@dataclass(slots=True)
class Past(LabClient):
    """The client of a lane with the ledger as it was before an event."""

    before: int = 0

    def proposals(self) -> Proposals:
        """Everything that had been proposed by then."""
        proposals = Proposals()
        for entry in _events(self.home, KINDS):
            if entry.seq < self.before:
                proposals.apply(entry.event)
        return proposals


def run_once(seed: int, folder: Path, secret_of: Path | None = None) -> tuple[Run, Path]:
    """One campaign in a fresh home."""
    home = open_home(folder)
    if secret_of is not None:
        shutil.copy(secret_of / "secret", home.root / "secret")
    enpire(home.root, "run", CAMPAIGN, "--seed", str(seed), "--headless")
    return read(seed, home.root), home.root


def read(seed: int, home: Path) -> Run:
    """The run, read from the ledger of a home."""
    entries = _events(home, (*KINDS, *kinds_of(CampaignStarted)))
    known = Proposals()
    began_ns = next(entry.stamp_ns for entry in entries if isinstance(entry.event, CampaignStarted))
    ends_s: dict[str, float] = {}
    for entry in entries:
        known.apply(entry.event)
        if isinstance(entry.event, ExperimentDecided):
            ends_s[entry.event.experiment_id] = (entry.stamp_ns - began_ns) / 1e9
    proposals = [
        Proposal(
            statement=known.hypotheses[item.hypothesis_id].hypothesis.statement, changes=item.changes,
            decision=item.decision or item.phase, gate=item.gate.body() if item.gate else {},
            at_s=ends_s.get(item.experiment_id, 0.0),
        )
        for item in known.experiments.values()
    ]  # fmt: skip
    gates = [
        (gate.decision, gate.pairs, gate.wins, gate.losses, gate.candidate)
        for gate in (entry.event for entry in entries) if isinstance(gate, GateDecided)
    ]  # fmt: skip
    sound = all(enpire(home, "ledger", verb) == 0 for verb in ("verify", "recompute"))
    return Run(seed=seed, proposals=proposals, gates=gates, recomputed=sound, proposed_again=asked_again(seed, home))


def asked_again(seed: int, home: Path) -> tuple[int, int]:
    """Run the agent at every point of the history, from the ledger alone: (repeated proposals, all proposals)."""
    with campaigns.open_records(home) as records:
        campaign_id = campaigns.find_campaign(records, "")
    sender = Sender(campaign_id=campaign_id, author="search", lane=LANE)
    same, submitted, statement = 0, 0, ""
    for entry in _events(home, KINDS):
        event = entry.event
        if isinstance(event, HypothesisProposed):
            statement = event.hypothesis.statement
        elif isinstance(event, ExperimentSubmitted):
            submitted += 1
            asked: dict[str, Any] = {}
            facts = make_brief(Past(home, sender, before=entry.seq - 1))
            cast("dict[str, object]", facts["left"])["rounds"] = 1
            place = AgentContext(seed=seed * 1000, lane=LANE, work=home, spent=lambda _: None)
            Search(place, {}).turn(_recording(asked), facts)
            same += asked == {"statement": statement, "changes": event.changes}
    return same, submitted


def _recording(asked: dict[str, Any]) -> dict[str, Any]:
    """Tools that only record the agent's proposals."""

    def propose(statement: str, **more: object) -> dict[str, str]:
        asked["statement"] = statement
        return {"hypothesis_id": ""}

    def submit(hypothesis_id: str, changes: Mapping[str, object]) -> None:
        asked["changes"] = dict(changes)

    def nothing(**proposed: object) -> None:
        return None

    return {"propose_hypothesis": propose, "submit_candidate": submit, "post_finding": nothing, "adopt": nothing}


def _events(home: Path, kinds: Sequence[str]) -> list[LedgerEntry]:
    with campaigns.open_records(home) as records:
        return list(records.ledger.events(kinds=kinds))


def enpire(home: Path, *arguments: str) -> int:
    """Run a command as a user would, its output on stderr."""
    command = [sys.executable, "-m", "enpire.cli", *arguments, "--home", str(home)]
    return subprocess.run(command, env=os.environ.copy(), stdout=sys.stderr, check=False).returncode


def promises(runs: Sequence[Run], again: Run) -> list[tuple[str, bool]]:
    """The promises, with whether each holds."""
    first, everything = runs[0], [*runs, again]
    proposals = min(len(first.proposals), len(again.proposals))
    gates = min(len(first.gates), len(again.gates))
    proposed = [[(item.statement, item.changes) for item in run.proposals[:proposals]] for run in (first, again)]
    return [
        ("every seed: a proposal is kept by its gate within 10 minutes", all(r.first_kept_s <= LIMIT_S for r in runs)),
        (
            f"seed {first.seed} again: the same {proposals} proposals in the same order",
            proposals > 0 and proposed[0] == proposed[1],
        ),
        (
            f"seed {first.seed} again: the same {gates} gates, to the pair and to the candidate's hash",
            gates > 0 and first.gates[:gates] == again.gates[:gates],
        ),
        ("chain whole, every decision the same again", all(run.recomputed for run in everything)),
        (
            "asked again with the ledger's facts of its time, the agent proposes the same",
            all(run.proposed_again[0] == run.proposed_again[1] > 0 for run in everything),
        ),
    ]


def main() -> int:
    """Run the seeds, print the proposals and the promises; 1 when one is not kept."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seeds", type=int, nargs="+", default=FRESH)
    parser.add_argument("--keep", type=Path, help="folder for the homes; a temporary one when left out")
    given = parser.parse_args()
    print(f"{describe(given.seeds)}\nintervals 95 %, of each gate over its pairs\n{SEARCH.line(given.seeds)}")
    folder = given.keep or Path(tempfile.mkdtemp(prefix="enpire-search-"))
    made = [run_once(seed, folder / f"seed-{seed}") for seed in given.seeds]
    again, _ = run_once(given.seeds[0], folder / f"seed-{given.seeds[0]}-again", made[0][1])
    runs = [run for run, _ in made]
    for run, name in [*((run, f"seed {run.seed}") for run in runs), (again, f"seed {again.seed} again")]:
        print(f"{name}: first kept after {run.first_kept_s:.0f} s; {len(run.gates)} gates; agent asked again: "
              f"{run.proposed_again[0]} of {run.proposed_again[1]} proposals the same")  # fmt: skip
        print("\n".join(item.line() for item in run.proposals))
    kept = promises(runs, again)
    for what, holds in kept:
        print(f"{'PASS' if holds else 'FAIL'}  {what}")
    every = all(holds for _, holds in kept)
    print(verdict(every, len(given.seeds)))
    return 0 if every else 1


if __name__ == "__main__":
    sys.exit(main())
