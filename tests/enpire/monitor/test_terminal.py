from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path

import pytest

from enpire.campaign.gate_events import GateDecided, GateSides
from enpire.gate.gate import Reason, decide
from enpire.gate.rule import GateRule
from enpire.gate.trials import Tally
from enpire.monitor.event_lines import line_of
from enpire.monitor.lab_snapshot import GateLine, LabSnapshot, LearnerLine, RobotUse, RoundLine, StationLine
from enpire.monitor.terminal import TerminalView, clock, gate_text, screen, standing, strip, success_text
from enpire.types import Interval
from tests.fakes.sample_events import event

CHAMPION = "c" * 64


def a_snapshot() -> LabSnapshot:
    return LabSnapshot(
        campaign_name="pin_insertion",
        elapsed_s=75.0,
        wall_budget_s=240.0,
        round=2,
        phase_text="gate 2: champion against candidate on hidden starts",
        stations=(
            StationLine(name="cell-1", phase="rollout", lanes=16, episodes=210, episodes_per_min=168, verdicts="ssfs"),
            StationLine(name="[red]cell-2", phase="fault", lanes=16, alarm="the gripper is stuck"),
        ),
        rounds=(RoundLine(round=1, purpose="collect", interval=Interval(successes=61, n=100, low=0.51, high=0.70)),),
        learner=LearnerLine(stage="critic", done=30, total=120),
        gates=(GateLine(k=2, pairs=24, max_pairs=400, wins=9, losses=2, log_e=1.8, need=3.7, more=31),),
        champion=CHAMPION,
        champion_interval=Interval(successes=20, n=40, low=0.35, high=0.65),
        use=RobotUse(mru=0.93, motion=0.88, real_time_factor=41.26),
        episodes={"success": 300, "failure": 100, "open": 12},
        home="/lab",
    )


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def drawn(snapshot: LabSnapshot) -> str:
    from rich.console import Console

    out = io.StringIO()
    Console(file=out, width=140).print(screen("pin_insertion: to 97.0 %", snapshot, ["00:10  station joined"]))
    return out.getvalue()


def test_the_screen_shows_all_that_a_person_asks() -> None:
    text = drawn(a_snapshot())
    for expected in (
        "01:15 of at most 04:00", "round 2", "gate 2: champion against candidate", "50.0% [35.0%, 65.0%] of 40",
        "cell-1", "rollout", "the gripper is stuck", "168", "61% [51%, 70%] of 100", "critic 30/120",
        "+9 -2 in 24 pairs", "log evidence 1.8 (threshold 3.7)", "about 31 more pairs", "400 episodes",
        "robot utilisation 93% | in motion 88% | real-time factor 41.3", "files: /lab", "station joined",
    ):  # fmt: skip
        assert expected in text, expected


def test_names_are_text_and_never_markup() -> None:
    assert "[red]cell-2" in drawn(a_snapshot())


def test_success_that_the_simulation_judged_says_so() -> None:
    snapshot = a_snapshot()
    assert "simulator truth" not in success_text(snapshot)
    assert success_text(replace(snapshot, task="gym:push.yaml")).endswith("of 40, simulator truth")


def test_an_empty_lab_can_be_drawn() -> None:
    assert "no trial on hidden starts yet" in drawn(LabSnapshot())


def test_a_terminal_is_drawn_in_place_and_left_standing() -> None:
    out = Terminal()
    view = TerminalView("pin_insertion: to 97.0% confirmed success", Path("/lab"), out)
    view.update(a_snapshot())
    view.note(event("station joined", station="cell-1", lanes=16))
    view.close()
    view.close()
    assert "\x1b[" in out.getvalue(), "escape codes redraw the screen"
    assert "cell-1" in out.getvalue()


def test_without_a_terminal_every_notable_event_is_one_plain_line() -> None:
    out = io.StringIO()
    view = TerminalView("pin_insertion: to 97.0% confirmed success", Path("/lab"), out)
    view.note(event("station joined", station="cell-1", lanes=16))
    view.note(event("order issued", orders=[]))
    view.note(event("learner progressed", job="j"))
    view.note(event("confirmed", policy_id=CHAMPION, successes=399, n=400, low=0.98612, high=1.0, passed=True))
    view.update(a_snapshot())
    view.close()
    lines = out.getvalue().splitlines()
    assert len(lines) == 3, "a start line and two events; nothing about orders, nor a repeated standing"
    assert lines[1].endswith("station cell-1 joined with 16 lanes")
    assert lines[2].endswith("confirmation of cccccccccccc: 399 of 400 [0.986, 1], at least 0.988, passed: yes")
    assert "\x1b" not in out.getvalue()


def test_events_that_nobody_needs_to_see_have_no_line() -> None:
    assert line_of(event("robot time")) == ""


def test_a_label_is_told_as_it_was_given() -> None:
    body = {"by": "anna", "order_id": "E1", "outcome": "unsafe"}
    assert line_of(event("person judged", **body)) == "anna labelled episode E1: unsafe"


