"""Defines the first and the last line of a session in a run file: the cells that it expects, and how it ended."""

import re

import msgspec

from reports.errors import RecordError
from reports.records.cell import Cell
from reports.records.header import Run
from reports.records.part import Amount, Count, Part, Whole, require_utc
from reports.records.status import Status

EXIT_CODES = (0, 1, 3)
"""The exit codes of a session; `reports.options.Exit` names them."""

_DIGEST = re.compile(r"[0-9a-f]{64}")


class Begin(Part, frozen=True, kw_only=True, tag_field="kind", tag="begin"):
    """The first line of a session. A session that continues a run writes another one, with the cells that are left.

    Attributes:
        schema: Version of the layout.
        time: When the line was written: ISO 8601, UTC.
        run: The header of the run.
        cells: The cells that the session will run, in their order.
        optional: The cells that may all be skipped, because they cannot run here or a library is missing. They are
            expected like the others.
        deselected: Number of cells that options of pytest, such as `-k`, left out.

    Raises:
        RecordError: `time` is not a time in UTC, or the number is negative.
    """

    schema: Whole
    time: str
    run: Run
    cells: list[Cell]
    optional: list[Cell] = msgspec.field(default_factory=list)
    deselected: Count = 0

    def __post_init__(self) -> None:
        require_utc("begin: time", self.time)


class End(Part, frozen=True, kw_only=True, tag_field="kind", tag="end"):
    """The last line of a session that came to its end.

    Attributes:
        schema: Version of the layout.
        time: When the session ended: ISO 8601, UTC.
        run_id: The id of the run.
        count: Number of records in the file.
        statuses: Number of these records, by status.
        seconds: How long the session took.
        exit: Its exit code: one of `EXIT_CODES`.
        digest: SHA-256 of all bytes of the file before this line, as 64 hexadecimal digits.

    Raises:
        RecordError: A field holds a value that no session writes.
    """

    schema: Whole
    time: str
    run_id: str
    count: Count
    statuses: dict[Status, Whole]
    seconds: Amount
    exit: Whole
    digest: str

    def __post_init__(self) -> None:
        require_utc("end: time", self.time)
        if self.exit not in EXIT_CODES:
            raise RecordError(f"end: exit={self.exit!r}; expected one of {EXIT_CODES}.")
        if not _DIGEST.fullmatch(self.digest):
            raise RecordError(f"end: digest={self.digest[:80]!r}; expected 64 hexadecimal digits.")
