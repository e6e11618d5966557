#!/usr/bin/env python3
"""Which slow tests run today, so that every slow test comes within some days and no day takes long.

.ci/slow-turns.toml says how many days there are, how many seconds of CPU a day may take, what each test cost, and
which tests run by hand only. Each test belongs to one of the days. The tests of a file share a day where they take at
most half of it, because they import the same packages. A test without a record counts as `unknown_s` and comes on a day
that has room, so a new slow test runs without any change of that file.

`slow_turns.py today COLLECTED [DAY]` prints the tests of DAY (0 to days - 1; without it, of today's date). COLLECTED is
the output of `pytest --collect-only -q`. `slow_turns.py record COSTS` takes what tests cost, as `pytest --costs COSTS`
writes it, into slow-turns.toml.
"""

from __future__ import annotations

import datetime
import json
import re
import sys
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

TABLE = Path(__file__).with_name("slow-turns.toml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """What slow-turns.toml says."""

    days: int
    limit_s: float
    """Seconds of CPU of one day, at most."""
    unknown_s: float
    """Seconds of CPU of a test without a record."""
    by_hand: Mapping[str, str]
    """Test -> why no day runs it."""
    seconds: Mapping[str, float]
    """Test -> seconds of CPU that it took."""

    def days_of(self, collected: Iterable[str]) -> list[list[str]]:
        """The tests of each day, each list as `collected` orders them.

        Tests with a record are laid out first, whether collected or not, so a new test moves none of them.

        Raises:
            SystemExit: A day takes more than `limit_s`.
        """
        tests = list(collected)
        new = sorted(set(tests) - self.seconds.keys() - self.by_hand.keys())
        sums = [0.0] * self.days
        day_of: dict[str, int] = {}
        for group in (*self._groups(), *([test] for test in new)):
            day = sums.index(min(sums))
            sums[day] += self.cost_s(group)
            day_of.update(dict.fromkeys(group, day))
        if max(sums) > self.limit_s:
            raise SystemExit(
                f"{TABLE.name}: {self.days} days are too few. {len(day_of)} slow tests, {len(new)} of them without a "
                f"record, take {sum(sums):.0f} s of CPU, and one day {max(sums):.0f} s; {self.limit_s:.0f} s are "
                f"allowed. Record what the new ones take (`slow_turns.py record`), raise `days`, or name a test that "
                f"takes too long under [by_hand]."
            )
        return [[test for test in tests if day_of.get(test) == day] for day in range(self.days)]

    def cost_s(self, tests: Iterable[str]) -> float:
        """Seconds of CPU of `tests`."""
        return sum(self.seconds.get(test, self.unknown_s) for test in tests)

    def _groups(self) -> list[list[str]]:
        """Tests with a record that share a day, the dearest group first."""
        files: dict[str, list[str]] = {}
        for test in sorted(self.seconds.keys() - self.by_hand.keys()):
            files.setdefault(test.split("::")[0], []).append(test)
        groups: list[list[str]] = []
        for tests in files.values():
            groups += [tests] if self.cost_s(tests) <= self.limit_s / 2 else [[test] for test in tests]
        return sorted(groups, key=self.cost_s, reverse=True)


def read(path: Path = TABLE) -> Turns:
    """The table in `path`."""
    return Turns(**tomllib.loads(path.read_text(encoding="utf-8")))


def collected_in(output: str) -> list[str]:
    """Tests in the output of `pytest --collect-only -q`: one a line, up to the first empty line."""
    return [line for line in output.split("\n\n")[0].splitlines() if "::" in line]


def today(tests: list[str], turns: Turns, day: int) -> list[str]:
    """The tests of `day`. Says on standard error how many there are, and of how many."""
    chosen = turns.days_of(tests)[day]
    by_hand = len(turns.by_hand.keys() & set(tests))
    rest = f" all but {by_hand} of them ({TABLE.name} says why)" if by_hand else " all of them"
    print(
        f"== Day {day} of 0 to {turns.days - 1}: {len(chosen)} of {len(tests)} slow tests, about "
        f"{turns.cost_s(chosen):.0f} s of CPU. {turns.days} days run{rest}.",
        file=sys.stderr,
    )
    return chosen


def record(costs: str, path: Path = TABLE) -> None:
    """Put `costs` (lines of seconds and test) into the table. Lines above [seconds] stay as they are."""
    seconds = dict(read(path).seconds)
    for line in costs.splitlines():
        cost, test = line.split(" ", 1)
        seconds[test] = float(cost)
    head = path.read_text(encoding="utf-8").partition("[seconds]\n")[0]
    rows = "".join(f"{json.dumps(test)} = {seconds[test]:.1f}\n" for test in sorted(seconds))
    path.write_text(f"{head}[seconds]\n{rows}", encoding="utf-8")


def main(arguments: list[str]) -> None:
    """See the top of this file."""
    match arguments:
        case ["today", collected]:
            turns = read()
            day = datetime.date.today().toordinal() % turns.days
            print("\n".join(today(collected_in(Path(collected).read_text()), turns, day)))
        case ["today", collected, day] if re.fullmatch(r"\d+", day) and int(day) < read().days:
            print("\n".join(today(collected_in(Path(collected).read_text()), read(), int(day))))
        case ["record", costs]:
            record(Path(costs).read_text())
        case _:
            raise SystemExit(f"usage: slow_turns.py today COLLECTED [0 to {read().days - 1}] | record COSTS")


if __name__ == "__main__":
    main(sys.argv[1:])
