"""What a campaign file says: one goal, one budget, many rounds. Defaults and their meaning are here, choices there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from enpire.files import find, parse, read_yaml
from enpire.gate.gate import GateRule
from enpire.gate.verifier_audit import DriftRule
from enpire.verifiers import VerifierSettings


def _at_least(section: str, least: float, **values: float) -> None:
    """ValueError names the first value that is less."""
    for name, value in values.items():
        if value < least:
            raise ValueError(f"{section} {name} must be at least {least:g}, not {value:g}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """When a campaign has reached what it was for."""

    success: float = 0.97
    """The confirmed rate must reach this."""
    confirm_starts: int = 400
    """Fresh starts of the confirmation, fixed before it begins."""
    attempt_chance: float = 0.9
    """A confirmation is spent on a champion that passes it with this probability, by its trials on hidden starts."""

    def __post_init__(self) -> None:
        """Refuse what no campaign could reach or judge."""
        if not 0 < self.success <= 1 or not 0 < self.attempt_chance < 1:
            raise ValueError("goal success must lie in (0, 1], and attempt_chance in (0, 1).")
        _at_least("goal", 1, confirm_starts=self.confirm_starts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stations:
    """The stations that the campaign starts itself, or `count: 0` to wait for stations that connect."""

    count: int = 4
    lanes: int = 16
    """Robots per station that move in step (rows of one simulation)."""
    driver: str = "mujoco"
    pace: Literal["fast", "realtime"] = "fast"
    inference: Literal["wait", "overlap"] = "wait"
    """`overlap`: policies decide while the robots move; for pace realtime."""
    policy_server: str = ""
    """Address of an `enpire policy serve` that thinks for these stations; empty: each thinks itself."""
    policy_server_key: str = ""
    """Public key of that server, when it is on another machine and has not the orchestrator's."""
    reset: Literal["teleport", "robot"] = "teleport"
    operator: str = ""
    """Plug-in that may take over in supervised episodes (`simulated`); empty: nobody."""
    operator_options: Mapping[str, object] = field(default_factory=dict[str, object])
    record: tuple[str, ...] | Literal["all"] = ()
    """Cameras whose pictures are kept with every command, or `all`; see `enpire.station.station_file`."""
    options: Mapping[str, object] = field(default_factory=dict[str, object])
    bind: str = "tcp://127.0.0.1:*"
    """Where stations reach the orchestrator."""
    ahead: int = 24
    """Orders a station holds beyond those it runs, so that it never waits for the next."""

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        _at_least("stations", 0, count=self.count, ahead=self.ahead)
        _at_least("stations", 1, lanes=self.lanes)

    @property
    def names(self) -> tuple[str, ...]:
        """What the stations that the campaign starts itself are called."""
        return tuple(f"sim-{number}" for number in range(1, self.count + 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """How the first policy is made."""

    recipe: str = "clone_demonstrations"
    demonstrations: int = 120
    """Episodes of the scripted expert (or imported ones) that it learns from."""
    evaluate_starts: int = 400
    """Hidden starts on which its success is measured, once."""
    policy: str = ""
    """A version in the home to begin with instead; then nothing is demonstrated."""

    def __post_init__(self) -> None:
        """Refuse what nothing could be learned from or measured on."""
        _at_least("base", 1, demonstrations=self.demonstrations, evaluate_starts=self.evaluate_starts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """When the learner has enough that is new."""

    episodes: int = 100
    """New episodes of data collection that make a round."""
    window: int = 4
    """Rounds whose episodes the learner sees; older ones are stale, except those that somebody watched."""
    practised: float = 0.5
    """Share of the collection on the train starts that are least certain, in [0, 1); the rest is uniform."""
    train_starts: int = 2000
    """Size of the pool of train starts."""
    supervised: float = 0.0
    """Share of the collection in which an operator may take over, drawn before each episode, in [0, 1]."""
    early_stop: float = 0.0
    """A rollout of the collection whose viability stays under this ends early, in [0, 1); 0: none does."""
    early_stop_control: float = 0.15
    """Share of the collection that runs to its end all the same, in (0, 1): it says what early stops cost and save."""
    lockstep: bool = False
    """Nothing overlaps: collect, learn, gate, then one experiment of the agent, each waiting for the one before.

    Robots idle meanwhile, and nothing depends on who was faster: the same seed in a home with the same secret gives
    the same campaign again (docs/agents.md says how far)."""

    def __post_init__(self) -> None:
        """Refuse shares that are none, and rounds without episodes."""
        _at_least("rounds", 1, episodes=self.episodes, window=self.window, train_starts=self.train_starts)
        if not 0 <= self.supervised <= 1 or not 0 <= self.practised < 1:
            raise ValueError("rounds supervised must lie in [0, 1], and practised must lie in [0, 1).")
        if not 0 <= self.early_stop < 1 or not 0 < self.early_stop_control < 1:
            raise ValueError("rounds early_stop must lie in [0, 1), and early_stop_control in (0, 1).")
        if self.lockstep and (self.practised or self.supervised):
            raise ValueError("rounds in lockstep need practised: 0 and supervised: 0, which depend on what came first.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What may be spent; the campaign ends, without its goal, when one of them is."""

    wall_s: float = 900.0
    rounds: int = 14
    robot_s: float = 0.0
    """Robot seconds over all lanes; 0 is unlimited."""

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        _at_least("budget", 0, wall_s=self.wall_s, rounds=self.rounds, robot_s=self.robot_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPlan:
    """Agents that propose changes of the recipe beside the loop."""

    name: str
    """Plug-in name: search, anthropic."""
    lanes: int = 1
    """Independent lines of work, one process each."""
    options: Mapping[str, bool | int | float | str] = field(default_factory=dict[str, bool | int | float | str])
    """What the agent reads, such as `model` and `tokens` of anthropic; it refuses options that it does not know."""

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        if not 1 <= self.lanes <= 16:
            raise ValueError("the lanes of an agent must be from 1 to 16.")

    @property
    def lane_names(self) -> tuple[str, ...]:
        """What its lanes are called."""
        return tuple(f"{self.name}-{number}" for number in range(1, self.lanes + 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """One goal, one budget, many rounds."""

    name: str
    task: str
    recipe: str
    goal: Goal = field(default_factory=Goal)
    stations: Stations = field(default_factory=Stations)
    base: Base = field(default_factory=Base)
    rounds: Rounds = field(default_factory=Rounds)
    gate: GateRule = field(default_factory=GateRule)
    budget: Budget = field(default_factory=Budget)
    verifiers: tuple[VerifierSettings, ...] = ()
    """Who must agree that a rollout was a success; empty: the task's own verifier alone."""
    drift: DriftRule = field(default_factory=DriftRule)
    agents: tuple[AgentPlan, ...] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse a lockstep that could not keep step."""
        _at_least("its", 0, seed=self.seed)
        if not self.rounds.lockstep:
            return
        if sum(plan.lanes for plan in self.agents) > 1 or not self.stations.count:
            raise ValueError("rounds in lockstep take one lane of agents at most, and stations of the campaign's own.")
        if self.agents and not self.budget.wall_s:
            raise ValueError("rounds in lockstep wait for their agent, so budget wall_s must say how long at most.")


def read_campaign(name_or_path: str | Path) -> Campaign:
    """A campaign by name (configs/campaigns) or path; FileProblem says what is wrong where."""
    path = find("campaigns", name_or_path)
    return parse(Campaign, read_yaml(path), f"The campaign {path}")
