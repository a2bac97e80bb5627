"""Tells whether a run is one of broken kernels, and which kernels no check caught."""

from collections.abc import Iterable, Sequence

from reports.records.record import Record, last_by_cell
from reports.records.status import Status

MUTANTS = "suites.mutants"
"""The source of operators in the header of a run of broken kernels."""


def are_mutants(records: Sequence[Record]) -> bool:
    """Tells whether records are of broken kernels, where a wrong cell is a catch."""
    return bool(records) and MUTANTS in (records[0].run.selection or {}).get("source", [])


def survivors(records: Iterable[Record]) -> list[str]:
    """Returns the operators that ran and that no check caught. A cell that could not be judged catches nothing."""
    ran, caught = set(), set()
    for record in last_by_cell(records):
        ran |= {record.cell.operator} if record.status is not Status.SKIPPED else set()
        caught |= {record.cell.operator} if record.status.wrong else set()
    return sorted(ran - caught)
