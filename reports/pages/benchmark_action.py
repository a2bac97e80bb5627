"""Writes the times of a run as the JSON that github-action-benchmark reads (`customSmallerIsBetter`)."""

from collections.abc import Iterable

import pandas as pd

from reports.errors import ReportError
from reports.pages.rows import cell_rows
from reports.records.record import Record
from reports.render.visible import visible


def benchmark_frame(records: Iterable[Record]) -> pd.DataFrame:
    """Returns one row per timed cell, whose columns are the keys of an entry of that format.

    `name` is the cell with its parameters, `value` the median time of a call in ns, `range` half the distance from the
    fastest to the slowest process, and `extra` the number of processes, the device and the run.

    Args:
        records: The records of one run.

    Raises:
        ReportError: The run has no time.
    """
    entries = []
    for row in cell_rows(records):
        if row.timing is None:
            continue
        variant = "".join(f" {name}={value}" for name, value in sorted(row.cell.params.items()))
        half = (row.timing.high_ns - row.timing.low_ns) / 2
        note = f"{len(row.timing.processes)} processes, {row.run.device.kind}, run {row.run.run_id}"
        entries.append(
            {
                "name": visible(f"{row.cell.id}{variant}"),
                "unit": "ns/call",
                "value": row.timing.median_ns,
                "range": f"± {half:.3g}",
                "extra": visible(note if row.ratio is None else f"{note}, {row.ratio:.3g} times the time of jnp"),
            }
        )
    if not entries:
        raise ReportError("this run has no times. Take a run of bench.")
    return pd.DataFrame(entries)
