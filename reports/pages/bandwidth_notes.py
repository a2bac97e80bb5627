"""Writes the notes that compare bandwidths with the bandwidth measured in the same run."""

from collections.abc import Sequence

from reports.pages.phrases import ids_text
from reports.pages.rows import CellRow

OVER = 1.05
"""A larger share of the measured bandwidth is marked. 5 % is room for the noise of that measurement."""


def overrun_notes(rows: Sequence[CellRow]) -> list[str]:
    """Returns warnings about cells above the measured bandwidth."""
    notes = []
    over = [row for row in rows if _is_over(row)]
    warm = [row.cell.id for row in over if not is_impossible(row)]
    cold = [row.cell.id for row in over if is_impossible(row)]
    if cold:
        notes.append(
            f"! {ids_text(cold)} above the measured bandwidth: a bug in the harness or the declared"
            " bytes; none of them is called fastest"
        )
    if warm:
        notes.append(
            f"! {ids_text(warm)} above the measured bandwidth, caches hot: data that stayed in a cache,"
            " or a bug in the harness or the declared bytes"
        )
    return notes


def is_impossible(row: CellRow) -> bool:
    """Tells whether a time needs more bandwidth than memory has. With hot caches it is possible."""
    return _is_over(row) and row.timing is not None and row.timing.cache != "hot"


def _is_over(row: CellRow) -> bool:
    return (row.record.bandwidth_share or 0) > OVER
