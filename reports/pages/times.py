"""Makes the table of times: a row per operator, dtype and size, a group of columns per backend."""

from collections.abc import Iterable, Sequence

from reports.pages.backend_grid import backend_grid
from reports.pages.bandwidth_notes import is_impossible, overrun_notes
from reports.pages.columns import facts_of
from reports.pages.fact import TableKind
from reports.pages.notes import count_note, doubt_notes, method_notes, process_notes, reason_notes
from reports.pages.rows import CellRow, by_run_and_platform, cell_rows
from reports.pages.run_notes import platform_name
from reports.pages.summary import summary_table
from reports.records.record import Record
from reports.render.layout import Table
from reports.statistics.ties import fastest
from reports.statistics.verdict_codes import SMALLEST

_ALONE = "What a single call costs"
_BEFORE = "Before the first result, and memory"
_BEST = "fastest of its row; with =, tied: the backends so marked cannot be told apart"


def benchmark_tables(records: Iterable[Record]) -> list[Table]:
    """Returns, for each run and platform, the table of times, what else was recorded of calls, and a summary.

    A cell that did not pass shows its status instead of a time. The notes say why. What a single call costs, and what a
    call needs beside time, have tables of their own, if any cell has such facts.
    """
    tables = []
    for rows in by_run_and_platform(cell_rows(records)):
        tables += [_times(rows), *_others(rows), summary_table(rows)]
    return tables


def _times(rows: Sequence[CellRow]) -> Table:
    first, tied = _fastest(rows)
    columns, lines = backend_grid(rows, TableKind.TIMES, best={*first, *tied}, tied=tied)
    notes = (
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


def _fastest(rows: Iterable[CellRow]) -> tuple[set[CellRow], set[CellRow]]:
    """Returns the cells that are the fastest of their contest alone, and those that are tied with others.

    A contest is two cells or more, timed in the same way. It has no winner if its fastest time is impossible. A cell
    whose time the program around the calls decides does not take part.
    """
    contests: dict[tuple[object, ...], list[CellRow]] = {}
    for row in rows:
        if row.timing:
            cell = row.cell
            contest = cell.operator, cell.operator_version, cell.mode, cell.params_text, cell.dtype, cell.size
            contests.setdefault(contest, []).append(row)
    alone: set[CellRow] = set()
    tied: set[CellRow] = set()
    for contenders in contests.values():
        timed = [(row, row.timing) for row in contenders if row.timing and row.timing.is_steady]
        if len({(timing.method, timing.cache) for _, timing in timed}) != 1:
            continue
        places = fastest([timing.medians_ns for _, timing in timed], SMALLEST[contenders[0].cell.platform])
        winners = [timed[place][0] for place in places]
        if winners and not is_impossible(winners[0]):
            own = {row for row in winners if not is_impossible(row)}
            (alone if len(own) == 1 else tied).update(own)
    return alone, tied
