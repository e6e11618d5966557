"""The rule of a gate and its level: fixed before the first pair, and written to the ledger with the gate."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Literal

from enpire.errors import UsageError
from enpire.files import parse, whole_number
from enpire.shares import require_share
from enpire.types import Json

LEAST_GAIN = 0.02
"""Default of the least gain in mean time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRule:
    """The rule of a gate, fixed before its first pair and written to the ledger with it."""

    alpha: float = 0.05
    """Largest expected share of false promotions in a campaign, for success and for speed each, in (0, 1)."""
    pairs: int = 400
    """Largest number of pairs; after them the champion stays."""
    margin: float = 0.02
    """Largest loss in success rate that a faster candidate may have, in (0, 1)."""
    least_gain: float = LEAST_GAIN
    """Least gain in mean time of a faster candidate where both succeed: 0.02 is 2 %, in [0, 1)."""
    unsafe_ceiling: float = 0.05
    """Highest observed rate of unsafe trials, in (0, 1), at which a candidate is promoted, whatever the champion's."""
    unsafe_margin: int = 0
    """Only in version 1: unsafe trials that a candidate may have above the champion's upper bound."""
    early_hold: bool = True
    """End with futility as soon as winning all remaining pairs could not promote the candidate."""
    forecast_hold: bool = False
    """End with futility also when the remaining pairs cannot promote the candidate at rates inside the 95 % intervals
    of those so far."""
    block: int = 1
    """Consecutive pairs that have one vote together. 1 assumes that pairs are independent given both versions; on a
    real fleet, where a version's luck may drift for minutes, set 8 to 16 (docs/gate.md)."""
    version: Literal[1, 2, 3, 4] = 4
    """4 is the rule of docs/gate.md; 1 to 3 are those of earlier campaigns. In 3, the votes of blocks say whether a
    faster candidate succeeds less often, only blocks that neither side won say how fast it is, and forecasts begin
    after 50 votes. In 2, the lower bound of the best earlier champion stands for its rate (`lost_success`). In 1,
    earlier champions do not count, *faster* compares signs, and *unsafe* compares with the upper bound of the
    champion's rate."""

    def __post_init__(self) -> None:
        try:
            require_share("alpha", self.alpha, "(0, 1)")
            require_share("margin", self.margin, "(0, 1)")
            require_share("unsafe_ceiling", self.unsafe_ceiling, "(0, 1)")
            require_share("least_gain", self.least_gain, "[0, 1)")
        except ValueError as problem:
            raise UsageError(f"The gate rule {asdict(self)} is not valid: {problem}") from problem
        if self.pairs < 1 or self.unsafe_margin < 0 or not 1 <= self.block <= self.pairs:
            raise UsageError(
                f"The gate rule {asdict(self)} is not valid: pairs must be 1 or more, unsafe_margin must be 0 or more, "
                "and block must lie between 1 and pairs."
            )

    @property
    def tests_block_means(self) -> bool:
        """Whether the means of blocks, and not their votes, say if a faster candidate succeeds less often."""
        return self.version > 3 and self.block > 1


def stored_rule(stored: Mapping[str, Json], where: str) -> GateRule:
    """The rule that a ledger stores; one without a version is of version 1. Error sentences begin with `where`."""
    return parse(GateRule, {"version": 1, **stored}, where)


def rule_version(campaign: Mapping[str, Json]) -> int:
    """The version of the rule in the campaign file that a ledger stores; 1 where it has none."""
    return whole_number(campaign, "gate", "version", missing=1)


def level(alpha: float, k: int, promoted: int) -> float:
    """The level of the k-th gate of a campaign (k from 1) after `promoted` promotions: e-LOND.

    alpha_k = alpha * 6 / (pi^2 k^2) * (promoted + 1). The expected share of false promotions is then at most alpha for
    success, and likewise for speed, whatever the dependence between gates. Source: Xu and Ramdas 2024, "Online
    multiple testing with e-values".
    """
    if k < 1 or not 0 <= promoted < k:
        raise UsageError(
            f"Gate {k} after {promoted} promotions is not possible: gates count from 1, and each promotes at most once."
        )
    return min(alpha, alpha * 6 / (math.pi * k) ** 2 * (promoted + 1))
