"""`benchmarks.overview` reports what its benchmarks did: toys that pass, miss, hide, raise, hang or leak."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import time
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from benchmarks import left_behind, overview
from benchmarks.overview import Ended, Places, finished_here, main
from benchmarks.overview_plan import LEFT_OUT, LONGEST_S, PLAN, Quick
from benchmarks.overview_results import load, save

TOYS_OF = f"toys-of-{os.getpid()}"
ROOT = Path(__file__).resolve().parents[2]


def toy(how: str, limit_s: float = 60.0) -> Quick:
    return Quick(
        name=how, arguments=how, limit_s=limit_s, shows=f"a toy that does this: {how}", full="pass",
        module="tests.benchmarks.toy_benchmark",
    )  # fmt: skip


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(results=tmp_path / "results.json", markdown=tmp_path / "b.md", html=tmp_path / "plots" / "b.html")


def test_what_each_benchmark_did_is_said_as_such(places: Places, capsys: pytest.CaptureFixture[str]) -> None:
    toys = [toy("pass"), toy("miss"), toy("hide"), toy("raise")]
    assert main([], toys, places) == 1
    found = load(places.results)
    verdicts = {name: (result.verdict, result.why) for name, result in found.items()}
    assert verdicts == {
        "pass": ("PASS", ""),
        "miss": ("FAIL", "FAIL  toy ratio: 1.5 [0.25, 0.75] (at most 1)"),
        "hide": ("FAIL", "exit code 0, although a line says FAIL: FAIL  the tower stands"),
        "raise": ("ERROR", "exit code 1: OSError: the toy is broken"),
    }
    assert found["pass"].seeds == "3, 4"
    assert [number.text() for number in found["pass"].numbers] == ["0.5 [0.25, 0.75]", "3"]
    page = places.markdown.read_text(encoding="utf-8")
    assert "| toy ratio | ENPIRE | 1.5 [0.25, 0.75] | at most 1 | FAIL |" in page
    assert "ERROR: exit code 1: OSError: the toy is broken" in page
    assert "miss             FAIL" in capsys.readouterr().out


def test_all_passed_is_exit_code_0_and_one_name_keeps_the_other_results(places: Places) -> None:
    toys = [toy("pass"), toy("miss")]
    assert main(["--only", "miss"], toys, places) == 1
    before = load(places.results)["miss"]
    assert main(["--only", "pass"], toys, places) == 0
    found = load(places.results)
    assert set(found) == {"pass", "miss"}
    assert found["miss"] == before
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", before.at)
    assert before.machine
    assert before.commit


def test_what_is_missing_runs_and_what_has_a_result_of_this_commit_does_not(places: Places) -> None:
    toys = [toy("pass"), toy("miss")]
    main([], toys, places)
    first = load(places.results)
    assert [finished_here(one, first) for one in toys] == [True, True]
    changed = {**first, "miss": replace(first["miss"], commit="older")}
    save(changed, places.results)
    assert main(["--missing"], toys, places) == 1
    again = load(places.results)
    assert again["miss"].commit == first["miss"].commit
    assert again["pass"] == first["pass"]
    for reason in ({"verdict": "KILLED"}, {"machine": "another one"}, {"command": "python -m benchmarks.pass --full"}):
        assert not finished_here(toys[0], {"pass": replace(first["pass"], **reason)})


def test_a_benchmark_over_its_limit_is_killed_with_its_descendants(places: Places) -> None:
    assert main([], [toy("slow", limit_s=4.0)], places) == 1
    found = load(places.results)["slow"]
    assert (found.verdict, found.why) == ("KILLED", "it ran over its limit of 4 s")
    assert not living_toys()


def test_a_process_left_behind_is_a_miss_and_is_ended(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview, "ENDED_S", 0.3)
    assert main([], [toy("leave")], places) == 1
    found = load(places.results)["leave"]
    assert found.verdict == "FAIL"
    assert found.why.startswith("1 process(es) outlived it: ")
    assert "time.sleep(600)" in found.why
    assert not living_toys()


def living_toys() -> list[str]:
    """Command lines of the living processes of toys of this test."""
    found: list[str] = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if TOYS_OF.encode() in (folder / "environ").read_bytes():
                found.append((folder / "cmdline").read_bytes().decode())
        except OSError:
            continue
    return [line for line in found if "time.sleep(600)" in line]


@pytest.fixture(autouse=True)
def _mark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOYS_OF", TOYS_OF)


def test_a_death_by_a_signal_is_an_error() -> None:
    ended = Ended(code=-9, output="", seconds=1.0, killed=False)
    assert ended.verdict(60.0, []) == ("ERROR", "exit code -9")


def test_marked_processes_are_found_until_they_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(left_behind.MARK, "of-this-test")
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        until = time.monotonic() + 300
        while process.pid not in left_behind.marked("of-this-test") and time.monotonic() < until:
            time.sleep(0.01)
        assert list(left_behind.marked("of-this-test")) == [process.pid]
        assert left_behind.marked("of-this") == {}, "the whole mark must be the same"
        left_behind.end("of-this-test", 60.0)
        assert left_behind.marked("of-this-test") == {}
    finally:
        process.kill()
        process.wait()


class Loads(HTMLParser):
    """The addresses that a page loads."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = [value or "" for name, value in attrs if name in ("src", "href")]
        self.found += [value for value in found if not value.startswith("#")]


def test_the_page_of_plots_loads_nothing_and_shows_numbers_with_intervals_and_limits(places: Places) -> None:
    main([], [toy("pass")], places)
    text = places.html.read_text(encoding="utf-8")
    loads = Loads()
    loads.feed(text)
    assert not loads.found
    assert "url(" not in text
    for word in ("toy ratio", "0.5 [0.25, 0.75]", "Published by others", "Not measured here", "seeds 3, 4", "commit"):
        assert word in text
    assert text.count("<circle") == 2
    assert text.count("var(--limit)' stroke-width") == 1


def test_pages_name_what_has_not_run(places: Places) -> None:
    assert main(["--pages"], [toy("pass")], places) == 0
    assert "| `pass` | a toy that does this: pass | not run yet | | |" in places.markdown.read_text(encoding="utf-8")
    assert "not run yet" in places.html.read_text(encoding="utf-8")


def test_the_quick_forms_take_at_most_half_an_hour_and_every_benchmark_has_one_or_a_reason() -> None:
    assert sum(quick.limit_s for quick in PLAN) <= LONGEST_S == 1800.0
    named = [quick.name for quick in PLAN]
    assert len(named) == len(set(named))
    commands = {
        path.stem for path in (ROOT / "benchmarks").glob("*.py")
        if '__name__ == "__main__"' in path.read_text(encoding="utf-8")
    }  # fmt: skip
    commands |= {path.parent.name for path in (ROOT / "benchmarks").glob("*/__main__.py")}
    assert set(named) | set(LEFT_OUT) == commands
    assert not set(named) & set(LEFT_OUT)


@pytest.mark.parametrize("quick", PLAN, ids=lambda quick: quick.name)
def test_a_benchmark_hands_its_exit_code_on(quick: Quick) -> None:
    tree = ast.parse((ROOT / "benchmarks" / f"{quick.name}.py").read_text(encoding="utf-8"))
    last = ast.unparse(tree.body[-1])
    assert "sys.exit(" in last, f"benchmarks.{quick.name} always ends with exit code 0"
