"""Measures a CUDA device: its facts, how long it works on a call, and its memory bandwidth.

Device time comes from CUPTI, NVIDIA's profiling interface, through the profiler that JAX ships for Mosaic. It is the
sum of the times of all kernels of a call, without the gaps between them and without launch costs, which
:mod:`suites.dispatch` measures. If CUPTI does not work, the wall clock times calls, and the recorded method says so.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import statistics
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from suites.bench.bandwidth import Roof

COLD_FROM_L2 = 5
"""A working set this many times as large as the second-level cache finds nothing there from the call before."""

BATCH = 30
"""Calls measured at a time."""

_LARGE_BYTES = 1 << 29
_COPIED_BYTES = 1 << 30
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
    try:
        pynvml: Any = importlib.import_module("pynvml")
    except ImportError:
        return {}
    try:
        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByUUID(identity) if identity else pynvml.nvmlDeviceGetHandleByIndex(0)
        return {
            "driver": str(pynvml.nvmlSystemGetDriverVersion()),
            "sm_clock_mhz": int(pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM)),
        }
    except pynvml.NVMLError:
        return {}


@functools.cache
def l2_bytes() -> int:
    """Returns the size of the second-level cache."""
    return int(facts(jax.devices("cuda")[0].local_hardware_id).get("l2_bytes", _DEFAULT_L2_BYTES))


def is_cold(working_set_bytes: int) -> bool:
    """Tells whether a call starts with nothing of its working set in the cache."""
    return working_set_bytes >= COLD_FROM_L2 * l2_bytes()


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


def roof(read_bytes: int, written_bytes: int) -> Roof:
    """Returns the roof of a call: the fastest copy, or the fastest read if hardly anything is written."""
    kind = "read" if written_bytes * 8 < read_bytes else "copy"
    level = "memory" if is_cold(read_bytes + written_bytes) else "L2 cache"
    return Roof(bandwidth(level, kind), f"{kind}, {level}")


@functools.cache
def bandwidth(level: str, kind: str) -> float:
    """Returns bytes per second: the median of :data:`BATCH` transfers; for the cache the best of several sizes.

    Args:
        level: ``memory`` or ``L2 cache``.
        kind: ``copy`` (bytes read plus bytes written) or ``read`` (at least as fast as a copy).
    """
    l2 = l2_bytes()
    sizes = [_COPIED_BYTES] if level == "memory" else [l2 // 16, l2 // 8, l2 // 4, l2 // 2]
    rates = [_rate(lambda x: x + 1, size, 2) for size in sizes]
    if kind == "read":
        rates += [_rate(reduce, size, 1) for size in sizes for reduce in (jnp.sum, jnp.max)]
    return max(rates)


def _rate(function: Callable[..., Any], size_bytes: int, transfers: int) -> float:
    x = jnp.ones(size_bytes // 4, jnp.float32)
    measure = cupti_seconds if method() == "cupti" else wall_seconds
    seconds = measure(jax.jit(function), [x], batch_size(size_bytes))
    return transfers * x.nbytes / statistics.median(seconds)
