"""What people type at a campaign, and what they read back: while it runs, and after its end."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner, Result

from enpire.cli import app
from enpire.home import open_home
from enpire.lab import Lab
from enpire.monitor.terminal import standing
from enpire.queries.campaigns import campaign_view, open_records, unchecked
from enpire.queries.decision_audit import recompute
from enpire.requests import operator_commands
from enpire.steps.take_snapshot import snapshot
from enpire.store.ledger import open_to_read
from tests.agent_loop.pretend_lab import Running
from tests.fakes.sample_campaign import CAMPAIGN, record_campaign


def enpire(*words: str | Path) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def typed(lab: Running, *words: str) -> Result:
    """Type a verb while the campaign runs."""
    return lab.beside(lambda: enpire(*words, "--home", lab.home.root))


def test_a_command_is_answered_with_what_became_of_it(tmp_path: Path) -> None:
    with Running(open_home(tmp_path)) as lab:
        lab.until(lambda lab: lab.state.outcomes["success"] and lab.stations)
        paused = typed(lab, "campaign", "pause")
        assert (paused.exit_code, paused.stderr.startswith("campaign pause: effective")) == (0, True), paused.stderr
        refused = typed(lab, "policy", "rollback")
        assert refused.exit_code == 1
        assert "`enpire policy rollback` was refused: there is no earlier champion" in refused.stderr
        success = next(key for key, outcome in lab.lab.state.ended.items() if outcome == "success")
        judged = typed(lab, "episodes", "judge", success[-8:].lower(), "failure")
        assert f"episodes judge {success} failure: effective" in judged.stderr
        assert lab.lab.state.labels == {success: ("success", "failure")}


def stopped_by_somebody(lab: Lab) -> bool:
    return bool(lab.stations) and all(
        station.last_heartbeat and station.last_heartbeat.stopped for station in lab.stations.values()
    )


def test_who_resumes_the_campaign_of_a_stopped_fleet_reads_that_the_stations_stay(tmp_path: Path) -> None:
    why = "4 stations are stopped: enpire campaign resume --stations"
    home = open_home(tmp_path)
    with Running(home, paused=True) as lab:
        lab.until(lambda lab: len(lab.stations) == 4)
        operator_commands.leave(home.inbox, "stop")
        lab.until(stopped_by_somebody)
        resumed = typed(lab, "campaign", "resume")
        assert resumed.stderr.splitlines()[1:] == [why]
        assert why in standing(snapshot(lab.lab))
        resumed = typed(lab, "campaign", "resume", "--stations")
        assert "campaign resume --stations: effective" in resumed.stderr
        assert "stopped" not in resumed.stderr + standing(snapshot(lab.lab))


def test_an_episode_of_a_campaign_that_ended_can_be_judged(tmp_path: Path) -> None:
    record_campaign(tmp_path)
    with open_records(tmp_path) as records:
        assert campaign_view(records, CAMPAIGN).state == "reached"
        chosen = unchecked(records, CAMPAIGN, 1)[0].order_id
    named = enpire("episodes", "audit", "--home", tmp_path)
    assert "enpire episodes judge ID success|failure" in named.stdout
    result = enpire("episodes", "judge", chosen, "failure", "--home", tmp_path)
    assert result.exit_code == 0, result.stderr
    assert f"{chosen} is labelled failure." in result.output
    with open_records(tmp_path) as records:
        labels = campaign_view(records, CAMPAIGN).labels
        assert labels is not None
        assert (labels.checked, labels.wrong) == (1, 1)
        assert chosen not in {line.order_id for line in unchecked(records, CAMPAIGN, 1000)}
    ledger = open_to_read(tmp_path / "ledger.db")
    ledger.verify()
    assert all(check.equal for check in recompute(ledger))
    ledger.close()


def test_what_has_no_verdict_cannot_be_judged(tmp_path: Path) -> None:
    record_campaign(tmp_path)
    with open_records(tmp_path) as records:
        aborted = next(
            row[0] for row in records.ledger.database.execute("SELECT order_id FROM orders WHERE outcome = 'aborted'")
        )
    result = enpire("episodes", "judge", aborted, "failure", "--home", tmp_path)
    assert result.exit_code == 1
    assert "no episode of this home that ended with a verdict" in result.stderr


def test_an_episode_is_found_by_the_beginning_or_the_end_of_its_id(tmp_path: Path) -> None:
    record_campaign(tmp_path)
    whole = f"01J{77:023}"
    shown = enpire("episodes", "show", whole[-23:], "--home", tmp_path)
    assert shown.exit_code == 0, shown.stderr
    assert whole in shown.stdout
    many = enpire("episodes", "show", "01j", "--home", tmp_path)
    assert many.exit_code == 1
    assert "Several episodes" in many.stderr
    short = enpire("episodes", "judge", whole[-5:], "success", "--home", tmp_path)
    assert f"{whole[-5:]!r} may name an episode by chance" in short.stderr
    none = enpire("episodes", "show", "zzz", "--home", tmp_path)
    assert "no episode whose id begins or ends with 'zzz'" in none.stderr
