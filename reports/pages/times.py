"""Makes the table of times: a row per operator, dtype and size, a group of columns per backend."""

from collections.abc import Iterable, Sequence

from reports.pages.backend_grid import backend_grid
from reports.pages.bandwidth_notes import is_impossible, overrun_notes
from reports.pages.fact import TableKind
from reports.pages.notes import count_note, method_notes, reason_notes
from reports.pages.rows import CellRow, by_run_and_platform, cell_rows
from reports.pages.run_notes import platform_name
from reports.pages.summary import summary_table
from reports.records.record import Record
from reports.render.layout import Table


def benchmark_tables(records: Iterable[Record]) -> list[Table]:
    """Returns, for each run and platform, the table of times and its summary.

    A cell that did not pass shows its status instead of a time. The notes say why.
    """
    tables = []
    for rows in by_run_and_platform(cell_rows(records)):
        tables += [_times(rows), summary_table(rows)]
    return tables


def _times(rows: Sequence[CellRow]) -> Table:
    columns, lines = backend_grid(rows, TableKind.TIMES, best=_fastest(rows))
    notes = (*overrun_notes(rows), *method_notes(rows), count_note(rows), *reason_notes(rows))
    return Table(f"Time per call on {platform_name(rows)}", columns, lines, notes, "operator")


def _fastest(rows: Iterable[CellRow]) -> set[CellRow]:
    """Returns the fastest cell of each contest: two cells or more, timed in the same way.

    A contest has no winner if its fastest time is impossible.
    """
    contests: dict[tuple[object, ...], dict[CellRow, float]] = {}
    methods: dict[tuple[object, ...], set[tuple[str, str]]] = {}
    for row in rows:
        if row.timing:
            cell = row.cell
            contest = cell.operator, cell.operator_version, cell.mode, cell.params_text, cell.dtype, cell.size
            contests.setdefault(contest, {})[row] = row.timing.median_ns
            methods.setdefault(contest, set()).add((row.timing.method, row.timing.cache))
    leaders = {
        min(times, key=times.__getitem__)
        for contest, times in contests.items()
        if len(times) > 1 and len(methods[contest]) == 1
    }
    return {row for row in leaders if not is_impossible(row)}
