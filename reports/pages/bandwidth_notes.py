"""Writes the notes that compare bandwidths with the bandwidth measured in the same run."""

from collections import defaultdict
from collections.abc import Sequence

from reports.pages.phrases import cells_text, ids_text
from reports.pages.rows import CellRow
from reports.render.units import rate_text

OVER = 1.05
"""A larger share of the measured bandwidth is marked. 5 % is room for the noise of that measurement."""


def roofs_text(rows: Sequence[CellRow]) -> str:
    """Returns the bandwidths that cells are compared with, such as `copy, memory 9 GB/s (2 cells); read, ...`."""
    rates: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        limit, kind = row.record.bandwidth_limit, row.record.bandwidth_limit_kind
        if row.record.bandwidth is not None and limit is not None and kind is not None:
            rates[kind].append(limit)
    texts = []
    for kind in sorted(rates):
        # A resumed run measures again.
        ends = dict.fromkeys(rate_text(end(rates[kind]), "B/s") for end in (min, max))
        cells = f" ({cells_text(len(rates[kind]))})" if len(rates) > 1 else ""
        texts.append(f"{kind} {' to '.join(ends)}{cells}")
    return "; ".join(texts)


def limits_text(rows: Sequence[CellRow]) -> str:
    """Returns what limits the cells, such as `scattered reads of 4 bytes (95 G/s): csr_matvec; copy, memory: add`."""
    limited: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        if row.record.roof_share is not None:
            limited[str(row.record.roof_kind)].add(row.cell.operator)
    return "; ".join(f"{kind}: {', '.join(sorted(limited[kind]))}" for kind in sorted(limited))


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
            f"! {ids_text(warm)} above the measured bandwidth, caches hot: data that never left a cache,"
            " or a bug in the harness or the declared bytes"
        )
    return notes


def is_impossible(row: CellRow) -> bool:
    """Returns whether a time claims more bandwidth than memory has. With hot caches, a cache can give it."""
    return _is_over(row) and row.timing is not None and row.timing.cache != "hot"


def _is_over(row: CellRow) -> bool:
    return (row.record.bandwidth_share or 0) > OVER
