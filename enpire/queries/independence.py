"""Whether the pairs of a campaign's gates are independent, as the gate's error level assumes."""

from __future__ import annotations

from enpire.gate.independence import LEAST_VOTES, Independence, Votes, independence
from enpire.gate.rule import stored_rule
from enpire.queries.campaign_history import History
from enpire.queries.data_models import IndependenceView
from enpire.queries.gates import finished_pairs
from enpire.queries.history_records import GateRecord
from enpire.store.reading import Reading

BLOCK = 16
"""Pairs of a block that the sentence proposes."""


def independence_of(reading: Reading, past: History) -> IndependenceView | None:
    """The test over all decided gates of a campaign; None before the first."""
    decided = [gate for gate in past.gates.values() if gate.decided is not None]
    if not decided:
        return None
    block = _block(decided[-1])
    won = sum(gate.decided.wins + gate.decided.losses for gate in decided if gate.decided is not None)
    if won < LEAST_VOTES:  # without numpy, which the test needs
        found = Independence(gates=len(decided), votes=won, compared=0, same=None, expected=None, p=None)
    else:
        found = independence(votes for gate in decided if (votes := _votes(reading, gate)) is not None)
    return IndependenceView(
        gates=found.gates, votes=found.votes, block=block, same=found.same, expected=found.expected, p=found.p,
        found=found.found, sentence=sentence(found, block),
    )  # fmt: skip


def sentence(found: Independence, block: int) -> str:
    """The result in one or two sentences, with what to do; `block` is the number of pairs of one vote."""
    unit = "pairs" if block == 1 else f"blocks of {block} pairs"
    if found.same is None or found.expected is None or found.p is None:
        return f"Too few {unit} with one winner to test whether they are independent: {found.votes} of {LEAST_VOTES}."
    numbers = (
        f"two {unit} near each other had the same winner in {found.same:.1%} of {found.compared} cases, by chance in "
        f"{found.expected:.1%} (p = {found.p:.2g})"
    )
    if not found.found:
        return f"No sign that {unit} depend on each other: {numbers}."
    size = BLOCK if block < BLOCK else 2 * block
    return (
        f"The {unit} of the gates are not independent: {numbers}. So false promotions are more likely than the gate's "
        f"level says; set `gate: {{block: {size}}}` in the campaign file."
    )


def _votes(reading: Reading, gate: GateRecord) -> Votes | None:
    pairs = finished_pairs(reading, gate.opened.gate_id)[: gate.decided.pairs if gate.decided else 0]
    return Votes.of(pairs, _block(gate)) if pairs else None


def _block(gate: GateRecord) -> int:
    return stored_rule(gate.opened.rule, "The recorded gate rule").block
