"""Selects and sorts the cells of a page by the options ``--only`` and ``--sort``."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence

from reports.pages.groups import dtype_order
from reports.pages.rows import BASELINE, CellRow
from reports.records.status import Status
from reports.statistics.verdict_codes import TIE


def _is_slower(row: CellRow) -> bool:
    return row.ratio is not None and row.ratio > 1 and not _is_tie(row)


def _is_faster(row: CellRow) -> bool:
    return row.ratio is not None and row.ratio < 1 and not _is_tie(row)


def _is_tie(row: CellRow) -> bool:
    """Tells whether a cell cannot be told apart from the baseline; the baseline itself is no tie."""
    ratio = row.compared
    if ratio is None or row.cell.backend == BASELINE:
        return False
    smallest = TIE[row.cell.platform]
    return abs(math.log(ratio.value)) < math.log1p(smallest) if ratio.low is None else ratio.is_tie(smallest)


KINDS: Mapping[str, Callable[[CellRow], bool]] = {
    "slower": _is_slower,
    "faster": _is_faster,
    "ties": _is_tie,
    "failed": lambda row: row.status.failed,
    "skipped": lambda row: row.status is Status.SKIPPED,
}
"""The values of ``--only``: slower or faster than the baseline, tied with it, failed, or skipped."""

SORTS: Mapping[str, Callable[[CellRow], float | None]] = {
    "ratio": lambda row: row.ratio,
    "time": lambda row: row.timing.median_ns if row.timing else None,
    "size": lambda row: row.cell.size,
    "budget": lambda row: row.record.accuracy.budget_used if row.record.accuracy else None,
}
"""The values of ``--sort`` beside ``name``: the greatest first."""


def arrange(rows: Sequence[CellRow], sort: str | None, only: Collection[str]) -> list[CellRow]:
    """Returns the rows of any of the kinds `only`, or all of them, sorted.

    Args:
        rows: The rows.
        sort: A key of `SORTS`, or None or `name` for the order of tables. Rows without the value come last.
        only: Keys of `KINDS`.
    """
    chosen = sorted((row for row in rows if not only or any(KINDS[kind](row) for kind in only)), key=_name)
    if sort is None or sort == "name":
        return chosen
    return sorted(chosen, key=lambda row: _descending(SORTS[sort](row)))


def _name(row: CellRow) -> tuple[object, ...]:
    cell = row.cell
    what = cell.operator, cell.operator_version, cell.mode, dtype_order(cell.dtype), cell.size, cell.params_text
    return (*what, cell.backend != BASELINE, cell.backend)


def _descending(value: float | None) -> float:
    return math.inf if value is None or math.isnan(value) else -value
