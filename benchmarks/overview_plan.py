"""The quick form of every benchmark, with its time limit, in the order in which `benchmarks.overview` runs them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Quick:
    """One benchmark in its quick form."""

    name: str
    """Module below `benchmarks`, unless `module` names another one."""
    arguments: str
    limit_s: float
    """After so many seconds it is killed."""
    shows: str
    """What it measures, in a few words."""
    full: str
    """Arguments of the form whose numbers the documents quote."""
    module: str = ""

    def words(self, arguments: str) -> list[str]:
        """A command without its Python."""
        return ["-m", self.module or f"benchmarks.{self.name}", *arguments.split()]

    @property
    def command(self) -> str:
        """The quick form, as typed."""
        return " ".join(["python", *self.words(self.arguments)])

    @property
    def full_command(self) -> str:
        """The full form, as typed."""
        return " ".join(["python", *self.words(self.full)])


PLAN: tuple[Quick, ...] = (
    Quick(name="gate", arguments="-n 20 --only success", limit_s=90, full="",
          shows="how often the gate promotes a better candidate, and one that is not better"),
    Quick(name="gate_campaigns", arguments="-n 10 --only campaigns", limit_s=60, full="",
          shows="false promotions over whole campaigns"),
    Quick(name="sites", arguments="-n 100", limit_s=30, full="",
          shows="one study at several sites: wrong answers of the pooled result"),
    Quick(name="critics", arguments="--chains 4 --counted --only unsupervised", limit_s=60, full="",
          shows="calibration of the critics on Markov chains with exact values"),
    Quick(name="power_loss", arguments="--states 400", limit_s=60, full="",
          shows="acknowledged data lost in a power cut"),
    Quick(name="stop", arguments="30", limit_s=60, full="",
          shows="time from a stop to zero velocity while the runner hangs"),
    Quick(name="recording", arguments="--seconds 3 --rounds 2", limit_s=60, full="",
          shows="effect of recording on the control loop"),
    Quick(name="throughput", arguments="--repeats 5 --seconds 0", limit_s=60, full="",
          shows="speed of the simulated pin insertion against plain MuJoCo"),
    Quick(name="bimanual", arguments="--lanes 4 --repeats 3 --resets 0", limit_s=90, full="",
          shows="speed of the simulated bimanual station against plain MuJoCo"),
    Quick(name="tasks", arguments="--starts 40 --graded 40", limit_s=90, full="",
          shows="success of the experts, and precision of the verifiers"),
    Quick(name="verbs", arguments="--repeats 2", limit_s=120, full="",
          shows="time of the commands that read"),
    Quick(name="fleet", arguments="--stations 8 --seconds 10", limit_s=90, full="",
          shows="delays and load of one orchestrator with few stations"),
    Quick(name="scale", arguments="--stations 100 --seconds 15 --episode-s 10", limit_s=120,
          full="--stations 1000 --seconds 3600", shows="delays, load and memory with many stations"),
    Quick(name="episode_list", arguments="--episodes 100000 --repeats 2 --paints 3", limit_s=60, full="",
          shows="time of the list of episodes, with its filters"),
    Quick(name="takeover", arguments="--keys 40", limit_s=60, full="",
          shows="time from a key in the browser to the robot's command"),
    Quick(name="learning_cost", arguments="--only habc --recipes habc_plus --turns 4", limit_s=180, full="--only habc",
          shows="cost of a gradient step with HABC's critics against plain cloning"),
    Quick(name="improvement", arguments="--rounds 1 --episodes 40 --starts 40 --demonstrations 40", limit_s=120,
          full="--full", shows="success after a round of improvement, by arm"),
    Quick(name="chaos", arguments="--events 6 --limit-s 60", limit_s=120, full="--events 220",
          shows="verdicts lost under random failures"),
    Quick(name="demo", arguments="--count 1 --first 300", limit_s=270, full="--count 20 --first 300",
          shows="the shipped campaign, from nothing to a confirmed champion"),
)  # fmt: skip
"""The sum of the limits is at most `LONGEST_S`."""
LONGEST_S = 1800.0

LEFT_OUT: Mapping[str, str] = {
    "attacks": "tests run the quick form of each attack: `make test` the cheap ones, the slow tests the others",
    "branches": "whole campaigns of 10 to 15 minutes; a shorter one has no result",
    "chunks": "trains a policy for several minutes first",
    "coding_cli": "installs a coding CLI through the network",
    "early_stop": "two whole campaigns for each seed",
    "example_run": "makes a file, and measures nothing",
    "first_hour_pictures": "makes images, and measures nothing",
    "gallery": "makes moving pictures, and measures nothing",
    "readme_picture": "makes the image and the lines of README, and measures nothing",
    "machine": "describes the machine",
    "mutants": "`make mutate`: minutes for each module",
    "orchestrator": "minutes of CPU time on a core without other work",
    "overview": "runs the others",
    "page_at_scale": "ten minutes for the memory of a tab",
    "page": "stops and resumes a whole campaign many times",
    "pretend_branches": "many whole campaigns, with ten minutes of CPU time",
    "search": "whole campaigns of 10 minutes",
    "unattended": "hours",
}
"""Module -> why it has no quick form of at most a few minutes."""
