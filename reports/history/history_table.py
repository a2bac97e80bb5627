"""Makes the tables and the frame of the history of cells: their changes, newest first, and their points."""

from collections.abc import Sequence
from itertools import groupby

import pandas as pd

from reports.history.series import Change, Factor, Series
from reports.pages.phrases import cells_text, span_text
from reports.pages.rows import BASELINE
from reports.pages.run_notes import device_name
from reports.records.header import Run
from reports.render.layout import Column, Row, Style, Table, Text
from reports.render.units import ABSENT, count_text, interval_text, ratio_text, time_range_text, time_text
from reports.statistics.change_points import LEAST, LEVEL

FEWEST = 10
"""Runs from which on a single series can show a change at the level of `change_points`, in its middle."""


def history_tables(series: Sequence[Series], points: bool = False) -> list[Table]:
    """Returns, for each machine, the changes of its cells, newest first; on request also every point.

    Args:
        series: What `histories` found.
        points: Whether to add a table for each series.
    """
    tables = []
    for _, own in groupby(sorted(series, key=lambda one: one.machine), key=lambda one: one.machine):
        members = list(own)
        tables.append(_changes(members))
        if points:
            tables += map(_points, members)
    return tables


def history_frame(series: Sequence[Series]) -> pd.DataFrame:
    """Returns one row per point. `change` is the factor of a change that begins at the point, else NaN."""
    rows = []
    for one in series:
        changes = {change.index: change for change in one.changes}
        cell = one.cell
        for index, point in enumerate(one.points):
            change = changes.get(index)
            rows.append(
                {
                    "machine": one.machine, "operator": cell.operator, "operator_version": cell.operator_version,
                    "backend": cell.backend, "mode": cell.mode, "platform": cell.platform, "dtype": cell.dtype,
                    "size": cell.size, "params": cell.params_text, "method": one.method, "cache": one.cache,
                    "run": point.run_id, "started": point.started, "commit": point.commit, "dirty": point.is_dirty,
                    "processes": point.processes, "median_ns": point.median_ns, "low_ns": point.low_ns,
                    "high_ns": point.high_ns, "ratio": point.ratio and point.ratio.value,
                    "ratio_low": point.ratio and point.ratio.low, "ratio_high": point.ratio and point.ratio.high,
                    "quantity": one.quantity,
                    "change": change and change.size.value, "change_low": change and change.size.low,
                    "change_high": change and change.size.high, "time_change": change and change.time.value,
                }
            )  # fmt: skip
    frame = pd.DataFrame(rows)
    numbers = [name for name in frame if str(name).startswith(("ratio", "change", "time_change"))]
    return frame.astype(dict.fromkeys(numbers, "float64"))


def _changes(series: Sequence[Series]) -> Table:
    found = [(one, change) for one in series for change in one.changes]
    found.sort(key=lambda pair: (pair[1].after.started, pair[1].size.value), reverse=True)
    columns = (
        Column("cell", align="left"),
        Column("run", "since", align="left"),
        Column("commit", "since", align="left", drop=1),
        Column("times", "change"),
        Column("95%", "change", drop=3, note="95%: exact interval of the change"),
        Column("of", "change", align="left"),
        Column("time", "its time", drop=2, note="its time: by how much the time of the cell itself changed"),
    )
    rows = tuple(Row(_change_texts(one, change)) for one, change in found)
    newest = max((one.run for one in series), key=lambda run: run.started)
    title = f"Changes on {newest.device.platform}: {device_name(newest)}"
    return Table(title, columns, rows, tuple(_notes(series, found)))


def _change_texts(series: Series, change: Change) -> tuple[Text, ...]:
    style = Style.BAD if change.is_slower else Style.PLAIN
    return (
        Text(_name(series)),
        Text(change.after.run_id),
        Text(_commit(change.after.run)),
        Text(ratio_text(change.size.value), style),
        Text(_interval(change.size)),
        Text("time" if series.quantity == "time" else f"ratio to {_reference(series)}"),
        Text(ratio_text(change.time.value)),
    )


def _notes(series: Sequence[Series], found: Sequence[tuple[Series, Change]]) -> list[str]:
    lengths = [len(one.points) for one in series]
    runs = {point.run_id: point.run for one in series for point in one.points}
    ordered = sorted(runs.values(), key=lambda run: run.started)
    slower = sum(change.is_slower for _, change in found)
    said = f"{count_text(len(found))} change{'' if len(found) == 1 else 's'}, {count_text(slower)} of them slower"
    notes = [
        f"{said}, in {cells_text(len(series))} with {span_text(min(lengths), max(lengths))} runs each",
        f"runs: {count_text(len(ordered))}, from {ordered[0].run_id} to {ordered[-1].run_id}",
    ]
    if min(lengths) < FEWEST:
        short = sum(length < FEWEST for length in lengths)
        has = "has" if short == 1 else "have"
        notes.append(f"{cells_text(short)} {has} fewer than {FEWEST} runs, which cannot show a change")
    if found:
        notes.append(
            f"times: the level after the change divided by the level before, above 1 is slower. If nothing changed,"
            f" {LEVEL:.0%} of such pages would show a change. At least {LEAST} runs lie on each side; the change itself"
            " may lie some runs away"
        )
        notes += _versions(found)
    return notes


def _versions(found: Sequence[tuple[Series, Change]]) -> list[str]:
    """Returns what else changed with the code: the versions of libraries, by run."""
    notes = {}
    for _, change in found:
        if change.versions:
            named = ", ".join(f"{name} {a or 'absent'} → {b or 'absent'}" for name, (a, b) in change.versions.items())
            notes[change.after.run_id] = f"versions that changed with {change.after.run_id}: {named}"
    return list(notes.values())


def _points(series: Series) -> Table:
    changes = {change.index: change for change in series.changes}
    columns = (
        Column("run", align="left"),
        Column("commit", align="left", drop=1),
        Column("median", "time per call"),
        Column("processes", "time per call", drop=2, note="processes: least and greatest median of a process"),
        Column("ratio", f"to {_reference(series)}"),
        Column("95%", f"to {_reference(series)}", drop=3, note="95%: interval of the ratio"),
        Column("times", "change"),
    )
    rows = []
    for index, point in enumerate(series.points):
        change = changes.get(index)
        ratio = point.ratio
        rows.append(
            Row(
                (
                    Text(point.run_id),
                    Text(_commit(point.run)),
                    Text(time_text(point.median_ns)),
                    Text(time_range_text(point.low_ns, point.high_ns, point.median_ns)),
                    Text(ratio_text(ratio.value) if ratio else ABSENT),
                    Text(interval_text(ratio.low, ratio.high) if ratio else ABSENT),
                    Text("")
                    if change is None
                    else Text(ratio_text(change.size.value), Style.BAD if change.is_slower else Style.PLAIN),
                )
            )
        )
    return Table(f"History of {_name(series)}", columns, tuple(rows))


def _reference(series: Series) -> str:
    return series.points[-1].reference or BASELINE


def _name(series: Series) -> str:
    cell = series.cell
    params = ", ".join(f"{name}={value}" for name, value in sorted(cell.params.items()))
    return f"{cell.id} ({params})" if params else cell.id


def _commit(run: Run) -> str:
    return (run.source.commit or "unknown")[:10] + ("+" if run.source.dirty else "")


def _interval(factor: Factor) -> str:
    return interval_text(factor.low, factor.high)
