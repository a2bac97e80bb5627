"""Makes the summary of a timed run: a row per backend, with the geometric mean of its ratios."""

from collections.abc import Sequence

from reports.pages.backend_grid import EMPTY
from reports.pages.phrases import outcome_counts
from reports.pages.rows import BASELINE, CellRow, backends_of
from reports.pages.run_notes import platform_name, run_notes
from reports.render.layout import Column, Row, Style, Table, Text
from reports.render.units import ABSENT, TIMES, count_text, interval_text, ratio_text
from reports.statistics.means import mean_across_processes

_RATIO = TIMES + BASELINE


def summary_table(rows: Sequence[CellRow]) -> Table:
    """Returns the summary of the cells of one run and platform."""
    columns = (
        Column("backend", align="left"),
        *(Column(name, "cells") for name in ("passed", "failed", "skipped")),
        Column("geomean", _RATIO),
        Column("95%", _RATIO, drop=1, note="95%: interval of the geomean, Student's t across processes"),
        *(Column(name, _RATIO) for name in ("best", "worst", "compared", "slower")),
    )
    lines = tuple(_line(backend, [row for row in rows if row.cell.backend == backend]) for backend in backends_of(rows))
    notes = (
        f"geomean: geometric mean of {_RATIO} over the cells that passed on both sides; compared: their number;"
        f" slower: how many of them are slower than {BASELINE} beyond the 95 % interval of their ratio",
        *run_notes(rows),
    )
    return Table(f"Summary of {platform_name(rows)}", columns, lines, notes, role="summary")


def _line(backend: str, rows: Sequence[CellRow]) -> Row:
    counts = outcome_counts(row.status for row in rows)
    failed = Text(count_text(counts["failed"]), Style.BAD if counts["failed"] else Style.PLAIN)
    texts = [Text(backend), Text(count_text(counts["passed"])), failed, Text(count_text(counts["skipped"]))]
    ratios = [] if backend == BASELINE else [row.compared for row in rows if row.compared is not None]
    mean = mean_across_processes([ratio.paired or (ratio.value,) for ratio in ratios])
    if mean.mean is None:
        word = "baseline" if backend == BASELINE else ABSENT
        return Row((*texts, Text(word, Style.FAINT, span=True), *[EMPTY] * 5))
    values = [ratio.value for ratio in ratios]
    texts += [Text(ratio_text(mean.mean)), Text(interval_text(mean.low, mean.high))]
    texts += [Text(ratio_text(value)) for value in (min(values), max(values))]
    # Without an interval, nothing is known to be slower.
    judged = [ratio for ratio in ratios if ratio.low is not None]
    slower = count_text(sum(ratio.is_above for ratio in judged)) if judged else ABSENT
    return Row((*texts, Text(count_text(mean.count)), Text(slower)))
