"""The sizes of a flow policy."""

from __future__ import annotations

from dataclasses import dataclass

from enpire.errors import PolicyProblem

TIME_OCTAVES = 3
"""Octaves of the Fourier features of the flow time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowShape:
    """The sizes of a flow policy, as policy.json names them."""

    state_dim: int
    action_dim: int
    horizon: int = 8
    """Actions in a chunk."""
    execute: int = 4
    """Actions sent before the next decision."""
    hidden: int = 256
    depth: int = 3
    frequencies: int = 4
    """Octaves of sines and cosines of the normalised state."""
    euler_steps: int = 10
    indicator: bool = False
    """True: the network has RECAP's indicator as one more input: 1 is positive, -1 negative, 0 not given."""

    def __post_init__(self) -> None:
        """Refuse sizes below their minimum with PolicyProblem."""
        if not 1 <= self.execute <= self.horizon:
            raise PolicyProblem(f"execute is {self.execute}; allowed is 1 to horizon ({self.horizon}).")
        if min(self.state_dim, self.action_dim, self.hidden, self.depth, self.euler_steps) < 1 or self.frequencies < 0:
            raise PolicyProblem(
                f"a flow policy needs sizes of at least 1 and frequencies of at least 0; it has {self}."
            )

    @property
    def chunk_dim(self) -> int:
        """Numbers in one action chunk."""
        return self.horizon * self.action_dim

    @property
    def state_features(self) -> int:
        """Width of a state after the Fourier features."""
        return self.state_dim * (1 + 2 * self.frequencies)

    @property
    def widths(self) -> tuple[int, ...]:
        """Widths of the layers, input first. The input is chunk, time features, state features, in this order."""
        first = self.chunk_dim + 1 + 2 * TIME_OCTAVES + self.state_features
        return (first, *(self.hidden,) * self.depth, self.chunk_dim)