@pytest.mark.parametrize(("stored", "shown"), [("hopeless", "futility"), ("spent", "pairs exhausted")])
def test_a_gate_line_shows_the_words_of_a_stored_reason(stored: Reason, shown: str) -> None:
    held = replace(decide(Tally(), GateRule(), 0.03), kind="hold", reason=stored)
    sides = GateSides(gate_id="g", champion=CHAMPION, candidate="b" * 64, round=1)
    assert line_of(GateDecided.of(sides, held)).startswith(f"gate: hold ({shown}), +0 -0 of 0 pairs")


def test_one_is_told_as_one() -> None:
    assert line_of(event("station joined", station="cell-1", lanes=1)) == "station cell-1 joined with 1 lane"
    learns = {"round": 1, "learner": "habc", "episodes": ["E1"]}
    assert line_of(event("learner started", **learns)) == "round 1: habc learns from 1 episode"


def test_the_standing_is_one_line() -> None:
    assert standing(a_snapshot()).count("\n") == 0
    assert "champion 50.0% [35.0%, 65.0%] of 40" in standing(a_snapshot())


def test_the_strip_shades_the_interval() -> None:
    line = RoundLine(round=1, purpose="collect", interval=Interval(successes=5, n=10, low=0.25, high=0.75))
    assert strip(line, width=8) == "██▓▓░░··"
    assert strip(RoundLine(round=1, purpose="collect", interval=Interval(successes=0, n=0, low=0, high=1))) == ""


def test_clocks_grow_hours_when_they_need_them() -> None:
    assert (clock(0), clock(75.9), clock(3_725)) == ("00:00", "01:15", "1:02:05")


def test_a_decided_branch_is_told_in_plain_words() -> None:
    measure = {
        "experiment_id": "01J00000000000000000ABCDEF", "policy_id": CHAMPION, "n": 32, "gain": 0.4239, "low": 0.3346,
        "high": 0.5128, "robot_s": 504.0, "learner_s": 20.0, "limit_ticks": 160,
    }  # fmt: skip
    gained = "gain +0.424 [+0.335, +0.513] on 32 starts, after 8.4 robot-minutes"
    assert (
        line_of(event("branch entered gate", **measure))
        == f"branch ABCDEF enters a gate with {CHAMPION[:12]}: {gained}"
    )
    ended = event("branch ended", **measure, reason="same actions", detail="experiment E2")
    assert line_of(ended) == f"branch ABCDEF ended: same actions (experiment E2), {gained}"


def test_a_hand_over_to_branches_is_told_in_plain_words() -> None:
    told = {"policy_id": CHAMPION, "round": 3, "without_gain": 1, "reason": "stalled"}
    one = line_of(event("rounds handed over", **told))
    assert one == "the last round did not show more success; robots act for branches now"
    two = line_of(event("rounds handed over", **{**told, "without_gain": 2}))
    assert two == "the last 2 rounds did not show more success; robots act for branches now"
    ended = line_of(event("rounds handed over", **{**told, "reason": "no round left"}))
    assert ended == "no round is left after round 3; robots act for branches now"


def test_the_terminal_says_for_how_many_branches_robots_act() -> None:
    assert "robots act for" not in standing(a_snapshot())
    assert "robots act for 1 branch" in standing(replace(a_snapshot(), branches=1))
    assert "robots act for 3 branches" in drawn(replace(a_snapshot(), branches=3))


def test_a_gate_that_cannot_reach_its_threshold_promises_no_more_pairs_than_are_left() -> None:
    gate = GateLine(k=1, pairs=287, max_pairs=400, wins=9, losses=2, log_e=0.4, need=3.7)
    assert gate_text(replace(gate, more=31)).endswith("(threshold 3.7), about 31 more pairs")
    assert gate_text(replace(gate, more=1687)).endswith("at this rate the 113 pairs that are left do not reach it")
    assert gate_text(gate).endswith("(threshold 3.7)")


def test_the_log_of_a_resumed_campaign_continues_its_clock() -> None:
    out = io.StringIO()
    view = TerminalView("coin", Path("/lab"), out)
    view.update(replace(a_snapshot(), elapsed_s=3600.0))
    view.note(event("campaign continued", by="ada"))
    view.close()
    assert re.search(r"^1:00:0\d  continued by ada$", out.getvalue(), re.M)


def test_a_terminal_of_80_by_24_shows_what_is_newest_and_what_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "24")
    stations = tuple(StationLine(name=f"cell-{n}", phase="stopped", lanes=1, stopped=True) for n in range(100))
    out = Terminal()
    view = TerminalView("pin_insertion: to 97.0% confirmed success", Path("/lab"), out)
    for number in range(9):
        view.note(event("station joined", station=f"{'a-station-with-a-long-name-' * 2}{number}", lanes=16))
    view.update(replace(a_snapshot(), stations=stations))
    frame = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", out.getvalue())
    assert len(frame.splitlines()) <= 24
    flat = " ".join(frame.split())
    for expected in (
        *(f"name-{number} joined with 16 lanes" for number in range(3, 9)), "learner: critic", "24 pairs",
        "100 stations are stopped: enpire campaign resume --stations",
    ):  # fmt: skip
        assert expected in flat, frame
    view.close()
