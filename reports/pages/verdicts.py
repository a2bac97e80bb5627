"""Makes the tables of a validation: verdicts by operator and backend, then by check."""

from collections import Counter
from collections.abc import Iterable, Sequence

from reports.pages.less_exact import less_exact_notes
from reports.pages.notes import count_note, reason_notes
from reports.pages.phrases import outcome_counts
from reports.pages.rows import CellRow, backends_of, by_run_and_platform, cell_rows
from reports.pages.run_notes import platform_name, run_notes
from reports.records.record import Record
from reports.records.status import Status
from reports.render.layout import Column, Row, Style, Table, Text
from reports.render.units import ABSENT, count_text, percent_text

PROFILE = "validate"
"""The profile of a validation run begins with this word."""


def is_validation(records: Sequence[Record]) -> bool:
    """Returns whether the cells of a run are checks."""
    return bool(records) and all(record.run.profile.startswith(PROFILE) for record in records)


def validation_tables(
    records: Iterable[Record],
    checks: Sequence[str] = (),
    reasons: int = 40,
    failures: bool = True,
) -> list[Table]:
    """Returns, for each run and platform, the verdicts by operator and backend, then the verdicts by check.

    Args:
        records: The records of a validation run, see `is_validation`.
        checks: The order of the checks. Other checks follow.
        reasons: The largest number of reasons to show.
        failures: Whether to show the reasons of failures too, not only of skips.
    """
    tables = []
    for rows in by_run_and_platform(cell_rows(records)):
        tables += [_grid(rows, reasons, failures), _checks(rows, checks)]
    return tables


def _grid(rows: Sequence[CellRow], reasons: int, failures: bool) -> Table:
    operators = sorted({row.cell.operator for row in rows})
    backends = backends_of(rows)
    columns = [Column("operator", align="left")]
    for backend in backends:
        columns += [
            Column("verdict", backend, align="left"),
            Column("budget%", backend),
            Column("cells", backend, drop=1),
        ]
    cells: dict[tuple[str, str], list[CellRow]] = {}
    for row in rows:
        cells.setdefault((row.cell.operator, row.cell.backend), []).append(row)
    lines = [
        Row((Text(operator), *(text for backend in backends for text in _verdict(cells.get((operator, backend), ())))))
        for operator in operators
    ]
    why = reason_notes([row for row in rows if failures or row.status is Status.SKIPPED])
    notes = [
        "verdict: PASSED where every check passed, else the commonest failure",
        "budget%: largest share of the derived error bound that an element used in any check, in percent",
        "cells: checks made, and how many of them passed where not all did",
        count_note(rows),
        *less_exact_notes(rows),
        *why[:reasons],
        *([f"{len(why) - reasons} more reasons are in the records"] if len(why) > reasons else []),
        *run_notes(rows),
    ]
    return Table(f"Validation on {platform_name(rows)}", tuple(columns), tuple(lines), tuple(notes), role="summary")


def _verdict(rows: Sequence[CellRow]) -> tuple[Text, Text, Text]:
    """Returns verdict, budget and count of the checks of one kernel."""
    counts = outcome_counts(row.status for row in rows)
    made = counts["passed"] + counts["failed"]
    if not made:
        return Text("SKIPPED" if rows else ABSENT, Style.FAINT), Text(ABSENT, Style.FAINT), Text("")
    if not counts["failed"]:
        return Text("PASSED"), Text(_budget(rows)), Text(count_text(made))
    failures = Counter(row.status for row in rows if row.status.failed)
    worst = failures.most_common(1)[0][0]
    return Text(worst, Style.BAD), Text(_budget(rows), Style.BAD), Text(f"{counts['passed']}/{made}", Style.BAD)


def _checks(rows: Sequence[CellRow], order: Sequence[str]) -> Table:
    found: dict[str, list[CellRow]] = {name: [] for name in order}
    for row in rows:
        found.setdefault(row.cell.mode, []).append(row)
    columns = (
        Column("check", align="left"),
        *(Column(name, "cells") for name in ("passed", "failed", "skipped")),
        Column("budget%", "most used"),
        Column("by", "most used", align="left"),
    )
    lines = []
    for name, own in found.items():
        if not own:
            continue
        counts = outcome_counts(row.status for row in own)
        worst = max(own, key=_used)
        lines.append(
            Row(
                (
                    Text(name),
                    Text(count_text(counts["passed"])),
                    Text(count_text(counts["failed"]), Style.BAD if counts["failed"] else Style.PLAIN),
                    Text(count_text(counts["skipped"]), Style.FAINT),
                    Text(_budget(own)),
                    Text(_kernel(worst) if _used(worst) >= 0 else ""),
                )
            )
        )
    return Table(f"Checks on {platform_name(rows)}", columns, tuple(lines))


def _budget(rows: Iterable[CellRow]) -> str:
    most = max(map(_used, rows))
    return percent_text(most) if most >= 0 else ABSENT


def _used(row: CellRow) -> float:
    """Returns the share of the error budget that a cell used; -1 where it is unknown or NaN, to sort first."""
    used = row.record.accuracy.budget_used if row.record.accuracy else None
    return used if used is not None and used >= 0 else -1.0


def _kernel(row: CellRow) -> str:
    return f"{row.cell.operator}, {row.cell.backend}, {row.cell.dtype}"
