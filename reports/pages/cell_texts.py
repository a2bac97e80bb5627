"""Writes the values of a cell as the texts of a table."""

import math

from reports.pages.rows import CellRow
from reports.render.layout import Style, Text
from reports.render.units import ABSENT, percent_text, time_range_text, time_text, ulp_text


def median_text(row: CellRow) -> Text:
    """Returns the median time of a cell."""
    return Text(time_text(row.timing.median_ns if row.timing else None))


def quantiles_text(row: CellRow) -> Text:
    """Returns the 20th and 80th percentiles of the time of a cell, in the unit of its median."""
    return Text(time_range_text(row.timing.low_ns, row.timing.high_ns, row.timing.median_ns) if row.timing else ABSENT)


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
