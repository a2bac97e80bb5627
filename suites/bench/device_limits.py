"""Compares the time of a cell with the bandwidth of the device, which it measures when it is needed first."""

from __future__ import annotations

from suites.bench import gpu_roofs
from suites.bench.bandwidth import roof
from suites.bench.plausible import implausible
from suites.bench.timed_cell import TimedCell


def compare_with_limits(cell: TimedCell) -> None:
    """Adds the bandwidth that this device reaches with the data of a cell; takes away a time that cannot be true."""
    timing = cell.result.timing
    if timing is None or cell.moved is None:
        return
    platform = cell.case.platform
    reached = sum(cell.moved) / (1e-9 * timing.median_ns)
    limit = roof(*cell.moved, reached=reached) if platform == "cpu" else gpu_roofs.roof(*cell.moved, timing.cache)
    cell.note(bandwidth_limit=limit.bandwidth, bandwidth_limit_kind=limit.kind)
    reason = implausible(platform, timing, cell.moved, cell.result.flops, limit)
    if reason is not None:
        cell.without_time(reason)
