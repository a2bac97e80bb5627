"""A frame of cells in, tables of finished texts out: speed, its summary, accuracy, stages."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pandas as pd

from reports.pages.compare import geometric_mean
from reports.pages.frame import BASELINE, by_run_and_platform, with_ratio
from reports.pages.groups import Variant, backend_order, dtype_order, group_names
from reports.pages.notes import (
    OVER,
    FrameRow,
    count_note,
    device_name,
    is_impossible,
    is_timed,
    method_notes,
    outcome_counts,
    overrun_notes,
    reason_notes,
    roofs_text,
    run_notes,
)
from reports.records.record import short_dtype
from reports.render.layout import Column, Row, Style, Table, Text
from reports.render.units import (
    ABSENT,
    DASH,
    TIMES,
    count_text,
    ms_text,
    percent_text,
    ratio_text,
    time_range_text,
    time_text,
    ulp_text,
)

LABELS = (Column("dtype", align="left"), Column("size"))
EMPTY = Text("")
SPREAD = f"p20{DASH}p80"


def benchmark_tables(frame: pd.DataFrame, baseline: str = BASELINE) -> list[Table]:
    """Returns, for each run and platform, the times by operator, dtype, size and backend; then a summary.

    A cell that did not pass shows its status instead of a time; the notes say why.
    """
    tables = []
    for rows in by_run_and_platform(with_ratio(frame, baseline)):
        tables += [_times(rows, baseline), _summary(rows, baseline)]
    return tables


def accuracy_tables(frame: pd.DataFrame, baseline: str = BASELINE) -> list[Table]:
    """Returns, for each run and platform, the share of the error budget used, XLA's own beside it."""
    return [_accuracy(rows, baseline) for rows in by_run_and_platform(frame)]


def stage_tables(frame: pd.DataFrame, baseline: str = BASELINE) -> list[Table]:
    """Returns, for each run and platform, the time each cell spent before its steady state."""
    return [_stages(rows, baseline) for rows in by_run_and_platform(frame)]


def _times(rows: Sequence[FrameRow], baseline: str) -> Table:
    has_ratio = any(row["backend"] == baseline for row in rows)
    has_share = any(not math.isnan(row["bandwidth_share"]) for row in rows)
    fastest = _fastest(rows)

    time_note = "time: median per call"
    spread_note = f"{SPREAD}: 20th and 80th percentiles of the time, in its unit"
    ratio_note = (
        f"{TIMES}{baseline}: time over that of {baseline} (XLA's own), above 1 is slower than {baseline};"
        f" {ABSENT} where {baseline} has no time of the same inputs, method and cache state"
    )
    share_note = f"bw%: declared bytes per second, in percent of the bandwidth measured in this run: {roofs_text(rows)}"

    def columns(backend: str) -> list[Column]:
        found = [Column("time", backend, note=time_note), Column(SPREAD, backend, drop=2, note=spread_note)]
        found += [Column(TIMES + baseline, backend, note=ratio_note)] if has_ratio and backend != baseline else []
        return found + ([Column("bw%", backend, drop=1, note=share_note)] if has_share else [])

    def texts(row: FrameRow) -> list[Text]:
        best = Style.BEST if id(row) in fastest else Style.PLAIN
        median = row["median_ns"]
        found = [Text(time_text(median), best), Text(time_range_text(row["p20_ns"], row["p80_ns"], median))]
        found += [Text(ratio_text(row["ratio"]))] if has_ratio and row["backend"] != baseline else []
        return found + ([_share(row["bandwidth_share"], OVER)] if has_share else [])

    notes = [*overrun_notes(rows), *method_notes(rows), count_note(rows), *reason_notes(rows)]
    grid_columns, grid_rows = _grid(rows, baseline, columns, lambda row: texts(row) if is_timed(row) else None)
    return Table(f"Time per call on {device_name(rows[0])}", grid_columns, grid_rows, tuple(notes), "operator")


def _summary(rows: Sequence[FrameRow], baseline: str) -> Table:
    ratio = TIMES + baseline
    columns = [Column("backend", align="left")]
    columns += [Column(name, "cells") for name in ("passed", "failed", "skipped")]
    columns += [Column(name, ratio) for name in ("geomean", "best", "worst", "compared", "slower")]
    table_rows = []
    for backend in _backends(rows, baseline):
        own = [row for row in rows if row["backend"] == backend]
        counts = outcome_counts(row["status"] for row in own)
        texts = [Text(backend), Text(count_text(counts["passed"]))]
        texts.append(Text(count_text(counts["failed"]), Style.BAD if counts["failed"] else Style.PLAIN))
        texts.append(Text(count_text(counts["skipped"])))
        ratios = [] if backend == baseline else [row["ratio"] for row in own if not math.isnan(row["ratio"])]
        mean = geometric_mean(ratios)
        if mean.mean is None:
            texts += [
                Text("baseline" if backend == baseline else ABSENT, Style.FAINT, span=True),
                *[EMPTY] * 4,
            ]
        else:
            texts += [Text(ratio_text(value)) for value in (mean.mean, min(ratios), max(ratios))]
            texts += [Text(count_text(mean.count)), Text(count_text(mean.losses))]
        table_rows.append(Row(tuple(texts)))
    notes = [
        f"geomean: geometric mean of {ratio} over the cells compared, which passed on both sides;"
        f" slower: those of them slower than {baseline}",
        *run_notes(rows),
    ]
    return Table(f"Summary of {device_name(rows[0])}", tuple(columns), tuple(table_rows), tuple(notes))


