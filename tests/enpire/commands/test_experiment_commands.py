"""An approval at the command line ends a wait, never what a tripwire holds."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from enpire.cli import app
from enpire.store.ledger import SqliteLedger
from tests.fakes.sample_campaign import CAMPAIGN, THIRD, record_campaign
from tests.fakes.sample_events import append


def test_an_approval_is_refused_where_a_tripwire_holds(tmp_path: Path) -> None:
    record_campaign(tmp_path)
    held = {"campaign_id": CAMPAIGN, "experiment_id": "", "policy_id": THIRD, "why": "a success that moved nothing."}

    def approve() -> str:
        done = CliRunner().invoke(app, ["experiment", "approve", THIRD, "--reason", "fine", "--home", str(tmp_path)])
        assert done.exit_code == 1
        return done.stderr

    def hold(tripwire: str) -> None:
        ledger = SqliteLedger(tmp_path / "ledger.db")
        append(ledger, [("experiment quarantined", {**held, "tripwire": tripwire})])
        ledger.close()  # an open one is the lock of a running campaign

    hold("promotion approval")
    assert "No campaign runs in" in approve(), "nothing but the missing campaign is in the way"
    hold("displacement")
    assert "is in quarantine (displacement: a success that moved nothing). Look at that" in approve()
