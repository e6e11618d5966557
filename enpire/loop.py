"""READ FIRST: the lab's loop.

Stations turn orders into episodes (enpire/station/station.py). This loop turns episodes into better policies. Each step
is one file in enpire/steps. A step appends its events to the ledger before it acts on them, and decides from the state
that the ledger's events give (enpire/campaign/state.py). The process can be killed at any moment: the same command
resumes from the last event of the ledger.
"""

from __future__ import annotations

from collections.abc import Callable

from enpire.errors import EnpireError
from enpire.lab import Lab
from enpire.steps.branch import branch
from enpire.steps.deploy import deploy
from enpire.steps.dispatch import dispatch
from enpire.steps.ending import Ending, ending, shut_down
from enpire.steps.evaluate import evaluate
from enpire.steps.evolve import evolve
from enpire.steps.handle_commands import handle_commands
from enpire.steps.hold import hold
from enpire.steps.improve import improve
from enpire.steps.record import record
from enpire.steps.tripwires import quarantine
from enpire.store.durable import shortage


def run(
    lab: Lab, once: Callable[[Lab], None] | None = None, ended: Callable[[Lab], Ending | None] = ending
) -> Ending:  # fmt: skip
    """Improve the policy until the goal is confirmed, a budget is used up, or an operator stops the campaign.

    A study (enpire/steps/study.py) has a turn and an end of its own: `once` and `ended`.
    """
    try:
        while (end := ended(lab)) is None:
            (once or turn)(lab)
        return end
    except (EnpireError, OSError) as problem:
        if (short := shortage(problem)) is not None:
            hold(lab, short)
            if lab.end_reason and (end := ended(lab)) is not None:
                return end
        raise
    finally:
        shut_down(lab)


def turn(lab: Lab) -> None:
    """Run each step once, 20 to 25 times per second. No step waits for a robot, a learner or an agent."""
    handle_commands(lab)  # commands of operators
    dispatch(lab)  # every free robot gets its next order
    record(lab)  # every episode that arrived is stored once
    improve(lab)  # enough new episodes: a learner trains a candidate
    branch(lab)  # experiments with robot time of their own train and act in turns
    quarantine(lab)  # an experiment whose success is not believable waits for a person
    evaluate(lab)  # champion against candidate on hidden starts; confirmation of a champion
    deploy(lab)  # roll back a champion whose success rate falls
    evolve(lab)  # agents propose experiments
    lab.tick()  # show the lab to the observers
