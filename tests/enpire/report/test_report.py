from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from enpire.queries import campaigns
from enpire.report import charts
from enpire.report.report import account, headline, write_report
from enpire.store import pictures
from enpire.store.ledger import open_to_read
from tests.enpire.store.store_samples import chained_again
from tests.fakes.sample_branches import record_branches
from tests.fakes.sample_campaign import BASE, CAMPAIGN, SECOND, begin, keep_files, record_campaign

VOID = {"meta", "link", "img", "br", "hr", "input"}


class Nesting(HTMLParser):
    """Notes every tag that is closed out of turn, and all text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.sources: list[str] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.sources += [value or "" for name, value in attrs if name in {"src", "href", "srcset"}]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def read(path: Path) -> tuple[str, Nesting]:
    text = path.read_text(encoding="utf-8")
    page = Nesting()
    page.feed(text)
    assert (page.wrong, page.open) == ([], [])
    return text, page


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lab")
    record = record_campaign(folder)
    with campaigns.open_records(folder) as records:
        for film in (record.orders, 6):
            keep_files(record, campaigns.episode(records, f"01J{film:023}").episode.order_id, film)
    return folder


def test_the_page_says_what_happened_with_intervals(home: Path) -> None:
    text, page = read(write_report(home))
    words = " ".join(" ".join(page.words).split())
    assert re.search(r"Goal reached after .+: success on fresh starts 100\.0% \[94\.0%, 100\.0%\] of 60", words)
    assert "What raised success" in words
    assert "promote (better)" in words
    assert "hold (futility)" in words, "the ledger records it as hopeless"
    assert "hopeless" not in words
    assert re.search(r"281 orders started = 216 success \+ 62 failure \+ 3 aborted", words)
    assert "The chain over" in words
    assert re.search(r"\b(\d+) decisions and sums recomputed from the records: \1 equal, 0 different", words)
    assert "Robot-hours" in words
    assert SECOND[:12] in text
    assert "habc_short" in page.words


def test_the_page_needs_nothing_else(home: Path) -> None:
    text, page = read(write_report(home))
    assert [source for source in page.sources if not source.startswith("data:")] == []
    assert "http://" not in text
    assert "https://" not in text
    assert "<script" not in text
    assert "default-src 'none'" in text
    assert "prefers-color-scheme: dark" in text


def test_sensors_stand_in_for_cameras_and_pictures_come_first(home: Path) -> None:
    text, _ = read(write_report(home))
    assert "The curves below show the recorded state." in text, "after the reason why there are no pictures"
    assert text.count('class="curve"') >= 3
    folder = home / "episodes" / CAMPAIGN / f"01J{6:023}"
    image = np.zeros((4, 4, 3), np.uint8)
    pictures.keep(folder / pictures.NAME, {tick: {"front": image} for tick in (0, 100, 10)}, "jpg")
    strip = charts.image_strip(str(folder))
    told = [f"front, frame {tick}" for tick in (0, 10, 100)]
    assert re.findall(r'alt="([^"]+)"', strip) == told, "in the order of time"
    assert strip.count('src="data:image/jpeg;base64,/9j/') == 3


def test_text_from_the_ledger_is_text_and_never_markup(tmp_path: Path) -> None:
    record = begin(tmp_path, name="<script>alert(1)</script>")
    record.tell("station joined", station="<b>cell</b>", lanes=1, lease=3, facts={})
    record.tell("robot time", stations={"<b>cell</b>": {"rollout": 1.0}}, wall_s=2.0, robot_s=1.0)
    record.tell(
        "learner started", job="j", learner="<i>habc", parent="", round=1, episodes=[], recipe_hash="", data_hash=""
    )
    record.tell("learner failed", job="j", why='"><img src=x onerror=alert(1)>')
    record.flush()
    text, page = read(write_report(tmp_path))
    for bad in ("<script>", "<b>cell", "<i>habc", "<img src=x"):
        assert bad not in text
    assert "<script>alert(1)</script>" in "".join(page.words)


def test_a_campaign_that_only_began_has_a_report(tmp_path: Path) -> None:
    record = begin(tmp_path)
    record.entries = record.entries[:1]
    record.flush()
    text, _ = read(write_report(tmp_path, "", tmp_path / "out" / "night.html"))
    assert "No version has been tried on hidden starts yet." in text
    assert "No trial has ended yet." in text
    assert "No robot time was recorded." in text


def test_an_unfinished_campaign_says_how_far_it_is(tmp_path: Path) -> None:
    record = begin(tmp_path)
    record.flush()
    with campaigns.open_records(tmp_path) as records:
        view = campaigns.campaign_view(records, CAMPAIGN)
    assert headline(view).startswith(
        "Goal not reached: success of the champion on hidden starts 32.5% [20.1%, 48.0%] of 40"
    )
    assert account(view).adds_up
    assert account(view).started == 44


def test_a_goal_by_the_bound_that_a_confirmation_missed_says_by_how_much(home: Path) -> None:
    with campaigns.open_records(home) as records:
        view = campaigns.campaign_view(records, CAMPAIGN)
    assert view.confirm is not None
    assert "confirmation, fresh starts: 100.0% [94.0%, 100.0%] of 60, at least 95.1%" in charts.learning_curve(view)
    missed = replace(view.confirm, passed=False, bound=0.94)
    said = headline(replace(view, confirm=missed, goal=replace(view.goal, by="bound", success=0.95)))
    assert "on fresh starts 100.0% [94.0%, 100.0%] of 60, at least 94.0%" in said
    assert said.count("at least 94.0%") == 1
    assert "goal at least 95.0%" in said


def test_a_broken_chain_is_said_in_the_report(tmp_path: Path) -> None:
    import sqlite3

    begin(tmp_path).flush()
    database = sqlite3.connect(tmp_path / "ledger.db")
    database.execute("UPDATE events SET stamp_ns = stamp_ns + 1 WHERE seq = 5")
    database.commit()
    database.close()
    _, page = read(write_report(tmp_path))
    words = " ".join(page.words)
    assert "is intact" not in words
    assert re.search(r"Event 5 of the ledger does not verify", words)


def test_the_curve_stays_inside_the_picture(home: Path) -> None:
    with campaigns.open_records(home) as records:
        curve = charts.learning_curve(campaigns.campaign_view(records, CAMPAIGN))
    xs = [float(value) for value in re.findall(r'\bc?x[12]?="([\d.]+)"', curve)]
    ys = [float(value) for value in re.findall(r'\bc?y[12]?="([\d.]+)"', curve)]
    assert 0 <= min(xs) <= max(xs) <= charts.WIDTH
    assert 0 <= min(ys) <= max(ys) <= charts.HEIGHT


def test_a_sum_that_does_not_hold_is_said_in_red(home: Path, tmp_path: Path) -> None:
    with campaigns.open_records(home) as records:
        view = campaigns.campaign_view(records, CAMPAIGN)
    assert account(view).adds_up
    for kind in ("success", "total", "open"):
        wrong = replace(view, episodes={**view.episodes, kind: view.episodes[kind] + 1})
        assert not account(wrong).adds_up, kind
    forgotten = replace(view, episodes={**view.episodes, "aborted": 0})
    assert not account(forgotten).adds_up


def test_a_decision_that_differs_and_records_that_do_not_verify_are_said_in_red(tmp_path: Path) -> None:
    record_campaign(tmp_path)
    text, _ = read(write_report(tmp_path))
    assert ": THE SUM IS WRONG" not in text
    assert "0 different." in text
    with closing(open_to_read(tmp_path / "ledger.db")) as ledger:
        assert f"Head of the ledger: {ledger.head}" in text
    with closing(sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)) as editor:
        editor.execute("UPDATE events SET body = json_set(body, '$.passed', json('false')) WHERE kind = 'confirmed'")
        editor.execute("DELETE FROM orders WHERE outcome = 'aborted'")
    chained_again(tmp_path / "ledger.db")
    text, page = read(write_report(tmp_path))
    words = " ".join(" ".join(page.words).split())
    assert '<p class="bad">The HMAC of the head of the ledger' in text
    assert re.search(r'<p class="bad">\d+ decisions and sums recomputed from the records: \d+ equal, 1 different', text)
    assert "the ledger has passed = False, the records give True" in words


def test_the_report_shows_branches_with_a_chart_and_a_table(tmp_path: Path) -> None:
    record_branches(tmp_path)
    text, page = read(write_report(tmp_path))
    words = " ".join(" ".join(page.words).split())
    assert "Branches" in page.words
    assert "1 hil_serl" in words
    assert "keep (better)" in words
    assert "continues branch 1" in words
    assert "learned from 16 episodes: 4 demonstrations, 12 of its own" in words
    chart = text[text.index('aria-label="Gain of each branch') :]
    chart = chart[: chart.index("</svg>")]
    assert chart.count("<circle") == 4, "two versions of the kept branch, one of each other branch"
    assert all(0 <= float(value) <= 300 for value in re.findall(r'\by[12]="([\d.-]+)"', chart))


def test_a_report_without_branches_has_no_section_of_them(home: Path) -> None:
    text, _ = read(write_report(home))
    assert "<h2>Branches</h2>" not in text


def test_incidents_are_listed_with_their_time(tmp_path: Path) -> None:
    record = begin(tmp_path)
    record.tell("command accepted", command_id="1", verb="stop", target="", by="ada", reason="")
    record.tell("command accepted", command_id="2", verb="resume", target="", by="ada", reason="")
    record.tell("limits changed", by="ada", reason="one more night", limits={"budget": {"wall_s": 7200.0}})
    record.tell("rolled back", policy_id=SECOND, to=BASE, reason="it shakes")
    record.flush()
    words = " ".join(" ".join(read(write_report(tmp_path))[1].words).split())
    assert "command of ada: stop" in words
    assert "command of ada: resume" not in words
    assert "ada changed the limits: budget.wall_s=7200 (one more night)" in words
    assert f"rolled back to {BASE[:12]}: it shakes" in words
