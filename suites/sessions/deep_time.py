"""Estimates how long the deep profile takes, so that a session can say so before it starts."""

from __future__ import annotations

from suites.cells.marks import why_skipped
from suites.cells.selection import Selection
from suites.checks.register import checks

SECONDS = {"large": 20.0, "drawn": 5.0, "sizes": 5.0, "drawn vmap": 5.0, "drawn csr": 5.0, "drawn grad": 10.0}
"""Seconds that a cell of a check takes on one core, measured with Numba kernels for the CPU."""

OTHERS = 0.5
"""Seconds of a cell of any other check."""


def expected_minutes(selection: Selection, jobs: int) -> float:
    """Returns about how many minutes the checks of a selection take with this many workers; 0 workers count as 1."""
    seconds = 0.0
    for check in checks():
        cells = check.cells.chosen(selection)
        seconds += SECONDS.get(check.name, OTHERS) * sum(why_skipped(cell.values[0]) is None for cell in cells)
    return seconds / max(jobs, 1) / 60
