"""Measures what a call needs on a GPU beside time: memory and energy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from reports import Resources
from suites.bench import gpu, two_clocks

BURST_S = 0.3
"""Seconds of back-to-back calls over which energy is measured, at least."""

BUSY = 0.8
"""Least share of a burst in which the device must work for the energy to be the calls'."""

_MOST_S = 3.0
_CHUNK_S = 0.005
_MOST_IN_FLIGHT = 16


def resources(
    function: Any, arguments: Sequence[jax.Array], *, burst_s: float = BURST_S, work_s: float | None = None
) -> Resources:
    """Measures one call.

    Memory is what XLA plans (results and temporary arrays), or what its allocator gave out at the peak of a call, if
    that is more: a library may ask for memory while it runs. Memory that a kernel takes from CUDA itself is not seen.

    Energy is what the whole device takes over a burst of calls, divided by their number. So it holds a share of what
    the device takes while it is idle. Where calls are too short to keep the device busy, that is most of it, and says
    little of the call: then there is no energy.

    Args:
        function: A ``jax.jit`` function or a compiled program.
        arguments: Its arguments, on the device.
        burst_s: Seconds of the burst; 0 to measure no energy.
        work_s: How long the device works on a call, in seconds; None if unknown: then it counts as busy.

    Returns:
        ``device_bytes`` and ``energy_j``; None where the device does not tell.

    Raises:
        Exception: The function does not compile, or fails.
    """
    program = function.lower(*arguments).compile() if hasattr(function, "lower") else function
    device = next(iter(arguments[0].devices())) if arguments else jax.devices()[0]
    planned = planned_bytes(program)
    grown = _grown_bytes(lambda: program(*arguments), device)
    known = [size for size in (planned, grown) if size is not None]
    return Resources(
        device_bytes=max(known) if known else None,
        energy_j=_energy_j(program, arguments, device, burst_s, work_s) if burst_s > 0 else None,
    )


def planned_bytes(program: Any) -> int | None:
    """Returns the bytes that XLA plans for the results and temporary arrays of a compiled program; None if unknown.

    A result in the memory of a donated input takes none of its own.
    """
    plan = program.memory_analysis()
    if plan is None:
        return None
    return max(0, int(plan.temp_size_in_bytes + plan.output_size_in_bytes - plan.alias_size_in_bytes))


def _grown_bytes(call: Callable[[], Any], device: jax.Device) -> int | None:
    """What the allocator gave out at the peak of a call; None if it has given out more before, or does not count."""
    before = device.memory_stats() or {}
    jax.block_until_ready(call())
    after = device.memory_stats() or {}
    names = ("bytes_in_use", "peak_bytes_in_use")
    if not all(name in stats for name in names for stats in (before, after)):
        return None
    # The peak belongs to the whole process.
    return int(after["peak_bytes_in_use"] - before["bytes_in_use"]) if _is_new_peak(before, after) else None


def _is_new_peak(before: dict[str, int], after: dict[str, int]) -> bool:
    return after["peak_bytes_in_use"] > before["peak_bytes_in_use"]


def _energy_j(
    program: Any, arguments: Sequence[jax.Array], device: jax.Device, burst_s: float, work_s: float | None
) -> float | None:
    """Energy of a call, from one tick of the counter to another: it moves only every 20 to 100 ms."""
    management = gpu.management_of(device)
    if management is None:
        return None
    return energy_per_call(lambda: program(*arguments), management.energy_j, two_clocks.wall, burst_s, work_s)


def energy_per_call(
    call: Callable[[], Any],
    read_j: Callable[[], float | None],
    now: Callable[[], float],
    burst_s: float,
    work_s: float | None = None,
) -> float | None:
    """Returns the energy of one of many calls in a row.

    It is None if the counter is not there or hardly moves, and if the calls keep the device busy for less than
    :data:`BUSY` of the burst.

    Both ends of the burst are ticks of the counter, so that it does not matter how coarse it is.

    Args:
        call: Starts a call, and returns arrays that are ready when it has ended.
        read_j: Reads the counter, in joules.
        now: Reads a clock, in seconds.
        burst_s: How long the burst is, at least.
        work_s: How long the device works on a call; None if unknown.
    """
    start = now()
    jax.block_until_ready(call())
    chunk = max(1, min(_MOST_IN_FLIGHT, round(_CHUNK_S / max(now() - start, 1e-6))))
    calls = 0

    def until_tick(least_s: float) -> float | None:
        """Calls for some time, and then until the counter moves; returns what it reads then."""
        nonlocal calls
        begin = now()
        last = read_j()
        while last is not None and now() - begin < least_s + _MOST_S:
            result = None
            for _ in range(chunk):
                result = None  # frees the memory of the results, for the next ones
                result = call()
            jax.block_until_ready(result)
            calls += chunk
            read = read_j()
            if read is not None and read > last and now() - begin >= least_s:
                return read
            last = read
        return None

    first = until_tick(0.0)
    if first is None:
        return None
    calls = 0
    begin = now()
    last = until_tick(burst_s)
    is_busy = work_s is None or calls * work_s >= BUSY * (now() - begin)
    return (last - first) / calls if last is not None and is_busy else None
