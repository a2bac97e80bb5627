"""Writes the values of a cell as the texts of a table."""

import math
from collections.abc import Callable

from reports.pages.rows import CellRow
from reports.records.measurements import Resources, Timing
from reports.render.layout import Style, Text
from reports.render.units import (
    ABSENT,
    TIED,
    bytes_text,
    energy_text,
    interval_text,
    percent_text,
    ratio_text,
    time_range_text,
    time_text,
    ulp_text,
)
from reports.statistics.verdict_codes import SMALLEST


def median_text(row: CellRow) -> Text:
    """Returns the median time of a cell."""
    return Text(time_text(row.timing.median_ns if row.timing else None))


def spread_text(row: CellRow) -> Text:
    """Returns the least and the greatest median of a process, in the unit of the time of the cell."""
    return Text(time_range_text(row.timing.low_ns, row.timing.high_ns, row.timing.median_ns) if row.timing else ABSENT)


def ratio_to_baseline_text(row: CellRow) -> Text:
    """Returns the ratio to the baseline, marked if the two cannot be told apart."""
    found = row.compared
    if found is None or found.low is None:
        return Text(ratio_text(row.ratio))
    return Text((TIED if found.is_tie(SMALLEST[row.cell.platform]) else "") + ratio_text(found.value))


def ratio_interval_text(row: CellRow) -> Text:
    """Returns the 95 % interval of the ratio to the baseline."""
    return Text(interval_text(row.compared.low, row.compared.high) if row.compared else ABSENT)


def time_of(read: Callable[[Timing], float | None]) -> Callable[[CellRow], Text]:
    """Returns a writer of another time of a cell, which `read` takes from its times; one below zero is shown as 0."""

    def text(row: CellRow) -> Text:
        found = read(row.timing) if row.timing else None
        return Text("0 ns" if found is not None and found <= 0 else time_text(found))

    return text


def bytes_of(read: Callable[[Resources], float | None]) -> Callable[[CellRow], Text]:
    """Returns a writer of the bytes that `read` takes from what a call needs."""
    return lambda row: Text(bytes_text(read(row.record.resources) if row.record.resources else None))


def energy_of_call_text(row: CellRow) -> Text:
    """Returns the energy of a call."""
    return Text(energy_text(row.record.resources.energy_j if row.record.resources else None))


def share_text(share: float | None, limit: float, failed: bool = False) -> Text:
    """Returns a share in percent, marked if it is above a limit or belongs to a failed cell."""
    if share is None or math.isnan(share):
        return Text("nan!" if failed and share is not None else ABSENT, Style.BAD if failed else Style.PLAIN)
    over = share > limit
    return Text(percent_text(share) + ("!" if over else ""), Style.BAD if over or failed else Style.PLAIN)


def budget_text(row: CellRow) -> Text:
    """Returns the share of the error budget that a cell used."""
    # A cell can fail for another reason than its budget. Its number must not look like a success.
    used = row.record.accuracy.budget_used if row.record.accuracy else None
    return share_text(used, 1.0, failed=row.status.failed)


def reference_budget_text(row: CellRow) -> Text:
    """Returns the share of the error budget that `jnp` used on the inputs of a cell."""
    return share_text(row.record.accuracy.reference_budget_used if row.record.accuracy else None, 1.0)


def distance_text(row: CellRow) -> Text:
    """Returns the largest distance of a result from the truth."""
    return Text(ulp_text(row.record.accuracy.max_ulp if row.record.accuracy else None))
