"""The terminal while a campaign runs: one live screen, or one plain line per notable event when nobody watches."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from enpire.campaign.events import Event
from enpire.log_lines import print_line
from enpire.monitor.event_lines import line_of
from enpire.monitor.lab_snapshot import GateLine, LabSnapshot, RoundLine, StationLine
from enpire.queries.texts import truth
from enpire.wording import counted

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live
    from rich.table import Table

REFRESH_S = 0.25
QUIET_S = 10.0
"""Without a terminal, the longest time between two lines, in seconds."""


class TerminalView:
    """Draws the lab in the terminal of `enpire run`; a `LabObserver`."""

    def __init__(self, title: str, home: Path, out: TextIO | None = None) -> None:
        """Draw on `out`, default stderr; print lines instead where it is not a terminal. `title`: campaign and goal."""
        self._out = out or sys.stderr
        self._title = title
        self._home = home
        self._began_s = time.monotonic()
        self._drawn_s = self._said_s = 0.0
        self._resumed_s = 0.0
        """Seconds of the campaign before this session, so that a resumed log continues its clock."""
        self._live: Live | None = None
        self._events: list[str] = []
        if self._out.isatty():
            self._live = self._open()
        else:
            self._say(f"{self._title}; files go to {home}")

    def update(self, snapshot: LabSnapshot) -> None:
        """Show the lab as it is now; draws at most four times a second."""
        now = time.monotonic()
        self._resumed_s = max(self._resumed_s, snapshot.elapsed_s - (now - self._began_s))
        if self._live is not None and now - self._drawn_s >= REFRESH_S:
            self._drawn_s = now
            self._live.update(screen(self._title, snapshot, self._events), refresh=True)
        elif self._live is None and now - self._said_s >= QUIET_S:
            self._say(standing(snapshot))

    def note(self, event: Event) -> None:
        """Show an event, if a person wants to know it."""
        line = line_of(event)
        if not line:
            return
        self._events = [*self._events[-5:], f"{clock(self._elapsed_s())}  {line}"]
        if self._live is None:
            self._say(line)

    def close(self) -> None:
        """End the live screen; its last state stays visible. Allowed twice."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _open(self) -> Live:
        from rich.console import Console
        from rich.live import Live

        console: Console = Console(file=self._out)
        live = Live(console=console, auto_refresh=False, transient=False)
        live.start()
        return live

    def _say(self, line: str) -> None:
        self._said_s = time.monotonic()
        print_line(f"{clock(self._elapsed_s())}  {line}", self._out)

    def _elapsed_s(self) -> float:
        """Seconds of the campaign."""
        return time.monotonic() - self._began_s + self._resumed_s