def _accuracy(rows: Sequence[FrameRow], baseline: str) -> Table:
    has_xla = any(not math.isnan(row["reference_budget_used"]) for row in rows)

    def columns(backend: str) -> list[Column]:
        found = [Column("budget%", backend)]
        found += [Column("XLA%", backend)] if has_xla and backend != baseline else []
        return [*found, Column("max ulp", backend, drop=1)]

    def texts(row: FrameRow) -> list[Text] | None:
        if math.isnan(row["budget_used"]) and math.isnan(row["max_ulp"]):
            return None
        # A cell may fail for another reason than its budget; its number must not look like a success.
        used = _share(row["budget_used"], 1.0, bad=row["status"] != "PASSED")
        found = [used]
        found += [_share(row["reference_budget_used"], 1.0)] if has_xla and row["backend"] != baseline else []
        return [*found, Text(ulp_text(row["max_ulp"]) if row["max_ulp"] == row["max_ulp"] else ABSENT)]

    notes = ["budget%: largest share of the error budget that an element used, in percent; ! above 100"]
    if has_xla:
        notes.append("XLA%: the same for XLA's own result on the same inputs")
    notes += [count_note(rows), *reason_notes(rows)]
    grid_columns, grid_rows = _grid(rows, baseline, columns, texts)
    return Table(f"Accuracy on {device_name(rows[0])}", grid_columns, grid_rows, tuple(notes), "operator")


def _stages(rows: Sequence[FrameRow], baseline: str) -> Table:
    names = ("trace", "lower", "compile", "first call")
    columns = (
        *LABELS,
        Column("backend", align="left"),
        *(Column(name, "before the steady state") for name in names),
    )
    groups = _group_names(rows)
    table_rows = []
    for row in sorted(rows, key=lambda row: (*_row_order(row, groups), backend_order(row["backend"], baseline))):
        values = [row[f"{name.replace(' ', '_')}_ms"] for name in names]
        if all(math.isnan(value) for value in values):
            texts = _status_texts(row, len(names))
        else:
            texts = [Text(ms_text(value)) for value in values]
        labels = [*_labels(row), Text(row["backend"])]
        table_rows.append(Row((*labels, *texts), groups[id(row)]))
    notes = ("trace, lower, compile, first call: one measurement each, wall clock", *reason_notes(rows))
    return Table(f"Stages on {device_name(rows[0])}", columns, tuple(table_rows), notes, "operator")


def _grid(
    rows: Sequence[FrameRow],
    baseline: str,
    columns: Callable[[str], list[Column]],
    texts: Callable[[FrameRow], list[Text] | None],
) -> tuple[tuple[Column, ...], tuple[Row, ...]]:
    """Returns one column group per backend and one row per group, dtype and size; no `texts`: the status."""
    groups = _group_names(rows)
    backends = {backend: columns(backend) for backend in _backends(rows, baseline)}
    lines: dict[tuple[Any, ...], dict[str, FrameRow]] = {}
    for row in sorted(rows, key=lambda row: _row_order(row, groups)):
        lines.setdefault(_row_order(row, groups), {})[row["backend"]] = row
    table_rows = []
    for line in lines.values():
        some_row = next(iter(line.values()))
        cells = [*_labels(some_row)]
        for backend, own_columns in backends.items():
            own = line.get(backend)
            if own is None:
                cells += [EMPTY] * len(own_columns)
            else:
                cells += texts(own) or _status_texts(own, len(own_columns))
        table_rows.append(Row(tuple(cells), groups[id(some_row)]))
    return (*LABELS, *(column for found in backends.values() for column in found)), tuple(table_rows)


def _fastest(rows: Iterable[FrameRow]) -> set[int]:
    """Returns the identity of the fastest row of each contest: two cells or more, timed alike.

    A contest led by an impossible time (above the bandwidth of memory, with cold caches) has no winner.
    """
    contests: dict[tuple[Any, ...], list[FrameRow]] = {}
    for row in rows:
        if is_timed(row):
            names = ("operator", "operator_version", "mode", "params", "dtype", "size")
            contests.setdefault(tuple(row[name] for name in names), []).append(row)
    leaders = [
        min(contest, key=lambda row: float(row["median_ns"]))
        for contest in contests.values()
        if len(contest) > 1 and len({(row["method"], row["cache"]) for row in contest}) == 1
    ]
    return {id(row) for row in leaders if not is_impossible(row)}


def _group_names(rows: Sequence[FrameRow]) -> dict[int, str]:
    variants = [
        Variant(row["operator"], row["operator_version"], row["mode"], row["params"], row["size"]) for row in rows
    ]
    return {id(row): name for row, name in zip(rows, group_names(variants), strict=True)}


def _row_order(row: FrameRow, groups: dict[int, str]) -> tuple[Any, ...]:
    return groups[id(row)], dtype_order(row["dtype"]), row["size"]


def _backends(rows: Sequence[FrameRow], baseline: str) -> list[str]:
    return sorted({row["backend"] for row in rows}, key=lambda backend: backend_order(backend, baseline))


def _labels(row: FrameRow) -> list[Text]:
    return [Text(short_dtype(row["dtype"])), Text(count_text(row["size"]))]


def _status_texts(row: FrameRow, count: int) -> list[Text]:
    faint = row["status"] in ("PASSED", "SKIPPED")
    return [Text(row["status"], Style.FAINT if faint else Style.BAD, span=True), *[EMPTY] * (count - 1)]


def _share(share: float, limit: float, bad: bool = False) -> Text:
    if math.isnan(share):
        return Text("nan!" if bad else ABSENT, Style.BAD if bad else Style.PLAIN)
    over = share > limit
    return Text(percent_text(share) + ("!" if over else ""), Style.BAD if over or bad else Style.PLAIN)
