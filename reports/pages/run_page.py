"""Makes the page of a recorded run. The profile of the run decides its tables."""

from collections.abc import Collection, Sequence

from reports.pages.arrangement import arrange
from reports.pages.data_frame import JSON_COLUMNS, rows_to_frame, to_frame
from reports.pages.rows import by_run_and_platform, cell_rows
from reports.pages.run_cells import benchmark_tables, cell_table
from reports.pages.verdicts import is_validation, validation_tables
from reports.records.record import Record
from reports.render.layout import Column, Style, Table, Text
from reports.render.page import Page


def page_of(records: Sequence[Record], doubts: Sequence[str] = ()) -> Page:
    """Returns the page of one run: verdicts for a validation, else times.

    Args:
        records: The records of the run.
        doubts: The missing and damaged parts of the run; the page begins with it.
    """
    makes = validation_tables if is_validation(records) else benchmark_tables
    tables = (*doubt_tables(doubts), *makes(records))
    return Page(tables, lambda: to_frame(records), JSON_COLUMNS, origin_of(records))


def list_page(
    records: Sequence[Record], sort: str | None = None, only: Collection[str] = (), doubts: Sequence[str] = (),
    *, details: bool = False,
) -> Page:  # fmt: skip
    """Returns the page of one run as a list of cells, see `reports.pages.run_cells.tables`."""
    parts = by_run_and_platform(cell_rows(records))
    tables = [cell_table(every, sort, only, details=details) for every in parts]
    shown = [row for every in parts for row in arrange(every, sort, only)]
    return Page((*doubt_tables(doubts), *tables), lambda: rows_to_frame(shown), JSON_COLUMNS, origin_of(records))


def origin_of(records: Sequence[Record]) -> str:
    """Returns the command that shows everything of a run."""
    return f"kernel-bridge show {records[-1].run.run_id}"


def doubt_tables(doubts: Sequence[str], title: str = "This run is no proof") -> list[Table]:
    """Returns a table of the missing and damaged parts of a run; no table for a complete run."""
    if not doubts:
        return []
    rows = tuple((Text(doubt, Style.BAD),) for doubt in doubts)
    return [Table(title, (Column("why", align="left"),), rows, role="alarm")]
