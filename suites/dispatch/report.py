"""Renders a run of the dispatch benchmark: tables of times, ratios and targets, or a frame for programs."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import pandas as pd

from reports.render.layout import Column, Row, Style, Table, Text
from reports.render.page import Page, show, summarise
from suites.dispatch.record import ModeRecord, PathRecord, Run, Status
from suites.dispatch.targets import Spread, Verdict

_STYLES = {Verdict.MET: Style.PLAIN, Verdict.MISSED: Style.BAD, Verdict.NOT_MEASURED: Style.FAINT}


def print_run(run: Run, options: argparse.Namespace) -> None:
    """Prints a run as the options of :func:`reports.options.add_output` ask for; as JSON it has every sample.

    Raises:
        ReportError: The file of ``--summary`` cannot be written.
    """
    page = Page(tuple(tables(run)), frame(run))
    if options.format != "json":
        show(page, options)
        return
    print(run.to_json(), end="")
    summarise(page, options.summary)


def tables(run: Run) -> list[Table]:
    """The tables of a run: times, ratios, targets, and what could not be measured."""
    found = [_times(run), _ratios(run), _targets(run)]
    missing = [path for path in run.paths if path.status is not Status.PASSED]
    if missing:
        rows = [_row(path.title, str(path.status), path.reason) for path in missing]
        found.append(Table("Not measured", _columns("path", "status", "reason", text=3), tuple(rows)))
    return found


def frame(run: Run) -> pd.DataFrame:
    """One row per path and mode: the time in microseconds per call, and its ratio to the reference of the mode."""
    rows = []
    for mode in run.modes:
        for path in _measured(run):
            time, ratio = run.time_us(mode.name, path.name), run.ratio(mode.name, path.name, mode.reference)
            if time is not None:
                rows.append(
                    {
                        "platform": run.platform, "mode": mode.name, "path": path.name, "title": path.title,
                        "median_us": time.median, "p20_us": time.p20, "p80_us": time.p80,
                        "reference": mode.reference, "ratio": ratio.median if ratio else None,
                    }
                )  # fmt: skip
    return pd.DataFrame(rows)


def _notes(run: Run) -> tuple[str, ...]:
    """Lines that say what was measured, where and with what."""
    return (
        f"a float32 add of {run.elements} elements, {run.started}; {run.rounds} interleaved rounds of about"
        f" {run.sample_ms:g} ms per cell",
        "host: " + ", ".join(f"{name} {value}" for name, value in run.host.items()),
        "versions: " + ", ".join(f"{name} {value}" for name, value in run.versions.items()),
    )


def _measured(run: Run) -> Iterator[PathRecord]:
    return (path for path in run.paths if path.status is Status.PASSED)


def _times(run: Run) -> Table:
    columns = [Column("path", align="left")]
    for mode in run.modes:
        spread = Column("p20-p80", mode.title, drop=1, note="p20-p80: 20th and 80th percentiles")
        columns += [Column("median", mode.title), spread]
    rows = []
    for path in _measured(run):
        texts = [path.title]
        for mode in run.modes:
            texts += _median_and_spread(run.time_us(mode.name, path.name))
        rows.append(_row(*texts))
    title = f"Dispatch cost on {run.platform}: microseconds per call"
    return Table(title, tuple(columns), tuple(rows), _notes(run))


def _ratios(run: Run) -> Table:
    def cell(mode: ModeRecord, path: PathRecord) -> list[str]:
        return _median_and_spread(run.ratio(mode.name, path.name, mode.reference))

    columns = [Column("path", align="left")]
    for mode in run.modes:
        group = f"{mode.name} / {mode.reference}"
        columns += [Column("median", group), Column("p20-p80", group, drop=1)]
    rows = [_row(path.title, *(text for mode in run.modes for text in cell(mode, path))) for path in _measured(run)]
    return Table("Ratio to the reference of the mode, round by round", tuple(columns), tuple(rows))


def _targets(run: Run) -> Table:
    rows = []
    for target in run.targets:
        ratio = run.ratio(target.mode, target.path, target.reference)
        factor = f"{1 / ratio.median:.3g}x below" if ratio and target.limit < 0.1 else _with_spread(ratio)
        verdict = target.verdict(ratio)
        rows.append(Row((Text(str(target)), Text(factor), Text(str(verdict), _STYLES[verdict]))))
    return Table("Targets (reported, not asserted)", _columns("target", "measured", "verdict", text=1), tuple(rows))


def _columns(*names: str, text: int) -> tuple[Column, ...]:
    return tuple(Column(name, align="left" if place < text else "right") for place, name in enumerate(names))


def _row(*texts: str) -> Row:
    return Row(tuple(map(Text, texts)))


def _median_and_spread(spread: Spread | None) -> list[str]:
    return [_number(spread.median), f"{_number(spread.p20)}-{_number(spread.p80)}"] if spread else ["-", "-"]


def _with_spread(spread: Spread | None) -> str:
    return "{} ({})".format(*_median_and_spread(spread)) if spread else "-"


def _number(value: float) -> str:
    """About three significant digits, without an exponent."""
    for least, decimals in ((100, 0), (10, 1), (1, 2), (0.01, 3)):
        if value >= least:
            return f"{value:.{decimals}f}"
    return f"{value:.4f}"
