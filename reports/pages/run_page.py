"""Makes the page of a recorded run. The profile of the run decides its tables."""

from collections.abc import Collection, Sequence

from reports.pages.arrangement import arranged
from reports.pages.call_costs import call_cost_tables, is_dispatch
from reports.pages.cell_list import cell_table
from reports.pages.data_frame import JSON_COLUMNS, rows_to_frame, to_frame
from reports.pages.details import accuracy_tables, stage_tables
from reports.pages.endurance_table import endurance_tables, is_endurance
from reports.pages.rows import by_run_and_platform, cell_rows
from reports.pages.times import benchmark_tables
from reports.pages.verdicts import is_validation, validation_tables
from reports.records.record import Record
from reports.render.layout import Column, Row, Style, Table, Text
from reports.render.page import Page


def page_of(
    records: Sequence[Record], accuracy: bool = False, stages: bool = False, doubts: Sequence[str] = ()
) -> Page:
    """Returns the page of one run: verdicts for a validation, call costs for the dispatch benchmark, growth for trials
    of endurance, else times.

    Args:
        records: The records of the run.
        accuracy: Adds tables of the error bounds used, if the page shows times.
        stages: Adds tables of the times before the steady state, if the page shows times.
        doubts: What is missing or damaged in the run; it comes first.
    """
    if is_validation(records):
        tables = validation_tables(records)
    elif is_dispatch(records):
        tables = call_cost_tables(records)
    elif is_endurance(records):
        tables = endurance_tables(records)
    else:
        tables = benchmark_tables(records)
        tables += accuracy_tables(records) if accuracy else []
        tables += stage_tables(records) if stages else []
    return Page((*doubt_tables(doubts), *tables), to_frame(records), JSON_COLUMNS, origin_of(records))


def list_page(
    records: Sequence[Record], sort: str | None = None, only: Collection[str] = (), doubts: Sequence[str] = ()
) -> Page:
    """Returns the page of one run as a list of cells, which keeps an order and leaves cells out.

    Args:
        records: The records of the run.
        sort: What to sort by, see `reports.pages.arrangement`.
        only: The kinds of cells to show, likewise; all of them by default.
        doubts: What is missing or damaged in the run; it comes first.
    """
    tables, shown = doubt_tables(doubts), []
    for every in by_run_and_platform(cell_rows(records)):
        rows = arranged(every, sort, only)
        tables.append(cell_table(rows, every, sort, only))
        shown += rows
    return Page(tuple(tables), rows_to_frame(shown), JSON_COLUMNS, origin_of(records))


def origin_of(records: Sequence[Record]) -> str:
    """Returns the command that shows everything of a run."""
    return f"kernel-bridge show {records[-1].run.run_id}"


def doubt_tables(doubts: Sequence[str]) -> list[Table]:
    """Returns a table of what is missing or damaged in a run; none for a run that is whole."""
    if not doubts:
        return []
    rows = tuple(Row((Text(doubt, Style.BAD),)) for doubt in doubts)
    return [Table("This run is no proof", (Column("why", align="left"),), rows, role="alarm")]
