"""The cards of policy versions and datasets: README.md, written from the ledger alone."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable

from enpire.queries import texts
from enpire.queries.models import CampaignView, VersionView

ON_HIDDEN = "The starts of these trials were hidden from every learner and agent."


def version_card(policy_id: str, kind: str, found: tuple[CampaignView, VersionView] | None) -> str:
    """The card of a policy version.

    Args:
        policy_id: of the version.
        kind: of the version, as its policy.json names it.
        found: the campaign that used it and its line there; None for one that no campaign of the home used.
    """
    lines = [
        _head("robotics"),
        f"# Policy version {policy_id[:12]}",
        "",
        f"Id: `{policy_id}` (the hash of its files).",
        "",
    ]
    if found is None:
        return "\n".join([*lines, f"Kind: `{kind}`. No campaign of this home has used it.", ""])
    campaign, version = found
    rows = [
        ("task", campaign.task), ("kind", version.kind), ("state", version.state),
        ("success on hidden starts", texts.rate(version.hidden)), ("parent", texts.short(version.parent) or "none"),
        ("round", str(version.round)), ("recipe", texts.short(version.recipe_hash)),
        ("training data", texts.short(version.data_hash)), ("campaign", f"{campaign.name} ({campaign.id})"),
        ("code of the lab", campaign.code),
    ]  # fmt: skip
    if campaign.confirm is not None and campaign.confirm.id == policy_id:
        rows.insert(4, ("confirmation on fresh starts", texts.rate(campaign.confirm)))
    lines += [_table(("", "value"), rows), "", ON_HIDDEN, ""]
    gates = [gate for gate in campaign.gates if policy_id in (gate.candidate, gate.champion)]
    if gates:
        lines += ["## Gates", "", _table(
            ("gate", "as", "against", "decision", "pairs", "candidate alone succeeded", "champion alone succeeded"),
            [
                (
                    gate.id, "candidate" if gate.candidate == policy_id else "champion",
                    texts.short(gate.champion if gate.candidate == policy_id else gate.candidate),
                    f"{gate.decision} ({gate.reason})" if gate.reason else gate.decision,
                    str(gate.pairs), str(gate.wins), str(gate.losses),
                )
                for gate in gates
            ],
        ), ""]  # fmt: skip
    lines += [
        "## Use",
        "",
        "`enpire policy pull URL` copies it into a home and checks its hash; a campaign begins with it through",
        "`base: {policy: ID}`. A station runs it behind its guard. Success was measured on the task above alone.",
        "",
    ]
    return "\n".join(lines)


def dataset_card(campaign: str, task: str, rows: Iterable[tuple[str, str, str]]) -> str:
    """The card of exported episodes.

    Args:
        campaign: its name.
        task: of the episodes.
        rows: (purpose, outcome, policy version) of each episode.
    """
    counts, versions = Counter[tuple[str, str]](), Counter[str]()
    for purpose, outcome, policy in rows:
        counts[purpose, outcome] += 1
        versions[policy] += 1
    total = sum(versions.values())
    return "\n".join(
        [
            _head("robotics", "LeRobot"), f"# {total} episodes of {task}", "",
            f"From the campaign {campaign}. Outcomes are verdicts of its verifiers. Episodes on hidden starts are not",
            "part of it.", "",
            _table(("purpose", "outcome", "episodes"), [(*key, str(n)) for key, n in sorted(counts.items())]), "",
            _table(("policy version", "episodes"), [(texts.short(one), str(n)) for one, n in versions.most_common()]),
            "",
        ]
    )  # fmt: skip


def _head(*tags: str) -> str:
    return "\n".join(["---", f"tags: {json.dumps([*tags, 'enpire'])}", "---", ""])


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    cells = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/').replace(chr(10), ' ') for cell in row)} |" for row in cells)
