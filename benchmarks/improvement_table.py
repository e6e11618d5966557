"""The table, the plot and the pass lines of the benchmark of improvement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape

import numpy as np

from benchmarks.improvement_viability import ViabilitySample, claims
from benchmarks.intervals import LEAST_SEEDS, mean_by_seed, rate_by_seed
from benchmarks.measured import Measured


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
        """Success with its interval over the starts of this seed."""
        return _text([self])


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A claim that one arm is better than another, with the threshold that it must reach."""

    better: str
    worse: str
    least_gain: float = 0.0
    """Minimum of the mean difference in success; the lower bound of its interval by seed must also be above 0."""
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
    Claim(better="habc_plus", worse="filtered_bc", least_gain=0.05),
    Claim(better="habc_plus", worse="habc_v"),
    Claim(better="habc_plus", worse="filtered_bc", shorter=True),
    Claim(better="habc_plus", worse="naive_labels"),
    Claim(better="habc_plus", worse="hard_gate"),
)


OWN_START = frozenset({"hil_serl", "awac", "iql", "lerobot_act", "spiral_search", "spiral_search_12", "touch_search"})
"""Arms that do not start from the base policy."""
COMPARED = ("base", "filtered_bc", "habc_plus")
"""Arms from which the table gives each arm's difference."""
LEAST_PAIRS = 30
"""With fewer pairs a claim neither passes nor fails, as with fewer seeds than `LEAST_SEEDS`."""


def table(found: Mapping[str, Sequence[Evaluation]], last: int, viability: Sequence[ViabilitySample] = ()) -> str:
    """Every arm after the last and each round, its differences, and the claims with pass, FAIL or too few."""
    final = {
        name: [item for item in items if item.round in {0 if name == "base" else last}] for name, items in found.items()
    }
    differences = " ".join(f"{f'minus {other}':26}" for other in COMPARED)
    lines = [f"{'arm':20} {'success':58} {differences} {'steps':>6} CPU s"]
    for name, items in final.items():
        against = " ".join(
            f"{_difference(final, name, other) if other in final and name != other else '':26}" for other in COMPARED
        )
        cost, steps = sum(item.learning_cpu_s for item in found[name]), sum(item.steps for item in found[name])
        stopped = sum(item.gave_up for item in found[name])
        note = f", gave up in {stopped} round(s)" if stopped else ""
        marked = f"{name} *" if name in OWN_START else name
        lines.append(f"{marked:20} {_text(items):58} {against} {steps:6} {cost:.0f}{note}")
    if OWN_START & set(final):
        lines.append("* starts from networks or a program of its own, not from the base")
    if last > 1:
        lines += ["", *_by_round(found, last)]
    lines += ["", "claims"] + [f"  {_verdict(claim, final):8} {claim.text()}" for claim in CLAIMS] + claims(viability)
    return "\n".join(lines)


def success_of_arms(found: Mapping[str, Sequence[Evaluation]], last: int) -> list[Measured]:
    """Success in percent of the base, and of every arm after the last round."""
    numbers: list[Measured] = []
    for name, items in found.items():
        final = [item for item in items if item.round == (0 if name == "base" else last)]
        rate = rate_by_seed([sum(item.success) for item in final], [len(item.success) for item in final])
        numbers.append(
            Measured(
                name=f"success of {name}", value=100 * rate.mean, low=100 * rate.low, high=100 * rate.high, unit="%"
            )
        )
    return numbers


def _by_round(found: Mapping[str, Sequence[Evaluation]], last: int) -> list[str]:
    """Lines with the success of every arm after each round."""
    lines = [" ".join([f"{'arm':20}", *(f"{f'round {round_}':24}" for round_ in range(1, last + 1))]).rstrip()]
    for name, items in found.items():
        rounds = ([item for item in items if item.round == round_] for round_ in range(1, last + 1))
        if name != "base":
            lines.append(" ".join([f"{name:20}", *(f"{_interval(one):24}" for one in rounds)]).rstrip())
    return lines


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
    begin = _rate(found["base"])
    for index, (name, items) in enumerate((name, items) for name, items in found.items() if name != "base"):
        rates = [begin] + [_rate([item for item in items if item.round == r]) for r in range(1, rounds + 1)]
        colour, dash = colours[index % len(colours)], "" if index < len(colours) else ' stroke-dasharray="5 3"'
        points = " ".join("{:.1f},{:.1f}".format(*place(r, rate)) for r, rate in enumerate(rates))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>')
        parts.append(
            f'<text x="{wide + 10}" y="{40 + 18 * index}" fill="{colour}">{escape(name)} {rates[-1]:.0%}</text>'
        )
    return "".join(parts) + "</svg>\n"


def _rate(items: Sequence[Evaluation]) -> float:
    return float(np.mean([won for item in items for won in item.success]))


def _interval(items: Sequence[Evaluation]) -> str:
    found = rate_by_seed([sum(item.success) for item in items], [len(item.success) for item in items])
    return f"{found.mean:6.1%} [{found.low:.1%}, {found.high:.1%}]"


def _text(items: Sequence[Evaluation]) -> str:
    good = [tick for item in items for tick, won in zip(item.ticks, item.success, strict=True) if won]
    median, n = f"{np.median(good):.0f}" if good else "-", sum(len(item.success) for item in items)
    return f"{_interval(items)} of {n}, median {median} ticks"


def _paired(
    final: Mapping[str, Sequence[Evaluation]], name: str, other: str, shorter: bool = False
) -> Sequence[np.ndarray]:
    """Differences of the paired starts, (pairs,) for each seed that both arms have."""
    ours, theirs = ({item.seed: item for item in final[arm]} for arm in (name, other))
    return [_differences(ours[seed], theirs[seed], shorter) for seed in sorted(ours.keys() & theirs.keys())]


def _differences(ours: Evaluation, theirs: Evaluation, shorter: bool) -> np.ndarray:
    rows = zip(ours.success, theirs.success, ours.ticks, theirs.ticks, strict=True)
    if shorter:
        return np.array([float(b - a) for won, also, a, b in rows if won and also])
    return np.array([float(won) - float(also) for won, also, _, _ in rows])


def _difference(final: Mapping[str, Sequence[Evaluation]], name: str, other: str) -> str:
    gain = mean_by_seed(_paired(final, name, other))
    return f"{gain.mean:+.1%} [{gain.low:+.1%}, {gain.high:+.1%}]"


def _verdict(claim: Claim, final: Mapping[str, Sequence[Evaluation]]) -> str:
    if claim.better not in final or claim.worse not in final:
        return "not run"
    groups = [group for group in _paired(final, claim.better, claim.worse, claim.shorter) if len(group)]
    if len(groups) < LEAST_SEEDS or sum(len(group) for group in groups) < LEAST_PAIRS:
        return "too few"
    gain = mean_by_seed(groups)
    return "pass" if gain.low > 0 and gain.mean >= claim.least_gain else "FAIL"
