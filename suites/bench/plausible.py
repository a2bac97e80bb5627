"""Refuses times that no kernel can have: faster than the memory or the arithmetic of the device, or than the clock.

Such a time says that the kernel did not do its work while it was timed, that its declared work is wrong, or that
somebody moved the clock. In no case does it belong into a table.
"""

from __future__ import annotations

import os
from typing import Any

from reports import Status, Timing
from suites.bench import gpu, gpu_roofs
from suites.bench.bandwidth import Roof, roof

MOST_SHARE = 2.0
"""How many times the bandwidth that was measured in the same cache a kernel may reach.

Kernels that were right have reached 0.95 times it on CPUs, which other programs may slow down while it is measured.
"""

MOST_GPU_SHARE = 1.25
"""The same on a GPU, whose bandwidth does not move; right kernels have reached 0.99 on an H200, hot and cold."""

MOST_FLOPS_PER_CORE = 64 * 8e9
"""More operations per second than a core of a CPU has: two fused operations on 16 numbers a cycle, at 8 GHz."""

LEAST_OF_ELAPSED = 0.5
"""The smallest share of the elapsed time, by another clock, that the samples must add up to."""


class ClockError(RuntimeError):
    """Two clocks disagree about how long the samples took."""


def require_elapsed(samples_s: float, elapsed_s: float) -> None:
    """Requires that samples add up to the time that passed while they were taken.

    Args:
        samples_s: The sum of all samples, in seconds.
        elapsed_s: The time from before the first to after the last, by another clock.

    Raises:
        ClockError: The samples claim less than half of it.
    """
    if samples_s < LEAST_OF_ELAPSED * elapsed_s:
        raise ClockError(
            f"the samples add up to {1e3 * samples_s:.3g} ms, but took {1e3 * elapsed_s:.3g} ms by another clock. Look "
            "for code that replaces a clock."
        )


def implausible(platform: str, timing: Timing, moved: tuple[int, int], flops: int | None, limit: Roof) -> str | None:
    """Returns why a time cannot be true, in one line, or None.

    Args:
        platform: ``cpu`` or ``cuda``.
        timing: The time.
        moved: Bytes that a call must read, and write.
        flops: Operations of a call; None if unknown.
        limit: The bandwidth measured for this working set.
    """
    seconds = 1e-9 * timing.median_ns
    rate = sum(moved) / seconds
    share = MOST_SHARE if platform == "cpu" else MOST_GPU_SHARE
    if rate > share * limit.bandwidth and platform == "cpu":  # was the machine busy when the limit was measured?
        limit = max(limit, roof(*moved, reached=rate / share))
    most = share * limit.bandwidth
    # Near the size of a cache, most of the data may lie in the nearer one.
    if rate > most and rate > MOST_SHARE * _nearer(platform, moved, limit):
        return (
            f"{rate / 1e9:.3g} GB/s is faster than the memory of this device ({limit.kind}: "
            f"{limit.bandwidth / 1e9:.3g} GB/s), so the kernel did not do the work, or does not have to: then declare "
            "its bytes_read and bytes_written"
        )
    cores = os.cpu_count() or 1
    if platform == "cpu" and flops is not None and flops / seconds > MOST_FLOPS_PER_CORE * cores:
        return (
            f"{flops / seconds:.3g} operations per second are more than {cores} cores have, so the kernel did not do "
            "the work, or its declared flops are too many"
        )
    return None


def _nearer(platform: str, moved: tuple[int, int], limit: Roof) -> float:
    """The bandwidth for half of the working set, if that lies in a nearer cache."""
    if platform != "cpu":
        read, written = moved
        cold, half_cold = gpu.is_cold(read + written), gpu.is_cold((read + written) // 2)
        return gpu_roofs.roof(read // 2, written // 2, "hot").bandwidth if cold and not half_cold else 0.0
    return max(limit.bandwidth, roof(moved[0] // 2, moved[1] // 2).bandwidth)


def fields_without_time(found: dict[str, Any], reason: str) -> dict[str, Any]:
    """Returns the fields of a record for a cell that is right, but whose time cannot be true."""
    return found | {"status": Status.UNCHECKED, "reason": reason, "timing": None}
