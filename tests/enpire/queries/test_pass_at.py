"""pass@k of a recorded campaign whose trials can be counted by hand, in every place that shows it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from enpire.cli import app
from enpire.errors import UsageError
from enpire.queries import campaigns
from enpire.queries.pass_at import pass_at
from enpire.report.report import write_report
from enpire.store.reading import Attempts
from enpire.types import OutcomeKind
from tests.fakes.sample_campaign import BASE, CAMPAIGN, SECOND, begin

TRIALS: tuple[tuple[OutcomeKind, int, int], ...] = (
    ("success", 0, 4), ("success", 1, 2), ("success", 2, 1), ("failure", 1, 2), ("unsafe", 0, 1), ("aborted", 0, 3),
)  # fmt: skip
"""(outcome, retries, how many trials): 4 of 10 pass at the first attempt, 6 within two, 7 within three."""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    record = begin(tmp_path)
    record.learn(1, BASE, SECOND)
    for outcome, retries, count in TRIALS:
        for _ in range(count):
            record.end(record.order("confirm", SECOND, 1), outcome, retries=tuple(range(retries)))
    for _ in range(5):
        record.end(record.order("collect", SECOND, 1), "success", retries=(1, 2, 3))  # training starts do not count
    record.order("confirm", SECOND, 1)  # open
    record.flush()
    return tmp_path


def test_each_version_has_pass_at_1_up_to_the_largest_number_of_attempts(home: Path) -> None:
    with campaigns.open_records(home) as records:
        base, second = campaigns.campaign_view(records, CAMPAIGN).pass_at
    assert (base.id, base.round) == (BASE, 0)
    assert [(rate.successes, rate.n) for rate in base.rates] == [(13, 40)] * 3, "no trial of the base was tried again"
    assert (second.id, second.round) == (SECOND, 1)
    assert [(rate.successes, rate.n) for rate in second.rates] == [(4, 10), (6, 10), (7, 10)]
    assert second.rates[2].success == pytest.approx(0.7)
    assert (round(second.rates[2].low, 3), round(second.rates[2].high, 3)) == (0.397, 0.892), "Wilson 1927"


def test_the_last_rate_is_the_success_rate(home: Path) -> None:
    with campaigns.open_records(home) as records:
        view = campaigns.campaign_view(records, CAMPAIGN)
        version = campaigns.find_version(records, CAMPAIGN, SECOND)
    assert view.pass_at[1].rates[-1] == version.hidden
    assert view.pass_at[0].rates[-1].n == 40


def test_the_command_line_shows_it(home: Path) -> None:
    shown = CliRunner().invoke(app, ["campaign", "show", "--home", str(home)])
    assert "success within the first k attempts of a trial on hidden starts" in shown.stdout
    assert (
        f"    1  {SECOND[:12]}  pass@1 40.0% [16.8%, 68.7%]  pass@2 60.0% [31.3%, 83.2%]  pass@3 70.0% [39.7%, 89.2%]"
        "  of 10" in shown.stdout
    )
    said = json.loads(CliRunner().invoke(app, ["campaign", "show", "--home", str(home), "--json"]).stdout)
    assert [rate["successes"] for rate in said["pass_at"][1]["rates"]] == [4, 6, 7]


def test_the_report_shows_it(home: Path) -> None:
    text = write_report(home).read_text(encoding="utf-8")
    assert "pass@3" in text
    assert "pass@4" not in text
    assert "70.0% [39.7%, 89.2%]" in text


def test_at_most_five_attempts_are_shown(tmp_path: Path) -> None:
    record = begin(tmp_path)
    for retries in range(8):
        record.end(record.order("confirm", BASE, 1), "success", retries=tuple(range(retries)))
    record.flush()
    with campaigns.open_records(tmp_path) as records:
        (base,) = campaigns.campaign_view(records, CAMPAIGN).pass_at
    assert [rate.successes - base.rates[0].successes for rate in base.rates] == [0, 1, 2, 3, 4]
    assert {rate.n for rate in base.rates} == {48}


def test_a_campaign_without_trials_has_none(tmp_path: Path) -> None:
    record = begin(tmp_path)
    record.entries = record.entries[:1]
    record.flush()
    with campaigns.open_records(tmp_path) as records:
        assert campaigns.campaign_view(records, CAMPAIGN).pass_at == ()
    assert "pass@" not in write_report(tmp_path).read_text(encoding="utf-8")


def test_less_than_one_attempt_is_refused() -> None:
    trials = [Attempts(policy_id=BASE, attempts=1, successes=1, n_ended=2)]
    assert pass_at(trials, 1).rate == 0.5
    with pytest.raises(UsageError, match="pass@0 is not defined; give a number of attempts of at least 1"):
        pass_at(trials, 0)
