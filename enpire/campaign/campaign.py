"""The campaign file: one goal, one budget, many rounds. This module holds the defaults; the file holds the choices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from enpire.campaign.branch_plan import BranchPlan
from enpire.errors import UsageError
from enpire.files import find, formerly, parse, read_yaml
from enpire.gate.intervals import lower_bound
from enpire.gate.rule import GateRule
from enpire.gate.verifier_audit import DriftRule
from enpire.ids import NAME_FORM, is_file_name, is_version_id
from enpire.plugins import require_addresses
from enpire.shares import require_at_least, require_share
from enpire.verifiers import VerifierSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """The goal of a campaign."""

    success: float = 0.97
    """Success rate that a confirmation must reach, in (0, 1]."""
    by: Literal["rate", "bound"] = "rate"
    """Figure that must reach `success`: the measured rate, or its exact one-sided 95 % lower bound."""
    confirm_starts: int = 400
    """Number of fresh starts of a confirmation, fixed before it begins."""
    attempt_chance: float = 0.9
    """A confirmation starts when the predicted pass probability is at least this, by trials on hidden starts. Half is
    enough when no gate was open for long (`enpire.steps.evaluate`)."""
    commands: int = 0
    """Largest allowed median number of commands of the successes of a confirmation; 0: no limit."""

    def __post_init__(self) -> None:
        """Refuse a goal that no campaign can reach or measure."""
        require_share("goal success", self.success, "(0, 1]")
        require_share("goal attempt_chance", self.attempt_chance, "(0, 1)")
        require_at_least("goal", 1, confirm_starts=self.confirm_starts)
        require_at_least("goal", 0, commands=self.commands)

    def require_reachable(self, task: str, limit_ticks: int) -> None:
        """Check the number of commands against the time limit of the task, in ticks.

        Raises:
            UsageError: it exceeds the limit, so that every success would reach it.
        """
        if self.commands > limit_ticks:
            raise UsageError(
                f"goal commands must be at most {limit_ticks}, the time limit of {task} in commands, not "
                f"{self.commands}; write a smaller median, or 0 for none."
            )

    def require_possible(self) -> None:
        """Check that a confirmation without any failure reaches the success goal.

        Raises:
            UsageError: it does not.
        """
        best = lower_bound(self.confirm_starts, self.confirm_starts)
        if self.by == "bound" and self.success > best:
            raise UsageError(
                f"A goal of {self.success:.1%} by the exact 95 % bound cannot be reached on {self.confirm_starts} "
                f"starts: {self.confirm_starts} successes of them have the bound {best:.3%}. Choose a lower goal."
            )


ANY_PORT = "tcp://127.0.0.1:*"
"""Any free port of the loopback."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stations:
    """Stations that the campaign starts itself; with `count: 0` it waits for stations to connect."""

    count: int = 4
    lanes: int = 16
    """Robots per station that move in step (rows of one simulation)."""
    driver: str = "mujoco"
    pace: Literal["fast", "realtime"] = "fast"
    inference: Literal["wait", "overlap"] = "wait"
    """`overlap`: policies run inference while the robots move; for pace realtime."""
    policy_server: str = ""
    """Address of an `enpire policy serve` for these stations; empty: each station runs inference itself."""
    policy_server_key: str = ""
    """Public key of the policy server, if it is on another machine with a key of its own."""
    policy_kinds: tuple[str, ...] = ()
    """Kinds "module:name" of versions that these stations may load besides the installed kinds. A learner
    "module:Name" of the campaign's recipes may also make versions of kind "module:load"."""
    reset: Literal["teleport", "robot"] = "teleport"
    operator: str = ""
    """Plug-in of the operator of supervised episodes (`simulated`); empty: no operator."""
    operator_options: Mapping[str, object] = field(default_factory=dict[str, object])
    record: tuple[str, ...] | Literal["all"] = ()
    """Cameras whose images are recorded with every action, or `all`; see `enpire.station.station_file`."""
    options: Mapping[str, object] = field(default_factory=dict[str, object])
    bind: str = ANY_PORT
    """Where other stations connect, with keys: tcp://ADDRESS:PORT, or ipc:///FOLDER/NAME without keys, in a folder that
    only this user can enter. The default opens a port only if the campaign starts no stations itself: those use a
    private socket."""
    ahead: int = 24
    """Orders that a station queues beyond the running ones, so that its lanes do not wait for orders."""

    def __post_init__(self) -> None:
        """Refuse values out of range."""
        require_at_least("stations", 0, count=self.count, ahead=self.ahead)
        require_at_least("stations", 1, lanes=self.lanes)
        require_addresses(self.policy_kinds)

    @property
    def listens(self) -> str:
        """Where other stations connect; empty if they cannot."""
        return "" if self.count and self.bind == ANY_PORT else self.bind

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the stations that the campaign starts itself."""
        return tuple(f"sim-{number}" for number in range(1, self.count + 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """How the first policy is made."""

    recipe: str = "clone_demonstrations"
    demonstrations: int = 120
    """Successful demonstrations, by `demonstrators` or imported, that learners use, in the order in which they were
    ordered. In lockstep failed ones count."""
    demonstrators: Literal["expert", "people"] = "expert"
    """`expert`: the task's script. `people`: operators move the robots, by the device that `operator` names."""
    evaluate_starts: int = 400
    """Number of hidden starts on which the success of the base is measured, once."""
    policy: str = ""
    """Id of a version in the home to use as the base (`enpire policy import`); then no demonstrations are collected."""

    def __post_init__(self) -> None:
        """Refuse a base without demonstrations or starts to measure it on, and a policy that is no version's id."""
        require_at_least("base", 1, demonstrations=self.demonstrations, evaluate_starts=self.evaluate_starts)
        if self.policy and not is_version_id(self.policy):
            raise ValueError(
                f"base policy must be the id of a version in the home, 64 hexadecimal digits, not {self.policy[:80]!r}."
                " To begin with a checkpoint, run `enpire policy import FOLDER` and write the id that it prints."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """Rounds of data collection and training."""

    episodes: int = 100
    """Rollouts of the champion that a round learns from, besides those of the rounds in `window`. The round begins when
    so many are recorded. Rollouts beyond this number have the purpose `extra` and count for the next round if the
    champion is still the same, in the order in which they were ordered. So the data of a round do not depend on the
    speed of a machine."""
    window: int = 4
    """Number of latest rounds whose episodes the learner gets; supervised episodes of older rounds stay."""
    hard_starts: float = field(default=0.5, metadata=formerly("practised"))
    """Hard-start sampling: share of collection on the least certain train starts, in [0, 1); the rest is uniform."""
    train_starts: int = 2000
    """Number of train starts."""
    supervised: float = 0.0
    """Share of the collection in which an operator may take over, drawn before each episode, in [0, 1]."""
    early_stop: float = 0.0
    """A rollout of the collection ends early if its viability stays below this, in [0, 1); 0: no early stops."""
    early_stop_control: float = 0.15
    """Share of the collection without early stops, in (0, 1). This control arm measures what they cost and save."""
    lockstep: bool = False
    """Collect, train, gate and one experiment of the agent run one after the other, without overlap.

    Robots idle during training, and no result depends on timing: the same seed in a home with the same secret repeats
    the campaign (docs/agents.md gives the limits)."""

    def __post_init__(self) -> None:
        """Refuse shares out of range, and rounds without episodes."""
        require_at_least("rounds", 1, episodes=self.episodes, window=self.window, train_starts=self.train_starts)
        require_share("rounds supervised", self.supervised, "[0, 1]")
        require_share("rounds hard_starts", self.hard_starts, "[0, 1)")
        require_share("rounds early_stop", self.early_stop, "[0, 1)")
        require_share("rounds early_stop_control", self.early_stop_control, "(0, 1)")
        if self.lockstep and (self.hard_starts or self.supervised):
            raise ValueError("rounds in lockstep need hard_starts: 0 and supervised: 0, because both depend on timing.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Limits of a campaign, which ends without its goal when it reaches one of them."""

    wall_s: float = 900.0
    rounds: int = 14
    robot_s: float = 0.0
    """Robot seconds over all lanes; 0 is unlimited."""
    tokens: int = 0
    """Tokens of all agent sessions together; 0 is unlimited. This limit and the next end no campaign: the model gateway
    refuses the call that could exceed them."""
    money: float = 0.0
    """Cost of all agent sessions together, in the currency of the price file; 0 is unlimited."""

    def __post_init__(self) -> None:
        """Refuse values out of range."""
        require_at_least("budget", 0, wall_s=self.wall_s, rounds=self.rounds, robot_s=self.robot_s)
        require_at_least("budget", 0, tokens=self.tokens, money=self.money)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPlan:
    """Agents that propose changes of the recipe while the loop runs."""

    name: str
    """Plug-in name: search, anthropic."""
    lanes: int = 1
    """Number of agent sessions, each in its own process."""
    options: Mapping[str, bool | int | float | str] = field(default_factory=dict[str, bool | int | float | str])
    """Options of the agent, such as `model` and `tokens` of anthropic; it refuses options that it does not know."""
    tokens: int = 0
    """Tokens of each of its sessions; 0 is unlimited, except by its option `tokens`."""
    money: float = 0.0
    """Cost of each of its sessions, in the currency of the price file; 0 is unlimited."""

    def __post_init__(self) -> None:
        """Refuse values out of range."""
        require_at_least("an agent's", 0, tokens=self.tokens, money=self.money)
        if not 1 <= self.lanes <= 16:
            raise ValueError("the lanes of an agent must be from 1 to 16.")
        if not is_file_name(f"{self.name}-16"):
            raise ValueError(f"the name of an agent must have {NAME_FORM}, not {self.name[:80]!r}.")

    @property
    def lane_names(self) -> tuple[str, ...]:
        """Names of its lanes."""
        return tuple(f"{self.name}-{number}" for number in range(1, self.lanes + 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class CodePlan:
    """Code candidates: experiments whose learner and policy an agent wrote (docs/code.md)."""

    allowed: bool = False
    """Whether agents and operators may submit them. They run as branches."""
    unsandboxed: bool = False
    """Whether their code may run without a sandbox, with all rights of this user, where bubblewrap does not work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalPlan:
    """What waits until a person approves it; without an answer until the campaign ends, while other work continues."""

    experiments: bool = False
    """Whether an experiment of an agent trains, and gets robot time, only after an approval."""
    promotions: bool = False
    """Whether a candidate enters its gate, which alone can promote it, only after an approval."""


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
    """Verifiers that must all agree that a rollout succeeded; empty: the task's own verifier alone."""
    drift: DriftRule = field(default_factory=DriftRule)
    agents: tuple[AgentPlan, ...] = ()
    branches: BranchPlan = field(default_factory=BranchPlan)
    code: CodePlan = field(default_factory=CodePlan)
    approvals: ApprovalPlan = field(default_factory=ApprovalPlan)
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse a negative seed, parts that do not fit together, and lockstep with what it cannot have."""
        require_at_least("its", 0, seed=self.seed)
        sessions = [lane for plan in self.agents for lane in plan.lane_names]
        names = [plan.name for plan in self.agents]
        if twice := [name for name in names if names.count(name) > 1]:
            raise ValueError(
                f"its agents name {twice[0]} twice, so two sessions would have one name; list it once, with more lanes."
            )
        if unknown := [lane for lane in self.branches.isolated if sessions and lane not in sessions]:
            raise ValueError(
                f"branches isolated names {unknown[0]!r}, which is no agent session of this campaign; its sessions are "
                f"{', '.join(sessions)}."
            )
        if self.branches.recipes and not (self.budget.wall_s or self.budget.robot_s):
            raise ValueError(
                "a campaign with branches needs budget wall_s or robot_s above 0, because branches use up no rounds."
            )
        if self.code.allowed and not self.branches.recipes:
            raise ValueError("code candidates run as branches; name at least one recipe under branches recipes.")
        if self.approvals.promotions and self.branches.recipes:
            raise ValueError("candidates of branches cannot wait for approvals; leave out approvals promotions.")
        if self.base.demonstrators == "people" and self.stations.count and not self.stations.operator:
            raise ValueError(
                "base demonstrators: people needs an operator under `stations`: browser, lerobot, keyboard, simulated."
            )
        if self.rounds.lockstep:
            self._require_lockstep()

    def _require_lockstep(self) -> None:
        """Refuse what would make a result in lockstep depend on timing, or wait without end."""
        if self.base.demonstrators == "people":
            raise ValueError("rounds in lockstep need base demonstrators: expert, because people take their time.")
        if self.approvals.experiments or self.approvals.promotions:
            raise ValueError("rounds in lockstep cannot wait for approvals, because their time depends on people.")
        if self.branches.recipes:
            raise ValueError("rounds in lockstep cannot have branches, whose robot time depends on timing.")
        if sum(plan.lanes for plan in self.agents) > 1 or not self.stations.count:
            raise ValueError("rounds in lockstep need at most one lane of agents, and stations count of at least 1.")
        if self.agents and not self.budget.wall_s:
            raise ValueError(
                "rounds in lockstep wait for their agent; set budget wall_s above 0, the longest wait in seconds."
            )

    @property
    def recipes(self) -> tuple[str, ...]:
        """Names of all its recipes: of rounds, of the base, of branches."""
        return (self.recipe, self.base.recipe, *self.branches.recipes)


def read_campaign(name_or_path: str | Path) -> Campaign:
    """A campaign by name (configs/campaigns) or path; FileProblem names the wrong key and its file."""
    path = find("campaigns", name_or_path)
    return parse(Campaign, read_yaml(path), f"The campaign {path}")
