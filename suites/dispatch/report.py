"""A run in, its page out: tables for a terminal, or Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from suites.dispatch.record import ModeRecord, PathRecord, Run, Status
from suites.dispatch.targets import Spread, Verdict

_TEXT_COLUMNS = ("path", "target", "verdict", "status", "reason")
_STYLES = {Verdict.MET: "green", Verdict.MISSED: "red", Verdict.NOT_MEASURED: "yellow"}


@dataclass(frozen=True)
class Sheet:
    """One table, of text."""

    title: str
    columns: list[str]
    rows: list[list[str]]


def sheets(run: Run) -> list[Sheet]:
    """The tables of a run: times, ratios, targets, and what could not be measured."""
    found = [_times(run), _ratios(run), _targets(run)]
    missing = [[path.title, str(path.status), path.reason] for path in run.paths if path.status is not Status.PASSED]
    return found + ([Sheet("Not measured", ["path", "status", "reason"], missing)] if missing else [])


def header(run: Run) -> list[str]:
    """Lines that say what was measured, where and with what."""
    return [
        f"Dispatch cost of a float32 add of {run.elements} elements on {run.platform}, {run.started}",
        f"{run.rounds} interleaved rounds of about {run.sample_ms:g} ms per cell; medians (20th-80th percentile)",
        "host: " + ", ".join(f"{name} {value}" for name, value in run.host.items()),
        "versions: " + ", ".join(f"{name} {value}" for name, value in run.versions.items()),
    ]


def render_terminal(run: Run, console: Console) -> None:
    """Prints the page to a console."""
    for line in header(run):
        console.print(line, highlight=False, soft_wrap=True)
    for sheet in sheets(run):
        table = Table(title=sheet.title, title_justify="left", title_style="bold")
        for column in sheet.columns:
            table.add_column(column, justify="left" if column in _TEXT_COLUMNS else "right")
        for row in sheet.rows:
            style = _STYLES.get(Verdict(row[-1])) if sheet.columns[-1] == "verdict" else None
            table.add_row(*map(_two_lines, row), style=style)
        console.print()
        console.print(table)


def render_markdown(run: Run) -> str:
    """The page as Markdown."""
    first, *others = header(run)
    lines = [f"## {first}", "", *(f"- {line}" for line in others)]
    for sheet in sheets(run):
        lines += ["", f"### {sheet.title}", ""]
        lines += [
            _markdown_row(sheet.columns),
            _markdown_row(["---" if column in _TEXT_COLUMNS else "---:" for column in sheet.columns]),
        ]
        lines += [_markdown_row(row) for row in sheet.rows]
    return "\n".join(lines) + "\n"


def _two_lines(cell: str) -> str:
    return cell.replace(" (", "\n(") if re.fullmatch(r"[\d.]+ \(.*\)", cell) else cell


def _markdown_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _measured(run: Run) -> Iterator[PathRecord]:
    return (path for path in run.paths if path.status is Status.PASSED)


def _times(run: Run) -> Sheet:
    rows = [
        [path.title, *(_with_spread(run.time_us(mode.name, path.name)) for mode in run.modes)]
        for path in _measured(run)
    ]
    return Sheet("Microseconds per call", ["path", *(mode.title for mode in run.modes)], rows)


def _ratios(run: Run) -> Sheet:
    def cell(mode: ModeRecord, path: PathRecord) -> str:
        return _with_spread(run.ratio(mode.name, path.name, mode.reference))

    rows = [[path.title, *(cell(mode, path) for mode in run.modes)] for path in _measured(run)]
    columns = ["path", *(f"{mode.name} / {mode.reference}" for mode in run.modes)]
    return Sheet("Ratio to the reference of the mode, round by round", columns, rows)


def _targets(run: Run) -> Sheet:
    rows = []
    for target in run.targets:
        ratio = run.ratio(target.mode, target.path, target.reference)
        factor = f"{1 / ratio.median:.3g}x below" if ratio and target.limit < 0.1 else _with_spread(ratio)
        rows.append([str(target), factor, str(target.verdict(ratio))])
    return Sheet("Targets (reported, not asserted)", ["target", "measured", "verdict"], rows)


def _with_spread(spread: Spread | None) -> str:
    return f"{_number(spread.median)} ({_number(spread.p20)}-{_number(spread.p80)})" if spread else "-"


def _number(value: float) -> str:
    """About three significant digits, without an exponent."""
    for least, decimals in ((100, 0), (10, 1), (1, 2), (0.01, 3)):
        if value >= least:
            return f"{value:.{decimals}f}"
    return f"{value:.4f}"
