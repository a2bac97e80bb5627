"""Compares the time of a cell with what the device can do, which it measures when it is needed first."""

from __future__ import annotations

from suites.bench import gpu_roofs
from suites.bench.bandwidth import Roof, roof
from suites.bench.plausible import implausible
from suites.bench.timed_cell import TimedCell
from suites.bench.work_roofs import WorkRoof, arithmetic_roof, gather_roof, limiting


def compare_with_limits(cell: TimedCell) -> None:
    """Adds the bandwidth that this device reaches with the data of a cell; takes away a time that cannot be true."""
    timing = cell.result.timing
    if timing is None or cell.moved is None:
        return
    platform = cell.case.platform
    reached = sum(cell.moved) / (1e-9 * timing.median_ns)
    limit = roof(*cell.moved, reached=reached) if platform == "cpu" else gpu_roofs.roof(*cell.moved, timing.cache)
    cell.note(bandwidth_limit=limit.bandwidth, bandwidth_limit_kind=limit.kind)
    if platform == "cuda":
        least = limiting(_roofs(cell, limit))
        cell.note(roof_ns=1e9 * least.seconds, roof_kind=least.kind)
    reason = implausible(platform, timing, cell.moved, cell.result.flops, limit)
    if reason is not None:
        cell.without_time(reason)


def _roofs(cell: TimedCell, bandwidth: Roof) -> list[WorkRoof]:
    """The times that each kind of work of a call takes at least."""
    assert cell.moved is not None
    found = [WorkRoof(sum(cell.moved) / bandwidth.bandwidth, bandwidth.kind)]
    arithmetic = arithmetic_roof(cell.result.flops or 0, cell.case.dtype)
    if arithmetic is not None:
        found.append(arithmetic)
    if cell.gathers is not None:
        found.append(gather_roof(*cell.gathers))
    return found
