"""Names the facts of a CUDA device, the size of its cache above all."""

from __future__ import annotations

import ctypes
import functools
import uuid
from typing import Any

import jax

from suites.bench.device_state import DeviceManagement, device_management

COLD_FROM_L2 = 5
"""A working set this many times as large as the second-level cache finds nothing there from the call before."""

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
def management_of(device: jax.Device) -> DeviceManagement | None:
    """Returns what reads the state of a CUDA device; None if NVML does not know it, or is not installed."""
    return device_management(facts(device.local_hardware_id).get("uuid"))


@functools.cache
def among_several(device: jax.Device) -> str | None:
    """Returns the identity of a CUDA device; None if this process sees no other."""
    is_alone = len(jax.local_devices(backend="cuda")) < 2
    return None if is_alone else facts(device.local_hardware_id).get("uuid", str(device))


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
