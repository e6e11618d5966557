"""The pages of `benchmarks.overview`: Markdown for the documents, and one HTML file with plots that loads nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby

from benchmarks.measured import Measured
from benchmarks.overview_plan import LEFT_OUT, LONGEST_S, Quick
from benchmarks.overview_results import Result


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A number that others published about a task that a benchmark also has. It was not measured here."""

    task: str
    text: str
    source: str


PUBLISHED: tuple[Published, ...] = (
    Published(task="push-T", text="overlap 0.919, success 60 %", source="Diffusion Policy, as its model card gives it"),
    Published(task="push-T", text="success 95 % after about 2 h of coding agents", source="the ENPIRE paper"),
    Published(task="push-T", text="success 50 % on held-out starts", source="the best public reproduction"),
)

HEAD = "| benchmark | what it measures | verdict | seconds | measured |\n|---|---|---|---|---|"
STYLE = """
:root { color-scheme: light dark; --ours: #1b6ca8; --peer: #8a8a8a; --limit: #c2410c; }
@media (prefers-color-scheme: dark) { :root { --ours: #6db3e8; --peer: #a8a8a8; --limit: #fb923c; } }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; }
td, th { text-align: left; padding: .25rem .6rem; vertical-align: top; }
tr { border-bottom: 1px solid color-mix(in srgb, currentColor 20%, transparent); }
pre { overflow-x: auto; font-size: 12px; } svg { width: 100%; height: auto; } svg text { fill: currentColor; }
.PASS { color: #15803d; } .FAIL, .ERROR, .KILLED { color: #dc2626; font-weight: 600; } small { opacity: .75; }
@media (prefers-color-scheme: dark) { .PASS { color: #4ade80; } .FAIL, .ERROR, .KILLED { color: #f87171; } }
"""
WIDE, ROW, LEFT, RIGHT = 900, 26, 330, 230
"""Size of a plot: its width, the height of a row, and the room for names and for values."""


def markdown_page(plan: Sequence[Quick], results: Mapping[str, Result]) -> str:
    """docs/benchmarks.md."""
    lines = [
        "# Benchmarks",
        "",
        f"`make bench` runs the quick form of every benchmark, in at most {LONGEST_S / 60:.0f} minutes, and writes "
        "this page and [the plots](benchmarks/plots.html). Intervals are 95 %; seeds, where a benchmark has any, stand "
        "with its numbers. A quick form shows that a benchmark runs and that nothing broke; the numbers in the other "
        "documents come from the full forms.",
        "",
        "`python -m benchmarks.overview --only NAME` runs one benchmark again and keeps the results of the others; "
        "`--missing` runs those without a result of this commit. PASS: every promise was kept. FAIL: one was not. "
        "ERROR: the benchmark itself failed. KILLED: it ran over its time limit.",
        "",
        HEAD,
        *(_row(quick, results.get(quick.name)) for quick in plan),
        "",
        "## Numbers",
    ]
    for quick in plan:
        found = results.get(quick.name)
        if found is None:
            continue
        lines += ["", f"### `{quick.name}`", "", _facts(quick, found), ""]
        if found.numbers:
            lines += ["| number | whose | value [95 %] | limit | |", "|---|---|---|---|---|"]
            lines += [_number(number) for number in found.numbers]
        else:
            lines.append("It prints tables only; the plots' page holds them.")
    lines += ["", "## Published by others", "", "These numbers were not measured here.", ""]
    lines += [
        "| task | published | by |",
        "|---|---|---|",
        *(f"| {item.task} | {item.text} | {item.source} |" for item in PUBLISHED),
    ]
    lines += ["", "## Without a quick form", "", "| benchmark | why |", "|---|---|"]
    lines += [f"| `{name}` | {why} |" for name, why in LEFT_OUT.items()]
    return "\n".join(lines) + "\n"


def html_page(plan: Sequence[Quick], results: Mapping[str, Result]) -> str:
    """docs/benchmarks/plots.html."""
    rows = "".join(
        f"<tr><td><a href='#{quick.name}'>{quick.name}</a></td>"
        f"<td>{escape(quick.shows)}</td>{_cell(results, quick)}</tr>"
        for quick in plan
    )
    parts = [_section(quick, results[quick.name]) for quick in plan if quick.name in results]
    published = "".join(f"<tr><td>{p.task}</td><td>{p.text}</td><td>{p.source}</td></tr>" for p in PUBLISHED)
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'><title>ENPIRE: benchmarks</title>"
        "<meta name='viewport' content='width=device-width'>"
        f"<style>{STYLE}</style></head><body><h1>Benchmarks</h1>"
        "<p>Quick forms. Blue: measured here, on ENPIRE. Grey: a peer that ran beside it. Bars: 95 % intervals. "
        "Orange line: the limit of the promise.</p>"
        f"<table><tr><th>benchmark</th><th>what it measures</th><th>verdict</th></tr>{rows}</table>{''.join(parts)}"
        "<h2>Published by others</h2><p>Not measured here.</p>"
        f"<table><tr><th>task</th><th>published</th><th>by</th></tr>{published}</table></body></html>\n"
    )


