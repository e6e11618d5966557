"""Scores: which share of the mutants of a module its tests kill. `--record` writes them to scores.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.mutants import HERE, modules
from enpire.gate.intervals import wilson

TABLE = HERE / "scores.md"
HEAD = """# Mutation scores

Written by `python -m benchmarks.mutants MODULE --record`; a row with fewer mutants tried than there are is a sample
(`--sample N`) with its Wilson 95 % interval. Mutants that [survivors.yaml](survivors.yaml) excuses are not counted.

| module | killed | tried | mutants | share | excused | commit |
|---|---|---|---|---|---|---|
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """What a run over the mutants of one module found."""

    module: str
    killed: int
    tried: int
    mutants: int
    """All mutants of the module that are not excused."""
    excused: int
    """Those that survivors.yaml lets survive."""
    too_slow: int
    """Those of `killed` whose tests did not end in time."""
    took_s: float
    commit: str

    @property
    def share(self) -> float:
        """Share of the tried mutants that were killed, in [0, 1]."""
        return self.killed / self.tried if self.tried else 1.0

    def shown_share(self) -> str:
        """The share, and its Wilson 95 % interval if the tried mutants are a sample."""
        if self.tried == self.mutants:
            return f"{self.share:.1%}"
        interval = wilson(self.killed, self.tried)
        return f"{self.share:.1%} [{interval.low:.1%}, {interval.high:.1%}]"

    def sentence(self) -> str:
        """One line for the terminal."""
        return (
            f"{self.module}: {self.killed} of {self.tried} killed ({self.shown_share()}), {self.too_slow} by time; "
            f"{self.mutants} mutants, and {self.excused} that may survive (survivors.yaml); {self.took_s:.0f} s"
        )

    def row(self) -> str:
        """One line of the table."""
        cells = (self.module, self.killed, self.tried, self.mutants, self.shown_share(), self.excused, self.commit)
        return f"| {' | '.join(map(str, cells))} |\n"


def record(scores: Sequence[Score]) -> None:
    """Replace the rows of these modules in the table; the others stay."""
    old = TABLE.read_text(encoding="utf-8").splitlines(keepends=True) if TABLE.exists() else []
    rows = {row.split(" ")[1]: row for row in old if row.startswith("| ")} | {one.module: one.row() for one in scores}
    TABLE.write_text(HEAD + "".join(rows[name] for name in modules() if name in rows), encoding="utf-8")
