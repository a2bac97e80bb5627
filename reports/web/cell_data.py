"""Packs cells into columns: those that the table shows, and everything that was recorded of a cell."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

from reports.pages.cell_texts import median_text, ratio_interval_text, ratio_to_baseline_text
from reports.pages.columns import SECTIONS
from reports.pages.fact import Fact, Kind
from reports.pages.groups import group_names
from reports.pages.rows import CellRow
from reports.records.cell import short_dtype
from reports.records.measurements import ProcessTimes
from reports.render.units import ABSENT, count_text, percent_text, time_range_text, time_text
from reports.render.visible import visible
from reports.web.repeat_command import repeat_command
from reports.web.run_choice import ChosenRun, RunKind

Packed = dict[str, Any]

KINDS = {
    RunKind.TIMES: "timed", RunKind.CHECKS: "checked", RunKind.MUTANTS: "broken kernel", RunKind.CALLS: "cost of a call"
}  # fmt: skip
"""The words for the cells of each kind of run."""


def packed_cells(runs: Sequence[ChosenRun]) -> Packed:
    """Returns the cells of all runs, in columns.

    Each column has a name, a title, and the words of its values with a code for each cell, or the numbers of its cells
    beside their texts. A column without any value is left out.
    """
    rows = [(run, row) for run in runs for row in run.rows]
    places: dict[int, str] = {}
    labels: list[str] = []
    for run in runs:
        places |= _places(run)
        names = group_names([row.cell for row in run.rows])
        labels += [_label(name, row, run.kind) for name, row in zip(names, run.rows, strict=True)]
    texts: list[tuple[str, str, list[str]]] = [
        ("kind", "kind", [KINDS[run.kind] for run, _ in rows]),
        ("operator", "operator", [row.cell.operator for _, row in rows]),
        ("variant", "variant", labels),
        ("backend", "backend", [row.cell.backend for _, row in rows]),
        ("dtype", "dtype", [short_dtype(row.cell.dtype) for _, row in rows]),
        ("device", "device", [run.device for run, _ in rows]),
        ("status", "status", [str(row.status) for _, row in rows]),
        ("place", "place", [places.get(id(row), "") for _, row in rows]),
    ]
    numbers: list[tuple[str, str, str, Callable[[CellRow], float | None], Callable[[CellRow], str]]] = [
        ("size", "elements", "", lambda r: r.cell.size, lambda r: count_text(r.cell.size)),
        ("time", "time", "per call", lambda r: r.timing.median_ns if r.timing else None, lambda r: median_text(r).text),
        ("low", "", "", lambda r: r.timing.low_ns if r.timing else None, _range),
        ("high", "", "", lambda r: r.timing.high_ns if r.timing else None, lambda r: ""),
        ("ratio", "\N{MULTIPLICATION SIGN} jnp", "", lambda r: r.ratio, lambda r: ratio_to_baseline_text(r).text),
        ("interval", "95%", "", _low, lambda r: ratio_interval_text(r).text),
        ("roof", "roof", "", lambda r: r.record.bandwidth_share, lambda r: _percent(r.record.bandwidth_share)),
        ("budget", "budget", "", _budget, lambda r: _percent(_budget(r)) if _budget(r) is not None else "\N{EN DASH}"),
    ]  # fmt: skip
    columns = [
        {"name": name, "title": title, **_coded([visible(value) for value in values])}
        for name, title, values in texts
        if any(values)
    ]
    for name, title, unit, read, write in numbers:
        found = [_number(read(row)) for _, row in rows]
        if any(value is not None for value in found):
            written = ["" if value is None else write(row) for value, (_, row) in zip(found, rows, strict=True)]
            columns.append({"name": name, "title": title, "unit": unit, "numbers": found, "texts": written})
    return {"count": len(rows), "columns": columns}


def packed_details(runs: Sequence[ChosenRun]) -> Packed:
    """Returns everything that is recorded of each cell: all columns of frames, the samples, and how to repeat it."""
    rows = [(run, row) for run in runs for row in run.rows]
    sections = []
    for title, facts in SECTIONS.items():
        filled = [one for one in (_fact(fact, [row for _, row in rows]) for fact in facts) if one]
        if filled:
            sections.append({"title": title, "facts": filled})
    return {
        "sections": sections,
        "commands": _coded([visible(repeat_command(row.cell, row.run, run.kind)) for run, row in rows]),
        "processes": [[_process(one) for one in row.timing.processes] if row.timing else None for _, row in rows],
    }


def _fact(fact: Fact, rows: Sequence[CellRow]) -> Packed | None:
    values = [fact.read(row) for row in rows]
    if all(value is None for value in values):
        return None
    said = [None if value is None else _said(fact, value) for value in values]
    unit = "" if fact.unit in ("ns", "B", "J") else fact.unit
    return {"name": fact.name, "description": fact.description, "unit": unit, "json": fact.kind is Kind.JSON,
            **_coded(said)}  # fmt: skip


def _said(fact: Fact, value: Any) -> str:
    """A value in words, with its unit."""
    if fact.kind is Kind.JSON or isinstance(value, str):
        return visible(str(value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if fact.unit == "ns":
        return time_text(value) if value > 0 else f"{value:.4g} ns"
    if isinstance(value, int):
        return f"{count_text(value)}{' B' if fact.unit == 'B' else ''}"
    suffix = f" {fact.unit}" if fact.unit in ("B", "J") else ""
    return f"{value:,.6g}{suffix}"


def _process(process: ProcessTimes) -> Packed:
    """The samples of one process in microseconds, four digits each, and its numbers in words."""
    samples = process.samples_ns
    return {
        "samples": [float(f"{sample * 1e-3:.4g}") for sample in samples],
        "median": time_text(process.median_ns),
        "median_us": float(f"{process.median_ns * 1e-3:.4g}"),
        "range": f"{_signed(min(samples))} to {_signed(max(samples))}",
        "clock": "" if process.clock_mhz is None else f"{process.clock_mhz:,.0f} MHz",
    }


def _signed(ns: float) -> str:
    return time_text(ns) if ns > 0 else f"{ns:.3g} ns"


def _places(run: ChosenRun) -> dict[int, str]:
    """The words for the first places of a timed run, by row."""
    if run.kind is not RunKind.TIMES:
        return {}
    return {
        id(row): "tied first" if contest.is_tie else "fastest" for contest in run.contests for row in contest.winners
    }


def _label(name: str, row: CellRow, kind: RunKind) -> str:
    """What tells a cell from the others of its operator: the mode, or the check, and the parameters."""
    if kind is RunKind.TIMES:
        return " \N{MIDDLE DOT} ".join(name.split("  ")[1:])
    parameters = [value if isinstance(value, str) else json.dumps(value) for value in row.cell.params.values()]
    return " \N{MIDDLE DOT} ".join([row.cell.mode, *parameters])


def _low(row: CellRow) -> float | None:
    return row.compared.low if row.compared else None


def _budget(row: CellRow) -> float | None:
    return row.record.accuracy.budget_used if row.record.accuracy else None


def _range(row: CellRow) -> str:
    timing = row.timing
    if timing is None:
        return ABSENT
    return f"{time_range_text(timing.low_ns, timing.high_ns, timing.median_ns)} {median_text(row).text.split()[-1]}"


def _percent(share: float | None) -> str:
    return ABSENT if share is None else f"{percent_text(share)}%"


def _number(value: float | None) -> float | None:
    """A number for sorting and for charts; one that is not finite counts as none, since JSON has none."""
    if value is None or not math.isfinite(value):
        return None
    return value if isinstance(value, int) else float(f"{value:.6g}")


def _coded(values: Sequence[str | None]) -> Packed:
    """Distinct texts, and the place of each value among them: -1 for one that is missing."""
    places: dict[str, int] = {}
    codes = [-1 if value is None else places.setdefault(value, len(places)) for value in values]
    return {"words": list(places), "codes": codes[0] if len(set(codes)) == 1 else codes}
