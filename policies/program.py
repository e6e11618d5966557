"""A policy that is a short program with a few parameters and no network; a parameter search tunes them.

policy.json: {"kind": "program", "program": a name of PROGRAMS, "values": {name: number}, "period_s": number}.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

import numpy as np

from enpire.errors import PolicyProblem, UnknownName
from enpire.files import parse
from enpire.interfaces import Policy
from enpire.types import FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter of a program, with the closed interval that is allowed; its unit is the end of its name."""

    name: str
    low: float
    high: float


PIN_SPIRAL = (
    Parameter(name="pitch_mm", low=0.15, high=1.2),
    Parameter(name="speed_mm_s", low=2.0, high=18.0),
    Parameter(name="reach_mm", low=0.5, high=4.0),
    Parameter(name="press_mm_s", low=0.5, high=8.0),
    Parameter(name="descent_mm_s", low=2.0, high=18.0),
    Parameter(name="gain_per_s", low=2.0, high=15.0),
    Parameter(name="yield_mm_s_n", low=0.0, high=6.0),
)
PIN_TOUCH = (
    Parameter(name="press_mm_s", low=4.0, high=12.0),
    Parameter(name="speed_mm_s", low=3.0, high=12.0),
    Parameter(name="friction_mm_s_n", low=2.0, high=10.0),
    Parameter(name="descent_mm_s", low=4.0, high=15.0),
    Parameter(name="yield_mm_s_n", low=0.0, high=5.0),
    Parameter(name="lean_sd_mrad", low=2.0, high=12.0),
    Parameter(name="miss_per_period", low=0.2, high=1.4),
    Parameter(name="travel_mm", low=0.2, high=1.0),
)
PROGRAMS: Mapping[str, tuple[Parameter, ...]] = {"pin_spiral": PIN_SPIRAL, "pin_touch": PIN_TOUCH}
"""Program -> its parameters. pin_spiral presses lightly and follows a spiral around the estimated hole. pin_touch moves
to where the hole is most probable, given where the pin did not drop and how it leaned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramVersion:
    """The contents of policy.json."""

    kind: Literal["program"] = "program"
    program: str
    values: Mapping[str, float]
    """Every parameter of the program, within its interval."""
    period_s: float
    """Control period, in seconds."""

    def __post_init__(self) -> None:
        """Refuse unknown parameters and values outside their interval with ValueError."""
        for parameter in parameters(self.program):
            value = self.values.get(parameter.name)
            if value is None or not parameter.low <= value <= parameter.high:
                raise ValueError(
                    f"{parameter.name} is {value}; {self.program} allows {parameter.low} to {parameter.high}."
                )
        extra = set(self.values) - {parameter.name for parameter in parameters(self.program)}
        if extra or self.period_s <= 0:
            raise ValueError(f"{self.program} has no {', '.join(sorted(extra)) or 'period of 0 s'}.")


def parameters(program: str) -> tuple[Parameter, ...]:
    """The parameters of a program; UnknownName if there is no such program."""
    if program not in PROGRAMS:
        raise UnknownName(f"There is no program called {program!r}; there are: {', '.join(PROGRAMS)}.")
    return PROGRAMS[program]


def values_at(program: str, point: FloatArray) -> dict[str, float]:
    """The values at a point (parameters,) of the unit cube; coordinates are clipped to [0, 1]."""
    clipped = np.clip(np.asarray(point, np.float64), 0.0, 1.0)
    pairs = zip(parameters(program), clipped, strict=True)
    return {
        parameter.name: round(float(parameter.low + at * (parameter.high - parameter.low)), 6)
        for parameter, at in pairs
    }


def point_of(program: str, values: Mapping[str, float]) -> list[float]:
    """The point of the unit cube (parameters,) with these values; the inverse of `values_at`."""
    return [
        (values[parameter.name] - parameter.low) / (parameter.high - parameter.low) for parameter in parameters(program)
    ]


def policy_of(version: ProgramVersion) -> Policy:
    """The program as a policy."""
    # Programs are defined with their task.
    from sim.tasks.pin_spiral import SpiralExpert, SpiralProgram
    from sim.tasks.pin_touch import TouchProgram, TouchSearch

    if version.program == "pin_touch":
        return TouchSearch(TouchProgram(**version.values))
    return cast(Policy, SpiralExpert(SpiralProgram(**version.values), version.period_s))


def read(folder: Path) -> ProgramVersion:
    """Read a version's folder; PolicyProblem or FileProblem if it does not fit."""
    path = folder / "policy.json"
    try:
        document: object = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise PolicyProblem(f"{path} cannot be read ({error}); fetch the version again.") from error
    return parse(ProgramVersion, document, f"The version {path}")


def load(folder: Path) -> Policy:
    """Load a version's folder."""
    return policy_of(read(folder))


def manifest_bytes(version: ProgramVersion) -> bytes:
    """policy.json of a version; equal values give equal bytes."""
    about = {
        "kind": version.kind, "program": version.program, "values": dict(version.values), "period_s": version.period_s,
    }  # fmt: skip
    return (json.dumps(about, indent=1, sort_keys=True) + "\n").encode()
