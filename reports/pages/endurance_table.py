"""Makes the tables of a run of endurance: what each trial did, what one of them cost, and how memory grew."""

from collections.abc import Iterable, Sequence

from reports.pages.grown import Memory, growth_of
from reports.pages.phrases import shorten
from reports.pages.rows import CellRow, by_run_and_platform, cell_rows
from reports.pages.run_notes import platform_name, run_notes
from reports.records.endured import Endurance
from reports.records.record import Record
from reports.records.status import Status
from reports.render.layout import Column, Row, Style, Table, Text
from reports.render.units import ABSENT, DASH, bytes_text, count_text, time_text

PROFILE = "endure"
"""The profile of a run of endurance."""

_AMOUNTS = ("calls", "kernels")
"""Parameters that another column has."""

_COLUMNS = (
    Column("trial", align="left"),
    Column("how", align="left"),
    Column("done"),
    Column("of what", align="left"),
    Column("time"),
    Column("first", "cost of one", note="first, last: over the first and the last fifth of the samples"),
    Column("last", "cost of one"),
    Column("first", "processor time of one", drop=2),
    Column("last", "processor time of one", drop=2),
    Column("resident", "growth for one", note="growth: median slope, 95% interval"),
    Column(f"low{DASH}high", "growth for one", drop=1),
    Column("GPU", "growth for one"),
    Column("resident", "in all"),
    Column("result", align="left"),
)


def is_endurance(records: Sequence[Record]) -> bool:
    """Returns whether a run is one of endurance."""
    return bool(records) and all(record.run.profile == PROFILE for record in records)


def endurance_tables(records: Iterable[Record]) -> list[Table]:
    """Returns, for each run and platform, a row for each trial, then the reasons of those that did not pass."""
    tables = []
    for rows in by_run_and_platform(cell_rows(records)):
        title = f"Endurance on {platform_name(rows)}"
        tables.append(Table(title, _COLUMNS, tuple(map(_row, rows)), tuple(run_notes(rows))))
        failed = [row for row in rows if row.status is not Status.PASSED]
        if failed:
            columns = tuple(Column(name, align="left") for name in ("trial", "how", "result", "reason"))
            reasons = [Row((*_names(row), Text(row.status), Text(shorten(str(row.record.reason))))) for row in failed]
            tables.append(Table("Not passed", columns, tuple(reasons)))
    return tables


def _names(row: CellRow) -> tuple[Text, Text]:
    told = [row.cell.backend, *(f"{name} {value}" for name, value in row.cell.params.items() if name not in _AMOUNTS)]
    return Text(row.cell.operator), Text(", ".join(told))


def _row(row: CellRow) -> Row:
    failed = row.status.failed
    result = Text(row.status, Style.BAD if failed else Style.FAINT if row.status is Status.SKIPPED else Style.PLAIN)
    found = row.record.endurance
    if found is None:
        return Row((*_names(row), *[Text(ABSENT)] * (len(_COLUMNS) - 3), result))
    resident, interval = _growth_texts(found, "resident_bytes")
    device, _ = _growth_texts(found, "device_bytes")
    total = found.samples[-1].resident_bytes - found.samples[0].resident_bytes
    texts = (
        count_text(found.done), f"{found.unit}s", time_text(1e9 * found.seconds), time_text(found.first_ns),
        time_text(found.last_ns), time_text(found.first_processor_ns), time_text(found.last_processor_ns), resident,
        interval, device, _signed(total),
    )  # fmt: skip
    return Row((*_names(row), *map(Text, texts), result))


def _growth_texts(found: Endurance, memory: Memory) -> tuple[str, str]:
    grown = growth_of(found, memory)
    if grown is None:
        return ABSENT, ABSENT
    return _signed(grown.slope), f"{_signed(grown.low)}{DASH}{_signed(grown.high)}"


def _signed(count: float) -> str:
    """Returns a number of bytes that may be below zero, or be a fraction of one byte."""
    size = abs(count)
    text = "0 B" if size < 0.0005 else f"{size:.3f} B" if size < 10 else bytes_text(size)
    return f"-{text}" if count < 0 and text != "0 B" else text
