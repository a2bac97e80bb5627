"""Pairs each record of a run with the baseline of its cell."""

import functools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from reports.records.cell import Cell
from reports.records.header import Run
from reports.records.measurements import Timing
from reports.records.record import Record, last_by_cell
from reports.records.status import Status
from reports.statistics.intervals import Ratio, ratio_of
from reports.statistics.means import GeometricMean, geometric_mean

BASELINE = "jnp"
"""The backend that ratios refer to: the code of XLA itself."""


@dataclass(frozen=True, eq=False)
class CellRow:
    """One cell of a run, as tables and frames show it.

    Attributes:
        record: The record of the cell.
        baseline: The record of the baseline; None if there is none.
    """

    record: Record
    baseline: Record | None

    @functools.cached_property
    def compared(self) -> Ratio | None:
        """The time of the cell divided by the time of the baseline, process by process: above 1 is slower.

        None where there is nothing to compare with.
        """
        own, base = self.timing, self.baseline and self.baseline.timing
        return ratio_of(own.medians_ns, base.medians_ns) if own and base and not self.doubt else None

    @functools.cached_property
    def doubt(self) -> str | None:
        """Why there is no ratio, though the cell and its baseline have a time."""
        own, base = self.timing, self.baseline and self.baseline.timing
        return _doubt(self.record, own, self.baseline, base) if own and base and self.baseline else None

    @property
    def ratio(self) -> float | None:
        """The ratio to the baseline, without its interval."""
        return self.compared.value if self.compared else None

    @property
    def cell(self) -> Cell:
        """The cell."""
        return self.record.cell

    @property
    def run(self) -> Run:
        """The header of its run."""
        return self.record.run

    @property
    def status(self) -> Status:
        """How the cell ended."""
        return self.record.status

    @property
    def library(self) -> str | None:
        """The library that the cell called, with its version; None for a kernel and for the code of XLA."""
        return self.run.peers.get(self.cell.backend)

    @property
    def timing(self) -> Timing | None:
        """Its times, if it passed and was timed."""
        return self.record.timing


def cell_rows(records: Iterable[Record]) -> list[CellRow]:
    """Returns one row per run and cell, in the order recorded. The last record of a cell counts.

    The baseline of a cell is the cell of the backend `BASELINE` in the same run, with the same operator, version, mode,
    platform, dtype, size, parameters, shapes and seed, timed by the same method with the same state of the caches. Both
    must be steady, see `Timing.is_steady`.
    """
    latest = last_by_cell(records)
    keys = [(record.run.run_id, *record.cell.group_key) for record in latest]
    baselines = {key: one for key, one in zip(keys, latest, strict=True) if one.cell.backend == BASELINE}
    return [CellRow(one, baselines.get(key) if one.timing else None) for key, one in zip(keys, latest, strict=True)]


def mean_ratio(rows: Iterable[CellRow]) -> GeometricMean:
    """Returns the geometric mean of the ratios of kernels to the baseline."""
    pairs = [(row.compared, row.run.run_id) for row in rows if row.compared and row.cell.backend != BASELINE]
    return geometric_mean([ratio for ratio, _ in pairs], [session for _, session in pairs])


def shared_rows(rows: Sequence[CellRow]) -> list[CellRow]:
    """Returns the cells over which the means of backends can be compared: at least two backends have a ratio.

    Where there is only one backend beside the baseline, these are all cells.
    """
    timed = [row for row in rows if row.compared and row.cell.backend != BASELINE]
    counts = Counter(row.cell.group_key for row in timed)
    is_alone = len({row.cell.backend for row in timed}) < 2
    return [row for row in timed if is_alone or counts[row.cell.group_key] > 1]


def by_run_and_platform(rows: Iterable[CellRow]) -> list[list[CellRow]]:
    """Returns the rows of each run and platform, sorted by these two."""
    parts: dict[tuple[str, str], list[CellRow]] = {}
    for row in rows:
        parts.setdefault((row.run.run_id, row.cell.platform), []).append(row)
    return [parts[key] for key in sorted(parts)]


def backends_of(rows: Sequence[CellRow]) -> list[str]:
    """Returns the names of the backends, the baseline first, the others sorted."""
    return sorted({row.cell.backend for row in rows}, key=lambda backend: (backend != BASELINE, backend))


def _doubt(record: Record, timing: Timing, other: Record, base: Timing) -> str | None:
    """Returns why two times have no ratio; None if they have one."""
    if (record.shapes, record.seed) != (other.shapes, other.seed):
        return f"{BASELINE} had other inputs"
    if timing.method != base.method:
        return f"timed by {timing.method}, {BASELINE} by {base.method}"
    if timing.cache != base.cache:
        return f"caches {timing.cache}, for {BASELINE} {base.cache}"
    unsteady = [who for who, own in (("the kernel", timing), (BASELINE, base)) if not own.is_steady]
    if unsteady:
        return f"the program around the calls takes most of the time of {' and '.join(unsteady)}"
    return None
