"""README's lines of the terminal are those that `benchmarks.readme_picture` would write."""

from __future__ import annotations

from benchmarks.readme_picture import BLOCK, README, shown

RUN = [
    "Page: http://127.0.0.1:1/setup#secret", "00:00  pin_insertion: to 95.0% success; files go to /tmp/x/home",
    "00:02  round 0 | demonstrations: 71 of 80 | 151 episodes", "00:05  station sim-1 joined with 16 lanes",
    "01:02:03  round 1: habc learns from 447 episodes", "01:02:04  gate: hold (pairs exhausted), +1 -1 of 400 pairs",
    "Report: /tmp/x/home/reports/1.html", "Show its page again: /usr/bin/python -m enpire.cli serve --home /tmp/x/home",
]  # fmt: skip


def test_only_the_main_lines_are_shown_and_no_path_of_the_machine() -> None:
    assert shown(RUN, "/tmp/x/home").splitlines() == [
        "00:00  pin_insertion: to 95.0% success; files go to .enpire",
        "01:02:03  round 1: habc learns from 447 episodes",
        "01:02:04  gate: hold (pairs exhausted), +1 -1 of 400 pairs",
        "Show its page again: .venv/bin/enpire serve --home .enpire",
    ]


def test_readme_has_one_block_that_is_made_so() -> None:
    [block] = BLOCK.findall(README.read_text(encoding="utf-8"))
    assert shown(block.splitlines(), "/nowhere") == block