def plot(numbers: Sequence[Measured]) -> str:
    """Numbers of one unit on a common axis from 0: a dot, its interval, and the limit of its promise."""
    top = max(abs(bound) for number in numbers for bound in _bounds(number)) * 1.08 or 1.0
    span, high = WIDE - LEFT - RIGHT, ROW * len(numbers) + 8

    def place(value: float) -> float:
        return LEFT + span * min(1.0, max(0.0, value / top))

    parts = [f"<svg viewBox='0 0 {WIDE} {high}' font-size='13' role='img'>"]
    for index, number in enumerate(numbers):
        y = ROW * index + ROW / 2 + 4
        colour = "var(--ours)" if number.by == "ENPIRE" else "var(--peer)"
        name = number.name if number.by == "ENPIRE" else f"{number.name} ({number.by})"
        parts.append(f"<text x='0' y='{y + 4}'>{escape(name[:52])}<title>{escape(name)}</title></text>")
        parts.append(f"<path d='M{LEFT} {y}H{LEFT + span}' stroke='currentColor' opacity='.15'/>")
        if number.low is not None and number.high is not None:
            ends = f"M{place(number.low):.1f} {y}H{place(number.high):.1f}"
            parts.append(f"<path d='{ends}' stroke='{colour}' stroke-width='5' opacity='.45'/>")
        for limit in (number.least, number.most):
            if limit is not None:
                line = f"M{place(limit):.1f} {y - 10}V{y + 10}"
                parts.append(f"<path d='{line}' stroke='var(--limit)' stroke-width='2'/>")
        parts.append(f"<circle cx='{place(number.value):.1f}' cy='{y}' r='4.5' fill='{colour}'/>")
        parts.append(f"<text x='{LEFT + span + 12}' y='{y + 4}'>{escape(number.text())}</text>")
    return "".join(parts) + "</svg>"


def _bounds(number: Measured) -> list[float]:
    bounds = (number.value, number.low, number.high, number.least, number.most)
    return [bound for bound in bounds if bound is not None and abs(bound) < float("inf")] or [1.0]


def _row(quick: Quick, found: Result | None) -> str:
    if found is None:
        return f"| `{quick.name}` | {quick.shows} | not run yet | | |"
    name = f"[`{quick.name}`](#{quick.name})"
    why = f": {_cellsafe(found.why)}" if found.why else ""
    return f"| {name} | {quick.shows} | {found.verdict}{why} | {found.seconds:.0f} | {found.at}, {found.commit} |"


def _facts(quick: Quick, found: Result) -> str:
    seeds = f" Seeds {found.seeds}." if found.seeds else ""
    machine = f"{found.machine}; {found.versions}; commit {found.commit}, {found.at}"
    return f"`{found.command}` on {machine}.{seeds} In full: `{quick.full_command}`."


def _number(number: Measured) -> str:
    verdict = ("PASS" if number.kept else "FAIL") if number.promises else ""
    return f"| {_cellsafe(number.name)} | {number.by} | {number.text()} | {number.limit()} | {verdict} |"


def _cellsafe(text: str) -> str:
    return text.replace("|", "/").replace("\n", " ").replace("<", "&lt;")


def _cell(results: Mapping[str, Result], quick: Quick) -> str:
    found = results.get(quick.name)
    if found is None:
        return "<td>not run yet</td>"
    return f"<td class='{found.verdict}'>{found.verdict} <small>{escape(found.why)}</small></td>"


def _section(quick: Quick, found: Result) -> str:
    numbers = sorted(found.numbers, key=lambda number: number.unit)
    plots = "".join(plot(list(group)) for _, group in groupby(numbers, key=lambda number: number.unit))
    facts = "<br>".join(
        escape(line)
        for line in (
            found.command,
            found.machine,
            found.versions,
            f"commit {found.commit}, {found.at}, {found.seconds:.0f} s"
            + (f", seeds {found.seeds}" * bool(found.seeds)),
        )
    )
    return (
        f"<h2 id='{quick.name}'>{quick.name} <span class='{found.verdict}'>{found.verdict}</span></h2>"
        f"<p>{escape(quick.shows)}<br><small>{facts}</small></p>{plots}"
        f"<details><summary>What it printed</summary><pre>{escape(found.output)}</pre></details>"
    )
