"""The table, the plot and the pass lines of the benchmark of improvement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape

import numpy as np

from benchmarks.improvement_viability import ViabilitySample, claims
from enpire.gate.intervals import wilson


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """One evaluation: an arm after a round."""

    seed: int
    arm: str
    round: int
    success: Sequence[bool]
    ticks: Sequence[int]
    version: str
    episodes: Sequence[str]
    """Folders of the episodes that the round collected."""
    learning_cpu_s: float
    steps: int = 0
    """Gradient steps of the actor."""
    commit: str = "not written down"
    """The commit of the measurement, with a plus if the working tree differed."""
    gave_up: bool = False
    """The learner failed in this round; the version before was evaluated again."""

    def mapping(self) -> dict[str, object]:
        """As a line of results.jsonl."""
        return asdict(self)

    def text(self) -> str:
        """Success with its interval."""
        return _text(self.success, self.ticks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A claim that one arm is better than another, with the threshold that it must reach."""

    better: str
    worse: str
    least_gain: float = 0.0
    """Minimum of the mean difference in success; the lower 95 % bound must also be above 0."""
    shorter: bool = False
    """Compare the ticks where both succeed instead of success."""

    def text(self) -> str:
        """The claim in words."""
        if self.shorter:
            return f"{self.better} is shorter than {self.worse} where both succeed"
        least = f" by {self.least_gain:.0%} or more" if self.least_gain else ""
        return f"{self.better} beats {self.worse}{least}"


CLAIMS = (
    Claim(better="habc_plus", worse="sft", least_gain=0.10),
    Claim(better="habc_plus", worse="filtered_bc"),
    Claim(better="habc_plus", worse="habc_v"),
    Claim(better="habc_plus", worse="filtered_bc", shorter=True),
    Claim(better="habc_plus", worse="naive_labels"),
    Claim(better="habc_plus", worse="hard_gate"),
)


OWN_START = frozenset({"hil_serl", "awac", "iql", "lerobot_act", "spiral_search"})
"""Arms that do not start from the base policy."""
LEAST_PAIRS = 30
"""With fewer pairs a claim neither passes nor fails, because a bootstrap interval needs more."""


def table(found: Mapping[str, Sequence[Evaluation]], last: int, viability: Sequence[ViabilitySample] = ()) -> str:
    """Every arm after the last round, its differences, and the claims with pass, FAIL or too few."""
    final = {
        name: [item for item in items if item.round in {0 if name == "base" else last}] for name, items in found.items()
    }
    lines = [f"{'arm':20} {'success':58} {'minus base':26} {'minus filtered_bc':26} {'steps':>6} CPU s"]
    for name, items in final.items():
        success, ticks = _pooled(items)
        against = [
            _difference(final, name, other) if other in final and name != other else ""
            for other in ("base", "filtered_bc")
        ]
        cost, steps = sum(item.learning_cpu_s for item in found[name]), sum(item.steps for item in found[name])
        stopped = sum(item.gave_up for item in found[name])
        note = f", gave up in {stopped} round(s)" if stopped else ""
        marked = f"{name} *" if name in OWN_START else name
        lines.append(
            f"{marked:20} {_text(success, ticks):58} {against[0]:26} {against[1]:26} {steps:6} {cost:.0f}{note}"
        )
    if OWN_START & set(final):
        lines.append("* starts from networks or a program of its own, not from the base")
    lines += ["", "claims"] + [f"  {_verdict(claim, final):8} {claim.text()}" for claim in CLAIMS] + claims(viability)
    return "\n".join(lines)


def bootstrap(differences: np.ndarray) -> tuple[float, float]:
    """95 % interval of the mean of paired differences (pairs,), from 2000 resamples of the pairs."""
    random = np.random.default_rng(0)
    means = differences[random.integers(len(differences), size=(2000, len(differences)))].mean(axis=1)
    low, high = np.quantile(means, (0.025, 0.975))
    return float(low), float(high)


def curve(found: Mapping[str, Sequence[Evaluation]], title: str) -> str:
    """Success over rounds, one line for each arm, as SVG."""
    rounds = max(item.round for items in found.values() for item in items)
    wide, high, colours = 720, 420, ("#1b6ca8", "#d1495b", "#2e933c", "#8d5a97", "#edae49", "#00798c", "#6b705c")
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide + 220} {high + 70}" font-family="sans-serif" '
        f'font-size="12"><text x="50" y="18">{escape(title)}</text>'
    ]

    def place(round_: int, rate: float) -> tuple[float, float]:
        return 50 + (wide - 60) * round_ / max(1, rounds), 30 + high * (1 - rate)

    for tenth in range(0, 11, 2):
        x, y = place(0, tenth / 10)
        parts.append(f'<path d="M{x} {y}H{wide - 10}" stroke="#ddd"/><text x="10" y="{y + 4}">{tenth * 10} %</text>')
    for round_ in range(rounds + 1):
        x, y = place(round_, 0)
        parts.append(f'<text x="{x - 3}" y="{y + 18}">{round_}</text>')
    begin = float(np.mean(_pooled(found["base"])[0]))
    for index, (name, items) in enumerate((name, items) for name, items in found.items() if name != "base"):
        rates = [begin] + [
            float(np.mean(_pooled([item for item in items if item.round == r])[0])) for r in range(1, rounds + 1)
        ]
        colour, dash = colours[index % len(colours)], "" if index < len(colours) else ' stroke-dasharray="5 3"'
        points = " ".join("{:.1f},{:.1f}".format(*place(r, rate)) for r, rate in enumerate(rates))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>')
        parts.append(
            f'<text x="{wide + 10}" y="{40 + 18 * index}" fill="{colour}">{escape(name)} {rates[-1]:.0%}</text>'
        )
    return "".join(parts) + "</svg>\n"


def _pooled(items: Sequence[Evaluation]) -> tuple[list[bool], list[int]]:
    ordered = sorted(items, key=lambda item: item.seed)
    return [one for item in ordered for one in item.success], [one for item in ordered for one in item.ticks]


def _text(success: Sequence[bool], ticks: Sequence[int]) -> str:
    found = wilson(sum(success), len(success))
    good = [tick for tick, won in zip(ticks, success, strict=True) if won]
    median = f"{np.median(good):.0f}" if good else "-"
    return f"{found.rate:6.1%} [{found.low:.1%}, {found.high:.1%}] of {len(success)}, median {median} ticks"


def _paired(final: Mapping[str, Sequence[Evaluation]], name: str, other: str, shorter: bool = False) -> np.ndarray:
    (ours, our_ticks), (theirs, their_ticks) = _pooled(final[name]), _pooled(final[other])
    if shorter:
        rows = zip(ours, theirs, our_ticks, their_ticks, strict=True)
        return np.array([float(b - a) for won, also, a, b in rows if won and also])
    return np.array([float(a) - float(b) for a, b in zip(ours, theirs, strict=True)])


def _difference(final: Mapping[str, Sequence[Evaluation]], name: str, other: str) -> str:
    gain = _paired(final, name, other)
    low, high = bootstrap(gain)
    return f"{gain.mean():+.1%} [{low:+.1%}, {high:+.1%}]"


def _verdict(claim: Claim, final: Mapping[str, Sequence[Evaluation]]) -> str:
    if claim.better not in final or claim.worse not in final:
        return "not run"
    gain = _paired(final, claim.better, claim.worse, claim.shorter)
    if len(gain) < LEAST_PAIRS:
        return "too few"
    return "pass" if bootstrap(gain)[0] > 0 and gain.mean() >= claim.least_gain else "FAIL"