def clock(seconds: float) -> str:
    """Seconds as minutes:seconds, with hours when there are any."""
    minutes, rest = divmod(int(max(0.0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes:02}:{rest:02}"


def standing(snapshot: LabSnapshot) -> str:
    """The state of the campaign on one line."""
    facts = [f"round {snapshot.round}", snapshot.phase_text, work_done(snapshot)]
    if snapshot.champion_interval is not None:
        facts.append(f"champion {success_text(snapshot)}")
    facts += filter(None, [branches_text(snapshot), held(snapshot)])
    return " | ".join(facts)


def branches_text(snapshot: LabSnapshot) -> str:
    """Number of branches for which robots act; empty for none."""
    return f"robots act for {counted(snapshot.branches, 'branch', 'branches')}" if snapshot.branches else ""


def held_text(stopped: int, paused: int) -> str:
    """How many stations are stopped or paused, and the command that resumes them; empty for none."""
    found = [
        f"{n} {'station is' if n == 1 else 'stations are'} {how}"
        for n, how in ((stopped, "stopped"), (paused, "paused"))
        if n
    ]
    return f"{', '.join(found)}: enpire campaign resume --stations" if found else ""


def held(snapshot: LabSnapshot) -> str:
    """`held_text` of the stations of a running lab."""
    stations = snapshot.stations
    paused = [line for line in stations if line.paused and not line.stopped and not line.service_by]
    return held_text(sum(line.stopped for line in stations), len(paused))


def work_done(snapshot: LabSnapshot) -> str:
    """Number of ended episodes, robot utilisation, share in motion and real-time factor."""
    ended, use = sum(count for kind, count in snapshot.episodes.items() if kind != "open"), snapshot.use
    parts = [counted(ended, "episode")]
    parts += [] if use.mru is None else [f"robot utilisation {use.mru:.0%}"]
    parts += [] if use.motion is None else [f"in motion {use.motion:.0%}"]
    parts += [] if use.real_time_factor is None else [f"real-time factor {use.real_time_factor:.3g}"]
    return " | ".join(parts)


def success_text(snapshot: LabSnapshot) -> str:
    """Success of the champion with its interval and n."""
    interval = snapshot.champion_interval
    if interval is None or not interval.n:
        return "no trial on hidden starts yet"
    return f"{interval.rate:.1%} [{interval.low:.1%}, {interval.high:.1%}] of {interval.n}{truth(snapshot.task)}"


def screen(title: str, snapshot: LabSnapshot, events: list[str]) -> RenderableType:
    """The whole live screen."""
    from rich.console import Group
    from rich.text import Text

    budget = f" of at most {clock(snapshot.wall_budget_s)}" if snapshot.wall_budget_s else ""
    time_text = clock(snapshot.elapsed_s) + budget
    acting = branches_text(snapshot)
    phase = f"round {snapshot.round}: {snapshot.phase_text}" + (f"; {acting}" if acting else "")
    head = Text.assemble((title, "bold"), f"   {time_text}\n", (phase, "cyan"))
    champion = Text(f"champion {snapshot.champion[:12] or '-'}: {success_text(snapshot)}")
    # What is newest or waits for an operator stands above the tables: a small screen cuts off the end.
    parts: list[RenderableType] = [head, champion]
    if still := held(snapshot):
        parts.append(Text(still, style="red"))
    parts.append(Text("\n".join(events), style="dim"))
    if snapshot.learner is not None:
        parts.append(_bar(f"learner: {snapshot.learner.stage}", snapshot.learner.done, snapshot.learner.total))
    for gate in snapshot.gates:
        parts += [Text(gate_text(gate)), _bar(f"gate {gate.k}: pairs", gate.pairs, gate.max_pairs)]
    parts.append(_stations(snapshot.stations))
    if snapshot.rounds:
        parts.append(_rounds(snapshot))
    last = f"{work_done(snapshot)} | Ctrl-C stops and keeps the state\nfiles: {snapshot.home}"
    parts.append(Text(last, style="dim"))
    return Group(*parts)


def gate_text(gate: GateLine) -> str:
    """The log evidence of an open gate, as text."""
    left = gate.max_pairs - gate.pairs
    more = "" if not gate.more else f", about {counted(gate.more, 'more pair')}"
    if gate.more is not None and gate.more > left:
        more = f", at this rate the {counted(left, 'pair')} that are left do not reach it"
    return (
        f"gate {gate.k}: +{gate.wins} -{gate.losses} in {gate.pairs} pairs, log evidence {gate.log_e:.1f} "
        f"(threshold {gate.need:.1f}){more}"
    )


def _stations(stations: tuple[StationLine, ...]) -> Table:
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("station", "phase", "lanes", "episodes", "per min", "last verdicts"):
        grid.add_column(name, justify="right" if name in {"lanes", "episodes", "per min"} else "left")
    for line in stations:
        phase = line.alarm or ("stopped" if line.stopped else "paused" if line.paused else line.phase)
        verdicts = Text()
        for letter in line.verdicts[-30:]:
            verdicts.append(letter, style={"s": "green", "f": "yellow", "a": "dim"}.get(letter, "red"))
        colour = "red" if line.alarm or line.stopped or line.phase in {"fault", "offline"} else ""
        grid.add_row(
            Text(line.name), Text(phase, style=colour), str(line.lanes), str(line.episodes),
            f"{line.episodes_per_min:.0f}", verdicts,
        )  # fmt: skip
    return grid


def _rounds(snapshot: LabSnapshot) -> Table:
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("round", "", "success", ""):
        grid.add_column(name)
    for line in snapshot.rounds[-12:]:
        interval = line.interval
        rate = f"{interval.rate:.0%} [{interval.low:.0%}, {interval.high:.0%}] of {interval.n}" if interval.n else "-"
        grid.add_row(str(line.round), line.purpose, rate, Text(strip(line), style="green"))
    return grid


def strip(line: RoundLine, width: int = 40) -> str:
    """A rate as a bar of blocks, with the interval shaded."""
    if not line.interval.n:
        return ""
    low, rate, high = (round(width * value) for value in (line.interval.low, line.interval.rate, line.interval.high))
    return "█" * low + "▓" * (rate - low) + "░" * (high - rate) + "·" * (width - high)


def _bar(label: str, done: int, total: int) -> Table:
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 1))
    grid.add_row(
        ProgressBar(total=max(1, total), completed=min(done, total), width=40),
        Text(f"{label} {done}/{total}"),
    )
    return grid
