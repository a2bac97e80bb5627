"""Defines `Record`: the result of one cell, together with the header of its run."""

from collections.abc import Iterable

from reports.errors import RecordError
from reports.records.cell import CellKey
from reports.records.cell_result import CellResult
from reports.records.header import Run
from reports.records.part import Count, Whole, require_utc
from reports.records.status import Status

SCHEMA = 4
"""Version of the layout of a run file. A reader accepts this version."""

RETRYABLE = frozenset({Status.CRASHED, Status.TIMEOUT, Status.OOM, Status.UNCHECKED, Status.SKIPPED})
"""The statuses that a later attempt at a cell may replace, because the machine can be their cause."""


class Record(CellResult, frozen=True, kw_only=True, tag_field="kind", tag="cell"):
    """The result of one cell with the header of its run, as a line of a run file holds it.

    Attributes:
        schema: Version of the layout.
        index: Number of the record in its run, from 0.
        time: When the cell ended: ISO 8601, UTC.
        run: The header of the run.

    Raises:
        RecordError: The fields contradict each other.
    """

    schema: Whole
    index: Count
    time: str
    run: Run

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.cell.platform != self.run.device.platform:
            raise RecordError(
                f"{self.cell}: the cell ran on {self.cell.platform!r}, its run header describes a"
                f" {self.run.device.platform!r} device. Give each device its own Run: a share of another"
                " device's bandwidth means nothing."
            )
        require_utc("time", self.time)


def last_by_cell(records: Iterable[Record]) -> list[Record]:
    """Returns the record that counts of each run and cell: the last one, unless an earlier one is wrong.

    A resumed run may try a cell again that timed out. But a wrong result stays, even if a later one is right: such a
    kernel has a race, or reads memory that it did not write.

    Raises:
        TypeError: An element is no record.
    """
    counting: dict[tuple[str, CellKey], Record] = {}
    for record in records:
        if not isinstance(record, Record):
            raise TypeError(f"got a {type(record).__name__}, expected records, as load_run(path).records has them.")
        key = (record.run.run_id, record.cell.key)
        before = counting.get(key)
        stays = before is not None and before.status.failed and before.status not in RETRYABLE
        if not stays:
            counting[key] = record
    return list(counting.values())
