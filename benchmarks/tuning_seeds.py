"""How the settings of the benchmarks of whole campaigns were chosen, and which of a table's seeds are fresh."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from benchmarks.intervals import LEAST_SEEDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """How settings were chosen."""

    how: str
    """What was chosen, in words."""
    seeds: frozenset[int]
    """Tuning seeds: settings were chosen on them, or after runs of them."""
    published: frozenset[int] = frozenset()
    """Seeds whose results were published: no setting was chosen on them, but a new table needs other seeds."""

    def line(self, seeds: Sequence[int]) -> str:
        """The line of a table's head."""
        chosen = f" (tuning seeds {listed(self.seeds)})" if self.seeds else ""
        return f"settings  {self.how}{chosen}; {freshness(seeds, self.seeds, self.published)}"


CAMPAIGNS: Mapping[str, Tuning] = {
    "pin_insertion": Tuning(
        how="recipe, sizes, gate and goal were chosen on runs of this campaign and of benchmarks.improvement",
        seeds=frozenset({0, 1, 2, *range(77, 82), *range(400, 404)}),
        published=frozenset({*range(300, 320), *range(420, 440), *range(460, 472)}),
    ),
    "best_regime": Tuning(
        how="recipes were chosen on benchmarks.improvement; goal and queues after runs of this campaign",
        seeds=frozenset({0, 1, 2, *range(77, 82), *range(100, 104), 111, *range(113, 116), 124, 125}),
        published=frozenset(
            {*range(128, 131), 145, 146, *range(149, 154), *range(157, 162), *range(175, 180), 185, *range(200, 235)}
        ),
    ),
    "blind_insertion": Tuning(
        how="the program touch_search was chosen on the learner's own rigs, after runs of this campaign",
        seeds=frozenset({0, 1, 2, *range(77, 80), 113, 116, 117, *range(121, 124), 127}),
        published=frozenset({*range(131, 134), *range(170, 175), *range(202, 206), *range(207, 210), 212, 213}),
    ),
    "fragile_insertion": Tuning(
        how="goal and a limit of the tripwire critic were chosen on runs of this campaign; recipes as for other tasks",
        seeds=frozenset({77, 78, 79, 206, 226}),
        published=frozenset(
            {*range(134, 137), *range(140, 143), 154, 155, *range(170, 175), 180, 181, *range(185, 198)}
            | {*range(200, 206), *range(207, 226), *range(227, 235)}
        ),
    ),
}
"""Shipped campaign -> how its settings were chosen: its file, its recipes and what they run."""
EARLY_STOP = Tuning(
    how=f"{CAMPAIGNS['pin_insertion'].how}; the limits of early stops were set by hand, "
    "and no record says on which seeds: the former default seeds count as tuning seeds",
    seeds=CAMPAIGNS["pin_insertion"].seeds | frozenset(range(5)),
    published=CAMPAIGNS["pin_insertion"].published,
)
SEARCH = Tuning(
    how="the bad recipe and the agent were set by hand, and no record says on which seeds: the former default seeds "
    "count as tuning seeds",
    seeds=frozenset({0, 1}),
)
UNATTENDED = Tuning(
    how="faults, envelopes and torque limits were set by hand, after runs of this benchmark", seeds=frozenset({0})
)


def freshness(seeds: Iterable[int], tuned: Set[int], published: Set[int] = frozenset()) -> str:
    """Which of the seeds are fresh, and which are not."""
    asked = set(seeds)
    used, known = asked & tuned, (asked & published) - tuned
    fresh = asked - used - known
    parts = [f"seeds {listed(fresh)} are fresh"] if fresh else []
    parts += [f"seeds {listed(known)} are NOT fresh: their results were published before"] if known else []
    parts += [f"seeds {listed(used)} are NOT fresh: settings were chosen on them"] if used else []
    return "; ".join(parts)


def listed(seeds: Iterable[int]) -> str:
    """Seeds in order, separated by commas; more than five in a row as a range."""
    runs: list[list[int]] = []
    for seed in sorted(set(seeds)):
        if runs and runs[-1][-1] == seed - 1:
            runs[-1].append(seed)
        else:
            runs.append([seed])
    texts = [f"{run[0]} to {run[-1]}" if len(run) > 5 else ", ".join(map(str, run)) for run in runs]
    return ", ".join(texts)


def machine_verdict(kept: bool, repetitions: int) -> str:
    """The last line of a benchmark of one machine's times and loads, which is judged on its repetitions."""
    if kept and repetitions < LEAST_SEEDS:
        return f"verdict: too few repetitions for a claim ({repetitions} of at least {LEAST_SEEDS}); kept on these"
    on = f"verdict: every promise is kept on this machine, over {repetitions} repetitions"
    return on if kept else verdict(kept, repetitions)


def verdict(kept: bool, seeds: int) -> str:
    """The last line of a benchmark whose promises hold for every seed: fewer than `LEAST_SEEDS` seeds claim nothing."""
    if not kept:
        return "verdict: missed: the lines marked so above"
    if seeds < LEAST_SEEDS:
        return f"verdict: too few seeds for a claim ({seeds} of at least {LEAST_SEEDS}); kept on these seeds"
    return f"verdict: every promise is kept, on {seeds} seeds"
