"""Makes the page of a recorded run. The profile of the run decides its tables."""

from collections.abc import Sequence

from reports.pages.call_costs import call_cost_tables, is_dispatch
from reports.pages.data_frame import JSON_COLUMNS, to_frame
from reports.pages.details import accuracy_tables, stage_tables
from reports.pages.times import benchmark_tables
from reports.pages.verdicts import is_validation, validation_tables
from reports.records.record import Record
from reports.render.layout import Column, Row, Style, Table, Text
from reports.render.page import Page


def page_of(
    records: Sequence[Record], accuracy: bool = False, stages: bool = False, doubts: Sequence[str] = ()
) -> Page:
    """Returns the page of one run: verdicts for a validation, call costs for the dispatch benchmark, else times.

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
    else:
        tables = benchmark_tables(records)
        tables += accuracy_tables(records) if accuracy else []
        tables += stage_tables(records) if stages else []
    return Page((*doubt_tables(doubts), *tables), to_frame(records), JSON_COLUMNS)


def doubt_tables(doubts: Sequence[str]) -> list[Table]:
    """Returns a table of what is missing or damaged in a run; none for a run that is whole."""
    if not doubts:
        return []
    rows = tuple(Row((Text(doubt, Style.BAD),)) for doubt in doubts)
    return [Table("This run is no proof", (Column("why", align="left"),), rows)]
