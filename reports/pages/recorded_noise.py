"""Takes the noise between processes from recorded runs, for simulated comparisons."""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from reports.errors import ReportError
from reports.records.cell import CellKey
from reports.records.record import Record, last_by_cell
from reports.statistics.calibration import RecordedNoise

LEAST = 4
"""Fewer processes tell too little of how processes differ."""


def recorded_noise(runs: Mapping[str, Sequence[Record]]) -> RecordedNoise:
    """Returns the noise of the cells that all runs timed steadily, in as many processes as most cells of the run.

    Args:
        runs: The records of each run, by its name.

    Raises:
        ReportError: A run has too few processes, or the runs have no cell, or several platforms.
    """
    times = {name: _times(name, records) for name, records in runs.items()}
    platforms = {record.cell.platform for records in runs.values() for record in records}
    if len(platforms) > 1:
        raise ReportError(f"the runs are of {' and '.join(sorted(platforms))}: calibrate each platform alone.")
    common = [key for key in next(iter(times.values())) if all(key in own for own in times.values())]
    if not common:
        raise ReportError(f"{' and '.join(runs)} have no cell in common that all of them timed. Calibrate each alone.")
    return RecordedNoise(tuple(np.log(np.array([own[key] for key in common])) for own in times.values()))


def _times(name: str, records: Sequence[Record]) -> dict[CellKey, list[float]]:
    timed = {
        record.cell.key: record.timing.medians_ns
        for record in last_by_cell(records)
        if record.timing and record.timing.is_steady
    }
    if not timed:
        raise ReportError(f"{name} has no cell with steady times. Pass a run of `bench`.")
    count = Counter(map(len, timed.values())).most_common(1)[0][0]
    if count < LEAST:
        raise ReportError(
            f"{name} timed its cells in {count} process{'' if count == 1 else 'es'}; expected at least {LEAST}."
            " Time them again in more processes."
        )
    return {key: own for key, own in timed.items() if len(own) == count}
