"""Makes the summary of a timed run: a row per backend, with the geometric mean of its ratios."""

from collections.abc import Sequence

from reports.pages.phrases import outcome_texts
from reports.pages.rows import BASELINE, CellRow, backends_of, mean_ratio, shared_rows
from reports.pages.run_notes import platform_name
from reports.render.layout import Column, Row, Style, Table, Text
from reports.render.units import ABSENT, TIMES, count_text, interval_text, ratio_text


def summary_table(rows: Sequence[CellRow]) -> Table:
    """Returns the summary of the cells of one platform."""
    columns = (
        Column("backend", align="left"), *map(Column, ("passed", "failed", "skipped")),
        Column(f"{TIMES}{BASELINE}", note=f"{TIMES}{BASELINE}: geometric mean of the ratios to {BASELINE} over the"
               f" cells that passed, as {BASELINE} and another backend did; compared: their number"),
        Column("95%", drop=1, note="95%: its interval, Student's t across processes"),
        Column("compared"),
        Column("slower", note=f"slower: cells that are slower than {BASELINE} beyond the 95 % interval of their ratio"),
    )  # fmt: skip
    shared = shared_rows(rows)
    lines = tuple(
        _line(backend, *([row for row in some if row.cell.backend == backend] for some in (rows, shared)))
        for backend in backends_of(rows)
    )
    return Table(f"Summary of {platform_name(rows[0].run)}", columns, lines, role="summary")


def _line(backend: str, rows: Sequence[CellRow], shared: Sequence[CellRow]) -> Row:
    texts = [Text(backend), *outcome_texts(row.status for row in rows)]
    mean = mean_ratio(shared)
    if mean.mean is None:
        return (*texts, Text("baseline" if backend == BASELINE else ABSENT, Style.FAINT), *[Text("")] * 3)
    texts += [Text(ratio_text(mean.mean)), Text(interval_text(mean.low, mean.high))]
    # Without an interval, no cell is known to be slower.
    judged = [row.compared for row in rows if row.compared and row.compared.low is not None]
    slower = count_text(sum(ratio.is_above for ratio in judged)) if judged else ABSENT
    return (*texts, Text(count_text(mean.count)), Text(slower))
