"""Makes the summary of a timed run: a row per backend, with the geometric mean of its ratios."""

from collections.abc import Sequence

from reports.pages.phrases import outcome_counts
from reports.pages.rows import BASELINE, CellRow, backends_of
from reports.pages.run_notes import platform_name
from reports.render.layout import Column, Row, Style, Table, Text
from reports.render.units import ABSENT, TIMES, count_text, interval_text, ratio_text
from reports.statistics.means import geometric_mean


def summary_table(rows: Sequence[CellRow]) -> Table:
    """Returns the summary of the cells of one platform."""
    columns = (
        Column("backend", align="left"), *map(Column, ("passed", "failed", "skipped")),
        Column(f"{TIMES}{BASELINE}", note=f"{TIMES}{BASELINE}: geometric mean of the ratios to {BASELINE} over the"
               f" cells that passed, as {BASELINE} did; compared: their number"),
        Column("95%", drop=1, note="95%: its interval, Student's t across processes"),
        Column("compared"),
        Column("slower", note=f"slower: cells that are slower than {BASELINE} beyond the 95 % interval of their ratio"),
    )  # fmt: skip
    lines = tuple(_line(backend, [row for row in rows if row.cell.backend == backend]) for backend in backends_of(rows))
    return Table(f"Summary of {platform_name(rows)}", columns, lines, role="summary")


def _line(backend: str, rows: Sequence[CellRow]) -> Row:
    counts = outcome_counts(row.status for row in rows)
    failed = Text(count_text(counts["failed"]), Style.BAD if counts["failed"] else Style.PLAIN)
    texts = [Text(backend), Text(count_text(counts["passed"])), failed, Text(count_text(counts["skipped"]))]
    pairs = [] if backend == BASELINE else [(row.compared, row.run.run_id) for row in rows if row.compared]
    ratios = [ratio for ratio, _ in pairs]
    mean = geometric_mean(ratios, [session for _, session in pairs])
    if mean.mean is None:
        return (*texts, Text("baseline" if backend == BASELINE else ABSENT, Style.FAINT), *[Text("")] * 3)
    texts += [Text(ratio_text(mean.mean)), Text(interval_text(mean.low, mean.high))]
    # Without an interval, no cell is known to be slower.
    judged = [ratio for ratio in ratios if ratio.low is not None]
    slower = count_text(sum(ratio.is_above for ratio in judged)) if judged else ABSENT
    return (*texts, Text(count_text(mean.count)), Text(slower))
