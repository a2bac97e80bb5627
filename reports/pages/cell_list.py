"""Makes a table with one row per cell, in a given order, where a grid of backends would not keep it."""

from collections.abc import Collection, Sequence

from reports.pages.arrangement import KINDS
from reports.pages.backend_grid import fact_texts, filled_columns
from reports.pages.bandwidth_notes import overrun_notes
from reports.pages.columns import hint_text
from reports.pages.fact import TableKind
from reports.pages.groups import group_names
from reports.pages.notes import count_note, doubt_notes, method_notes, process_notes, reason_notes
from reports.pages.rows import BASELINE, CellRow
from reports.pages.run_notes import platform_name, run_notes
from reports.records.cell import short_dtype
from reports.render.layout import Column, Row, Table, Text
from reports.render.units import TIMES, count_text


def cell_table(rows: Sequence[CellRow], every: Sequence[CellRow], sort: str | None, only: Collection[str]) -> Table:
    """Returns the table of some cells of a run.

    Args:
        rows: The cells to show, in their order.
        every: All cells of the run and platform, which the names of the groups and the notes refer to.
        sort: What the rows are sorted by.
        only: The kinds of cells that were chosen, see `KINDS`.
    """
    names = dict(zip(every, group_names([row.cell for row in every]), strict=True))
    kinds = (TableKind.TIMES, TableKind.ACCURACY) if any(row.timing for row in every) else (TableKind.ACCURACY,)
    shown = [(kind, filled_columns(kind, rows)) for kind in kinds]
    columns = [
        Column("operator", align="left"), Column("backend", align="left"), Column("dtype", align="left"),
        Column("size"),
        *(
            Column(
                _referred(one.header, every), kind, drop=one.drop + (kind is TableKind.ACCURACY),
                note=_referred(hint_text(one, rows), every),
            )
            for kind, facts in shown for _, one in facts
        ),
    ]  # fmt: skip
    lines = []
    for row in rows:
        cell = row.cell
        labels = (names[row], cell.backend, short_dtype(cell.dtype), count_text(cell.size))
        lines.append(Row((*map(Text, labels), *(text for _, facts in shown for text in fact_texts(facts, row)))))
    chosen = f"{' or '.join(kind for kind in KINDS if kind in only) or 'all'}: {count_text(len(rows))} of"
    notes = [
        *(overrun_notes(rows) if rows else ()),
        *method_notes(rows),
        *process_notes(rows),
        *doubt_notes(rows),
        f"{chosen} {count_text(len(every))} cells" + (f"; sorted by {sort}" if sort else ""),
        count_note(rows),
        *reason_notes(rows),
        *run_notes(every),
    ]
    return Table(f"Cells on {platform_name(every)}", tuple(columns), tuple(lines), tuple(notes))


def _referred(text: str, rows: Sequence[CellRow]) -> str:
    """Returns a text of a column that names the baseline; in the dispatch benchmark, it names the reference."""
    if not any(row.record.dispatch for row in rows):
        return text
    return text.replace(f"{TIMES}{BASELINE}", f"{TIMES}ref").replace(f"of {BASELINE}", "of the reference of the mode")
