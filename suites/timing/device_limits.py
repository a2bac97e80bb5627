"""Compares the time of a cell with what the device can do, and refuses times that no kernel can have.

Such a time says that the kernel did not do its work while it was timed, that its declared work is wrong, or that
somebody moved the clock. In no case does it belong into a table.
"""

from __future__ import annotations

from reports import Timing
from suites.timing import gpu_roofs
from suites.timing.bandwidth import Roof, roof
from suites.timing.gpu_roofs import WorkRoof, arithmetic_roof, gather_roof, limiting
from suites.timing.timed_cell import TimedCell

MOST_SHARE = 4.0
"""How many times the bandwidth of a copy of its size a kernel may reach: reads alone may be twice as fast, and other
programs may slow the copies down. A kernel that skips its work is far beyond.
"""


def implausible(timing: Timing, moved: tuple[int, int], limit: Roof | None) -> str | None:
    """Returns why a time cannot be true, in one line, or None.

    Args:
        timing: The time.
        moved: Bytes that a call must read, and write.
        limit: The bandwidth measured for this working set; None if unknown.
    """
    rate = sum(moved) / (1e-9 * timing.median_ns)
    if limit is not None and rate > MOST_SHARE * limit.bandwidth:
        return (
            f"{rate / 1e9:.3g} GB/s is faster than the memory of this device ({limit.kind}: "
            f"{limit.bandwidth / 1e9:.3g} GB/s), so the kernel did not do the work, or does not have to: then declare "
            "its bytes_read and bytes_written"
        )
    return None


def compare_with_limits(cell: TimedCell) -> None:
    """Adds the bandwidth that this device reaches with the data of a cell; takes away a time that cannot be true."""
    timing = cell.result.timing
    if timing is None or cell.moved is None:
        return
    platform = cell.case.platform
    limit = _limit(cell, timing)
    if limit is not None:
        cell.note(bandwidth_limit=limit.bandwidth, bandwidth_limit_kind=limit.kind)
    if platform == "cuda" and limit is not None:
        least = limiting(_roofs(cell, limit))
        cell.note(roof_ns=1e9 * least.seconds, roof_kind=least.kind)
    reason = implausible(timing, cell.moved, limit)
    if reason is not None:
        cell.without_time(reason)


def _limit(cell: TimedCell, timing: Timing) -> Roof | None:
    assert cell.moved is not None
    if cell.case.platform == "cuda":
        return gpu_roofs.roof(*cell.moved, timing.cache)
    return roof(*cell.moved, reached=sum(cell.moved) / (1e-9 * timing.median_ns))


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
