"""Compares the time of a cell with the limits of the device, and refuses times that no kernel can reach.

With such a time the kernel did not do its work while it was timed, or its declared work is wrong, or somebody moved the
clock. It never appears in a table.
"""

from __future__ import annotations

from reports import Timing
from suites.timing import gpu_roofs
from suites.timing.bandwidth import Roof, roof
from suites.timing.gpu_roofs import WorkRoof, arithmetic_roof, product_roof
from suites.timing.kernel_facts import multiplied_matrices
from suites.timing.timed_cell import TimedCell

MOST_SHARE = 4.0
"""The largest bandwidth of a kernel, in bandwidths of a copy of its size. Reads alone may be twice as fast, and other
programs may slow the copies down. A kernel that skips its work is far beyond.
"""


def implausible(timing: Timing, moved: tuple[int, int], limit: Roof | None) -> str | None:
    """Returns why a time cannot be true, in one line; None if it can.

    Args:
        timing: The time.
        moved: Bytes that a call must read, and bytes that it must write.
        limit: The bandwidth measured for this working set; None if unknown.
    """
    rate = sum(moved) / (1e-9 * timing.median_ns)
    if limit is not None and rate > MOST_SHARE * limit.bandwidth:
        return (
            f"{rate / 1e9:.3g} GB/s is faster than the memory of this device ({limit.kind}: "
            f"{limit.bandwidth / 1e9:.3g} GB/s), so the kernel did not do all of its work. If it needs fewer bytes, "
            "declare its bytes_read and bytes_written"
        )
    return None


def compare_with_limits(cell: TimedCell) -> None:
    """Adds the bandwidth of the device and the roof to the result of a cell; removes a time that cannot be true."""
    timing = cell.result.timing
    if timing is None or cell.moved is None:
        return
    platform = cell.case.platform
    limit = _limit(cell, timing)
    if limit is not None:
        cell.note(bandwidth_limit=limit.bandwidth, bandwidth_limit_kind=limit.kind)
    if platform == "cuda" and limit is not None:
        memory = WorkRoof(sum(cell.moved) / limit.bandwidth, limit.kind)
        multiplied, flops = multiplied_matrices(cell.case), cell.result.flops or 0
        work = product_roof(flops, multiplied) if multiplied else arithmetic_roof(flops, cell.case.dtype)
        # No kernel that does all of the work is faster than the longer time, unless it multiplies faster than cuBLAS.
        least = max(memory, work or memory, key=lambda each: each.seconds)
        cell.note(roof_ns=1e9 * least.seconds, roof_kind=least.kind)
    reason = implausible(timing, cell.moved, limit)
    if reason is not None:
        cell.without_time(reason)


def _limit(cell: TimedCell, timing: Timing) -> Roof | None:
    assert cell.moved is not None
    if cell.case.platform == "cuda":
        return gpu_roofs.roof(*cell.moved, timing.cache)
    return roof(*cell.moved, reached=sum(cell.moved) / (1e-9 * timing.median_ns))
