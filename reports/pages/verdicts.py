"""Makes the tables of a validation: verdicts by operator and backend, then by check."""

from collections import Counter
from collections.abc import Iterable, Sequence

from reports.pages.notes import count_note, reason_notes
from reports.pages.phrases import outcome_counts, outcome_texts
from reports.pages.rows import CellRow, backends_of, by_run_and_platform, cell_rows
from reports.pages.run_notes import platform_name, run_notes
from reports.records.record import Record
from reports.records.status import Status
from reports.render.layout import Column, Row, Style, Table, Text
from reports.render.units import ABSENT, count_text, percent_text

PROFILE = "validate"
"""The profile of a validation run begins with this word."""

_REASONS = 40
"""Most reasons that are shown."""


def is_validation(records: Sequence[Record]) -> bool:
    """Returns whether the cells of a run are checks."""
    return bool(records) and all(record.run.profile.startswith(PROFILE) for record in records)


def validation_tables(records: Iterable[Record], checks: Sequence[str] = (), failures: bool = True) -> list[Table]:
    """Returns, for each run and platform, the verdicts by operator and backend, then the verdicts by check.

    Args:
        records: The records of a validation run, see `is_validation`.
        checks: The order of the checks. Other checks follow.
        failures: Whether to show the reasons of failures too, not only of skips.
    """
    parts = by_run_and_platform(cell_rows(records))
    return [table for rows in parts for table in verdict_tables(rows, checks, failures)]


def verdict_tables(rows: Sequence[CellRow], checks: Sequence[str] = (), failures: bool = True) -> list[Table]:
    """Returns the same for the cells of one device, which may be of several runs."""
    return [_grid(rows, failures), _checks(rows, checks)]


def _grid(rows: Sequence[CellRow], failures: bool) -> Table:
    backends = backends_of(rows)
    cells: dict[tuple[str, str], list[CellRow]] = {}
    for row in rows:
        cells.setdefault((row.cell.operator, row.cell.backend), []).append(row)
    lines = [
        (Text(operator), *(_verdict(cells.get((operator, backend), ())) for backend in backends))
        for operator in sorted({row.cell.operator for row in rows})
    ]
    why = reason_notes([row for row in rows if failures or row.status is Status.SKIPPED])
    notes = [
        "verdict: PASSED if every check passed, else the most frequent failure; with the number of checks",
        count_note(rows),
        *why[:_REASONS],
        *([f"{len(why) - _REASONS} more reasons are in the records"] if len(why) > _REASONS else []),
        *run_notes(rows),
    ]
    columns = tuple(Column(name, align="left") for name in ("operator", *backends))
    return Table(f"Validation on {platform_name(rows[0].run)}", columns, tuple(lines), tuple(notes), role="summary")


def _verdict(rows: Sequence[CellRow]) -> Text:
    """Returns the verdict on one kernel, and how many checks passed."""
    counts = outcome_counts(row.status for row in rows)
    ran = counts["passed"] + counts["failed"]
    if not ran:
        return Text("SKIPPED" if rows else ABSENT, Style.FAINT)
    if not counts["failed"]:
        return Text(f"PASSED {count_text(ran)}")
    worst = Counter(row.status for row in rows if row.status.failed).most_common(1)[0][0]
    return Text(f"{worst} {counts['passed']}/{ran}", Style.BAD)


def _checks(rows: Sequence[CellRow], order: Sequence[str]) -> Table:
    by_check: dict[str, list[CellRow]] = {name: [] for name in order}
    for row in rows:
        by_check.setdefault(row.cell.mode, []).append(row)
    columns = (
        Column("check", align="left"), *map(Column, ("passed", "failed", "skipped")),
        Column("budget%", note="budget%: largest share of the derived error bound that an element used, in percent"),
        Column("used by", align="left"),
    )  # fmt: skip
    lines = tuple(_check(name, own) for name, own in by_check.items() if own)
    return Table(f"Checks on {platform_name(rows[0].run)}", columns, lines)


def _check(name: str, rows: Sequence[CellRow]) -> Row:
    worst = max(rows, key=_used)
    used, cell = _used(worst), worst.cell
    return (
        Text(name),
        *outcome_texts(row.status for row in rows),
        Text(percent_text(used) if used >= 0 else ABSENT),
        Text(f"{cell.operator}, {cell.backend}, {cell.dtype}" if used >= 0 else ""),
    )


def _used(row: CellRow) -> float:
    """Returns the share of the error budget that a cell used; -1 where it is unknown or NaN, to sort first."""
    used = row.record.accuracy.budget_used if row.record.accuracy else None
    return used if used is not None and used >= 0 else -1.0
