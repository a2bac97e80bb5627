"""Makes the table of the cells of a run: a row for each, with the backends of a group after each other."""

from collections.abc import Collection, Iterable, Sequence

from reports.pages.arrangement import KINDS, arrange
from reports.pages.bandwidth_notes import overrun_notes
from reports.pages.columns import FACTS, Fact, Shown
from reports.pages.fastest_cells import fastest_cells
from reports.pages.fastest_table import fastest_table
from reports.pages.groups import group_names
from reports.pages.notes import count_note, doubt_notes, method_notes, process_notes, reason_notes, remark_notes
from reports.pages.rows import CellRow, by_run_and_platform, cell_rows
from reports.pages.run_notes import platform_name, run_notes
from reports.pages.summary import summary_table
from reports.records.cell import short_dtype
from reports.records.record import Record
from reports.records.status import Status
from reports.render.layout import Column, Row, Style, Table, Text
from reports.render.units import TIED, count_text, time_text

_CACHE = "cache"
"""The parameter with the state of a GPU's cache. It has a column: an operator may be hot at small sizes only."""

MOST = 1000
"""Most cells of a table, beside those that failed."""

_BEST = "the fastest backend; = marks several that cannot be told apart"


def benchmark_tables(records: Iterable[Record]) -> list[Table]:
    """Returns, for each run and platform, the table of its cells, those that beat the baseline, and a summary."""
    tables = []
    for rows in by_run_and_platform(cell_rows(records)):
        fastest = fastest_table({platform_name(rows[0].run): rows})
        tables += [cell_table(rows), *([fastest] if fastest.rows else []), summary_table(rows)]
    return tables


def cell_table(
    every: Sequence[CellRow], sort: str | None = None, only: Collection[str] = (), *, details: bool = False
) -> Table:
    """Returns the table of some cells of one run and platform.

    A cell that did not pass shows its status instead of a time, and the notes explain why. A table of very many cells
    has only the first ones, and those that failed; the notes are on all cells.

    Args:
        every: All cells of the run and platform.
        sort: A key of `reports.pages.arrangement.SORTS`; by default the backends of a group follow each other.
        only: Keys of `reports.pages.arrangement.KINDS`: the kinds of cells to show; by default all.
        details: Whether to add all other columns that have a value.
    """
    rows = arrange(every, sort, only)
    listed = [row for index, row in enumerate(rows) if index < MOST or row.status.failed][: 2 * MOST]
    names = dict(zip(listed, group_names([row.cell for row in listed], without=(_CACHE,)), strict=True))
    details = details or not any(row.timing for row in every)
    filled = [
        (fact, shown) for fact in FACTS if (shown := fact.shown) is not None and (details or not shown.details)
        and any(fact.read(row) is not None for row in listed)
    ]  # fmt: skip
    has_cache = any(_CACHE in row.cell.params for row in listed)
    columns = [
        Column("operator", "left"), Column("dtype", "left"), Column("size"),
        *([Column(_CACHE, "left")] if has_cache else []), Column("backend", "left"),
        Column("time", note="time: median of a call in a loop, over processes"),
        *(Column(shown.header, drop=shown.drop, note=shown.hint) for _, shown in filled),
    ]  # fmt: skip
    operators = {row.cell.operator for row in listed}
    rivals = [row for row in every if row.cell.operator in operators]
    won = fastest_cells(rivals)
    lines = [_line(row, names[row], has_cache, won.get(row), filled) for row in listed]
    selected = (
        f"{' or '.join(kind for kind in KINDS if kind in only)}: {count_text(len(rows))} of {count_text(len(every))}"
    )
    short = f"{count_text(len(listed))} of {count_text(len(rows))} cells are listed; --format csv or json has all"
    notes = [
        *([short] if len(listed) < len(rows) else []),
        *remark_notes(rows), *overrun_notes(rows), *method_notes(rows), *process_notes(rows), *doubt_notes(rows),
        *([f"{selected} cells"] if only else []), *([f"sorted by {sort}"] if sort else []), count_note(rows),
        *reason_notes(rows), *run_notes(every),
    ]  # fmt: skip
    return Table(f"Cells on {platform_name(every[0].run)}", tuple(columns), tuple(lines), tuple(notes), _BEST)


def _line(row: CellRow, name: str, has_cache: bool, won: bool | None, filled: Sequence[tuple[Fact, Shown]]) -> Row:
    labels = [name, short_dtype(row.cell.dtype), count_text(row.cell.size)]
    labels += [str(row.cell.params.get(_CACHE, ""))] if has_cache else []
    if row.timing is None:
        time = Text(row.status, Style.BAD if row.status.failed else Style.FAINT)
    elif won is None:
        time = Text(time_text(row.timing.median_ns))
    else:
        time = Text((TIED if won else "") + time_text(row.timing.median_ns), Style.BEST)
    if row.status is Status.SKIPPED:
        return (*map(Text, (*labels, row.cell.backend)), time, *[Text("")] * len(filled))
    return (*map(Text, (*labels, row.cell.backend)), time, *(shown.text(row) for _, shown in filled))
