"""READ FIRST: the lab's loop.

Stations turn orders into episodes (enpire/station/station.py); this loop turns episodes into better policies. Each verb
is one file in enpire/steps. Every step appends what it did to the ledger before it acts on it, and decides only on
the state that those events give (enpire/campaign/state.py): killed at any moment, the same command resumes where the
ledger stands.
"""

from __future__ import annotations

from enpire.errors import EnpireError
from enpire.lab import Lab
from enpire.steps.deploy import deploy
from enpire.steps.dispatch import dispatch
from enpire.steps.ending import Ending, ending, wind_up
from enpire.steps.evaluate import evaluate
from enpire.steps.evolve import evolve
from enpire.steps.handle_commands import handle_commands
from enpire.steps.hold import hold
from enpire.steps.improve import improve
from enpire.steps.record import record
from enpire.store.durable import shortage


def run(lab: Lab) -> Ending:
    """Improve the policy until the goal is confirmed, the budget is spent, or somebody stops it."""
    try:
        while (end := ending(lab)) is None:
            turn(lab)
        return end
    except (EnpireError, OSError) as problem:
        if (short := shortage(problem)) is not None:
            hold(lab, short)
            if lab.wanted and (end := ending(lab)) is not None:
                return end
        raise
    finally:
        wind_up(lab)


def turn(lab: Lab) -> None:
    """One turn of the loop: some twenty a second; nothing in it waits for a robot, a learner or an agent."""
    handle_commands(lab)  # what operators asked for
    dispatch(lab)  # every free robot gets its next order
    record(lab)  # every episode that arrived is kept, once
    improve(lab)  # enough new episodes: a learner makes a candidate
    evaluate(lab)  # champion against candidate on hidden starts; confirmation of a good champion
    deploy(lab)  # promoted: all stations run it; regressed: back to the one before
    evolve(lab)  # agents propose what to try next
    lab.tick()  # people see it
