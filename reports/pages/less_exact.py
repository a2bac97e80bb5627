"""Names the kernels that pass, but are far less exact than XLA's own operations."""

from collections.abc import Sequence

from reports.pages.rows import BASELINE, CellRow
from reports.records.status import Status

TIMES = 50
"""A kernel whose error is more times as large as XLA's is named."""

LEAST = 1e-3
"""XLA's share of the error budget is taken as this at least: it may be zero by chance."""


def less_exact_notes(rows: Sequence[CellRow]) -> list[str]:
    """Returns a note for each kernel and dtype with a passed cell whose error is :data:`TIMES` times XLA's.

    XLA's error is the one in the record of the cell, or in the record of the baseline's cell in the same run. Such a
    kernel is within its bound, so this is no failure. It may add up in one long chain, or compute in a narrower type.
    """
    baseline = {_place(row): _used(row) for row in rows if row.cell.backend == BASELINE}
    worst: dict[tuple[str, str, str], tuple[float, str]] = {}
    for row in rows:
        used, accuracy = _used(row), row.record.accuracy
        if row.cell.backend == BASELINE or used is None or accuracy is None or row.status is not Status.PASSED:
            continue
        own = accuracy.reference_budget_used
        reference = baseline.get(_place(row)) if own is None else own
        if reference is None:
            continue
        times, kernel = used / max(reference, LEAST), (row.cell.operator, row.cell.backend, row.cell.dtype)
        if times > worst.get(kernel, (TIMES, ""))[0]:
            worst[kernel] = times, row.cell.id
    return [
        f"less exact: {' '.join(kernel)} passed, but its error is {times:.0f} times as large as XLA's ({cell})"
        for kernel, (times, cell) in sorted(worst.items())
    ]


def _place(row: CellRow) -> tuple[str, str, int, str, str]:
    cell = row.cell
    return cell.operator, cell.dtype, cell.size, cell.mode, cell.params_text


def _used(row: CellRow) -> float | None:
    return row.record.accuracy.budget_used if row.record.accuracy else None
