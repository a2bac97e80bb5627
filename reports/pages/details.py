"""Makes the tables that `show --accuracy` and `show --stages` add to the page of a timed run."""

from collections.abc import Iterable, Sequence

from reports.pages.backend_grid import backend_grid, fact_texts, label_columns, label_texts, placed
from reports.pages.columns import facts_of
from reports.pages.fact import TableKind
from reports.pages.notes import count_note, reason_notes
from reports.pages.rows import BASELINE, CellRow, by_run_and_platform, cell_rows
from reports.pages.run_notes import platform_name
from reports.records.record import Record
from reports.render.layout import Column, Row, Table, Text


def accuracy_tables(records: Iterable[Record]) -> list[Table]:
    """Returns, for each run and platform, the shares of the error budget that the cells and `jnp` used."""
    return [_accuracy(rows) for rows in by_run_and_platform(cell_rows(records))]


def stage_tables(records: Iterable[Record]) -> list[Table]:
    """Returns, for each run and platform, the time that each cell spent before its steady state."""
    return [_stages(rows) for rows in by_run_and_platform(cell_rows(records))]


def _accuracy(rows: Sequence[CellRow]) -> Table:
    columns, lines = backend_grid(rows, TableKind.ACCURACY)
    notes = (count_note(rows), *reason_notes(rows))
    return Table(f"Accuracy on {platform_name(rows)}", columns, lines, notes, "operator")


def _stages(rows: Sequence[CellRow]) -> Table:
    facts = facts_of(TableKind.STAGES)
    labels = label_columns(rows)
    headers = [shown.header for _, shown in facts]
    columns = (
        *labels,
        Column("backend", align="left"),
        *(Column(header, "before the steady state") for header in headers),
    )
    in_order = sorted(
        placed(rows), key=lambda one: (*one.order, one.row.cell.backend != BASELINE, one.row.cell.backend)
    )
    lines = tuple(
        Row((*label_texts(one, labels), Text(one.row.cell.backend), *fact_texts(facts, one.row)), one.group)
        for one in in_order
    )
    notes = (f"{', '.join(headers)}: one measurement each, wall clock", *reason_notes(rows))
    return Table(f"Stages on {platform_name(rows)}", columns, lines, notes, "operator")
