"""Makes the table of times: a row per operator, dtype and size, a group of columns per backend."""

from collections.abc import Iterable, Sequence

from reports.pages.backend_grid import backend_grid
from reports.pages.bandwidth_notes import overrun_notes
from reports.pages.columns import facts_of
from reports.pages.fact import TableKind
from reports.pages.first_places import contests
from reports.pages.notes import count_note, doubt_notes, method_notes, process_notes, reason_notes, remark_notes
from reports.pages.peer_table import peer_tables
from reports.pages.rows import CellRow, by_run_and_platform, cell_rows, without_peers
from reports.pages.run_notes import platform_name
from reports.pages.summary import summary_table
from reports.records.record import Record
from reports.render.layout import Table

_ALONE = "What a single call costs"
_BEFORE = "Before the first result, and memory"
_BEST = "fastest of its row; with =, tied: the backends so marked cannot be told apart"


def benchmark_tables(records: Iterable[Record]) -> list[Table]:
    """Returns, for each run and platform, the table of times, what else was recorded of calls, and a summary.

    A cell that did not pass shows its status instead of a time. The notes say why. What a single call costs, and what a
    call needs beside time, have tables of their own, if any cell has such facts. So have other libraries that were
    timed beside the kernels.
    """
    tables = []
    for every in by_run_and_platform(cell_rows(records)):
        rows = without_peers(every)
        tables += [_times(rows), *_others(rows)] if rows else []
        tables += peer_tables(every)
        tables += [summary_table(rows)] if rows else []
    return tables


def _times(rows: Sequence[CellRow]) -> Table:
    found = contests(rows).values()
    best = {row for contest in found for row in contest.winners}
    tied = {row for contest in found if contest.is_tie for row in contest.winners}
    columns, lines = backend_grid(rows, TableKind.TIMES, best, tied)
    notes = (
        *remark_notes(rows),
        *overrun_notes(rows),
        *method_notes(rows),
        *process_notes(rows),
        *doubt_notes(rows),
        count_note(rows),
        *reason_notes(rows),
    )
    return Table(f"Time per call on {platform_name(rows)}", columns, lines, notes, "operator", best=_BEST)


def _others(rows: Sequence[CellRow]) -> list[Table]:
    tables = []
    for kind, title in ((TableKind.ALONE, _ALONE), (TableKind.BEFORE, _BEFORE)):
        facts = [fact for fact, _ in facts_of(kind)]
        filled = [row for row in rows if any(fact.read(row) is not None for fact in facts)]
        if filled:
            columns, lines = backend_grid(filled, kind)
            tables.append(Table(f"{title}, on {platform_name(rows)}", columns, lines, (), "operator"))
    return tables
