"""Names the facts of a CUDA device, the size of its cache above all, and times calls on it.

Device time comes from CUPTI, NVIDIA's profiling interface, through the profiler that JAX ships for Mosaic. It is the
sum of the times of all kernels of a call, without the gaps between them and without launch costs, which
:mod:`suites.dispatch` measures. If CUPTI does not work, the wall clock times calls, and the recorded method says so.
"""

from __future__ import annotations

import ctypes
import functools
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from suites.bench.device_state import device_management

COLD_FROM_L2 = 5
"""A working set this many times as large as the second-level cache finds nothing there from the call before."""

BATCH = 30
"""Calls measured at a time."""

_LARGE_BYTES = 1 << 29
_ATTRIBUTE_L2_BYTES = 38  # CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE
_DEFAULT_L2_BYTES = 50 << 20


def facts(ordinal: int) -> dict[str, Any]:
    """Returns the fields of :class:`reports.Device` that identify the GPU; unknown ones are left out."""
    found: dict[str, Any] = {}
    driver = _driver()
    if driver is not None:
        device, value, total = ctypes.c_int(), ctypes.c_int(), ctypes.c_size_t()
        identity = (ctypes.c_ubyte * 16)()
        if driver.cuInit(0) == 0 and driver.cuDeviceGet(ctypes.byref(device), ordinal) == 0:
            if driver.cuDeviceGetAttribute(ctypes.byref(value), _ATTRIBUTE_L2_BYTES, device) == 0:
                found["l2_bytes"] = value.value
            if driver.cuDeviceTotalMem_v2(ctypes.byref(total), device) == 0:
                found["memory_bytes"] = total.value
            if driver.cuDeviceGetUuid_v2(ctypes.byref(identity), device) == 0:
                found["uuid"] = f"GPU-{uuid.UUID(bytes=bytes(identity))}"
        if driver.cuDriverGetVersion(ctypes.byref(value)) == 0:
            found["cuda"] = f"{value.value // 1000}.{value.value % 1000 // 10}"
    return found | _management_facts(found.get("uuid"))


def _driver() -> Any:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None


def _management_facts(identity: str | None) -> dict[str, Any]:
    """Returns driver version and clock from NVML, if its Python package is installed."""
    management = device_management(identity)
    if management is None:
        return {}
    clock = management.state().clock_mhz
    found = {"driver": management.driver(), "sm_clock_mhz": None if clock is None else int(clock)}
    return {name: value for name, value in found.items() if value is not None}


@functools.cache
def l2_bytes() -> int:
    """Returns the size of the second-level cache."""
    return int(facts(jax.devices("cuda")[0].local_hardware_id).get("l2_bytes", _DEFAULT_L2_BYTES))


def is_cold(working_set_bytes: int) -> bool:
    """Tells whether a call starts with nothing of its working set in the cache."""
    return working_set_bytes >= COLD_FROM_L2 * l2_bytes()


def cache_states(read_bytes: int, written_bytes: int) -> tuple[str, ...]:
    """Returns the states of the cache in which a cell is timed, each as a cell of its own.

    Args:
        read_bytes: Bytes that a call reads.
        written_bytes: Bytes that it writes.

    Returns:
        ``("hot", "cold")``; ``("cold",)`` if a call finds nothing of the call before in the cache anyway.
    """
    return ("cold",) if is_cold(read_bytes + written_bytes) else ("hot", "cold")


def batch_size(output_bytes: int) -> int:
    """Returns how many calls to measure at a time; their outputs all stay alive until the last call ends."""
    return BATCH if output_bytes <= _LARGE_BYTES else BATCH // 3


@functools.cache
def method() -> str:
    """Returns ``cupti`` if that works here, else ``wall``."""
    x = jnp.ones(1 << 20, jnp.float32)
    try:
        return "cupti" if all(cupti_seconds(jax.jit(lambda x: x + 1), [x], 3)) else "wall"
    except Exception:  # for example no library, no permission, or another profiler
        return "wall"


def cupti_seconds(function: Callable[..., Any], arguments: Sequence[Any], calls: int) -> list[float]:
    """Returns the seconds that the device works on each of a number of calls.

    Args:
        function: A ``jax.jit`` function.
        arguments: Its arguments, on the device.
        calls: How many calls to measure, after one that is not.

    Raises:
        RuntimeError: No kernel ran, or not the same ones in each call.
    """
    from jax.experimental.mosaic.gpu import profiler

    _, times_ms = profiler.measure(function, iterations=calls)(*arguments)
    if times_ms is None:
        raise RuntimeError("CUPTI saw no kernel")
    return [1e-3 * ms for ms in (times_ms if isinstance(times_ms, list) else [times_ms])]


def wall_seconds(function: Callable[..., Any], arguments: Sequence[Any], calls: int) -> list[float]:
    """Returns the seconds from each call to the end of its work, by the wall clock."""
    jax.block_until_ready(function(*arguments))
    seconds = []
    for _ in range(calls):
        start = time.perf_counter()
        jax.block_until_ready(function(*arguments))
        seconds.append(time.perf_counter() - start)
    return seconds
