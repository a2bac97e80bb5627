"""Reads the facts of a CUDA device, such as the size of its cache, and its state: clocks, heat and power."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
import os
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax

COLD_FROM_L2 = 5
"""If the working set is this many times as large as the second-level cache, a call finds none of its data there."""

_ATTRIBUTE_L2_BYTES = 38  # CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE
_DEFAULT_L2_BYTES = 50 << 20


def facts(ordinal: int) -> dict[str, Any]:
    """Returns the fields of :class:`reports.Device` that identify the GPU; unknown ones are left out."""
    device_facts: dict[str, Any] = {}
    driver = _driver()
    if driver is not None:
        device, value, total = ctypes.c_int(), ctypes.c_int(), ctypes.c_size_t()
        identity = (ctypes.c_ubyte * 16)()
        if driver.cuInit(0) == 0 and driver.cuDeviceGet(ctypes.byref(device), ordinal) == 0:
            if driver.cuDeviceGetAttribute(ctypes.byref(value), _ATTRIBUTE_L2_BYTES, device) == 0:
                device_facts["l2_bytes"] = value.value
            if driver.cuDeviceTotalMem_v2(ctypes.byref(total), device) == 0:
                device_facts["memory_bytes"] = total.value
            if driver.cuDeviceGetUuid_v2(ctypes.byref(identity), device) == 0:
                device_facts["uuid"] = f"GPU-{uuid.UUID(bytes=bytes(identity))}"
        if driver.cuDriverGetVersion(ctypes.byref(value)) == 0:
            device_facts["cuda"] = f"{value.value // 1000}.{value.value % 1000 // 10}"
    return device_facts | _management_facts(device_facts.get("uuid"))


def _driver() -> Any:
    with contextlib.suppress(OSError):
        return ctypes.CDLL("libcuda.so.1")
    return None


def _management_facts(identity: str | None) -> dict[str, Any]:
    """Returns driver version and clock from NVML, if its Python package is installed."""
    management = device_management(identity)
    if management is None:
        return {}
    clock, reasons = management.state()
    entries = {
        "driver": management.driver(), "sm_clock_mhz": None if clock is None else int(clock),
        "other_processes": management.other_processes(), "is_slowed": bool(reasons & SLOWDOWN),
    }  # fmt: skip
    return {name: value for name, value in entries.items() if value is not None}


@functools.cache
def management_of(device: jax.Device) -> DeviceManagement | None:
    """Returns the reader of the state of a CUDA device; None if NVML does not know it, or is not installed."""
    return device_management(facts(device.local_hardware_id).get("uuid"))


@functools.cache
def l2_bytes() -> int:
    """Returns the size of the second-level cache."""
    return int(facts(jax.devices("cuda")[0].local_hardware_id).get("l2_bytes", _DEFAULT_L2_BYTES))


POWER_CAP = 0x4
"""The driver holds the clock down to stay below the power limit (nvmlClocksEventReasonSwPowerCap in nvml.h)."""

SLOWDOWN = 0x8 | 0x20 | 0x40 | 0x80
"""The device slows down: by hardware, by heat as the driver or the hardware sees it, by an external power brake."""

LOW_CLOCK = 0.97
"""A clock below this share of the highest one seen is low."""


class DeviceState(NamedTuple):
    """State of a GPU at one moment.

    Attributes:
        clock_mhz: Clock of the multiprocessors; None if it cannot be read.
        reasons: Why the clock is not higher, as bits of NVML; 0 if that cannot be read.
    """

    clock_mhz: float | None
    reasons: int


NOTHING_KNOWN = DeviceState(None, 0)


class DeviceManagement:
    """Reads the state of one GPU, and remembers its highest clock.

    Attributes:
        top_mhz: The highest clock so far.
        is_awake: Whether the GPU has worked long enough to raise its clock; the code that makes it work sets this.

    Args:
        nvml: The module ``pynvml``.
        identity: UUID of the GPU, as NVML writes it; None for the first one.

    Raises:
        nvml.NVMLError: NVML does not know the GPU.
    """

    def __init__(self, nvml: Any, identity: str | None):
        self._nvml = nvml
        nvml.nvmlInit()
        self._handle = (
            nvml.nvmlDeviceGetHandleByUUID(identity) if identity is not None else nvml.nvmlDeviceGetHandleByIndex(0)
        )
        self.top_mhz = 0.0
        self.is_awake = False

    def state(self) -> DeviceState:
        """Returns clock and reasons now."""
        nvml = self._nvml
        clock = self._read(lambda: nvml.nvmlDeviceGetClockInfo(self._handle, nvml.NVML_CLOCK_SM))
        reasons = self._read(lambda: nvml.nvmlDeviceGetCurrentClocksEventReasons(self._handle))
        self.top_mhz = max(self.top_mhz, clock or 0.0)
        return DeviceState(None if clock is None else float(clock), int(reasons or 0))

    def driver(self) -> str | None:
        """Returns the version of the driver."""
        version = self._read(self._nvml.nvmlSystemGetDriverVersion)
        return None if version is None else str(version)

    def other_processes(self) -> int | None:
        """Returns how many processes use the GPU that neither are this one, nor come from the same command.

        None if that is not known, as in a container, where the driver names processes by numbers of the host.
        """
        running = self._read(lambda: self._nvml.nvmlDeviceGetComputeRunningProcesses(self._handle))
        parents = {each.pid: _parent(each.pid) for each in running or ()}
        if running is None or None in parents.values():
            return None
        ours = {os.getpid(), os.getppid()}
        return sum(not ours & {*each} for each in parents.items())

    def _read(self, read: Callable[[], Any]) -> Any:
        with contextlib.suppress(self._nvml.NVMLError):
            return read()
        return None


def _parent(pid: int) -> int | None:
    """Returns the process that started another one; None if the system does not tell."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return None


@functools.cache
def device_management(identity: str | None) -> DeviceManagement | None:
    """Returns the management of a GPU; None without the package nvidia-ml-py, or if NVML does not know the GPU."""
    try:
        nvml: Any = importlib.import_module("pynvml")
    except ImportError:
        return None
    try:
        return DeviceManagement(nvml, identity)
    except nvml.NVMLError:
        return None


def is_throttled(states: Sequence[DeviceState], top_mhz: float) -> bool:
    """Tells whether a GPU was slower than it can be while samples were taken.

    A device may report the power limit all the time. It counts only if the clock is low.

    Args:
        states: States from before, during and after the samples.
        top_mhz: The highest clock that was seen.
    """
    if any(state.reasons & SLOWDOWN for state in states):
        return True
    return any(
        state.reasons & POWER_CAP and state.clock_mhz is not None and state.clock_mhz < LOW_CLOCK * top_mhz
        for state in states
    )
