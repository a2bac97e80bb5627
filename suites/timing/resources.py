"""Measures the memory that a call needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from reports import Resources


def resources(function: Any, arguments: Sequence[jax.Array]) -> Resources:
    """Returns the memory of one call: the bytes that XLA plans for results and temporary arrays.

    A result in the memory of a donated input needs no further memory.
    On a GPU, the peak of its allocator during a call counts if it is more: a library may ask for memory while it runs.
    Memory that a kernel allocates by itself does not count.

    Args:
        function: A ``jax.jit`` function or a compiled program.
        arguments: Its arguments, on the device.

    Raises:
        Exception: The function does not compile, or fails.
    """
    program = function.lower(*arguments).compile() if hasattr(function, "lower") else function
    device = next(iter(arguments[0].devices())) if arguments else jax.devices()[0]
    plan = program.memory_analysis()
    planned = plan and max(0, plan.temp_size_in_bytes + plan.output_size_in_bytes - plan.alias_size_in_bytes)
    if device.platform == "cpu":
        return Resources(host_bytes=planned)
    sizes = [planned, _grown_bytes(lambda: program(*arguments), device)]
    return Resources(device_bytes=max((size for size in sizes if size is not None), default=None))


def _grown_bytes(call: Callable[[], Any], device: jax.Device) -> int | None:
    """Returns the bytes that a call adds to the allocator's peak; None if an earlier peak was higher, or is unknown."""
    before = device.memory_stats() or {}
    jax.block_until_ready(call())
    after = device.memory_stats() or {}
    names = ("bytes_in_use", "peak_bytes_in_use")
    if not all(name in stats for name in names for stats in (before, after)):
        return None
    is_new = after["peak_bytes_in_use"] > before["peak_bytes_in_use"]  # the peak belongs to the whole process
    return int(after["peak_bytes_in_use"] - before["bytes_in_use"]) if is_new else None
