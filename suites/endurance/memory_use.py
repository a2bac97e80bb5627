"""Samples the memory of this process and of its GPUs while a trial goes on."""

from __future__ import annotations

import gc
import os
import time
from pathlib import Path

import jax

from bridge.ffi.cuda import driver
from reports import MemorySample

_STATM = Path("/proc/self/statm")


def resident_bytes() -> int:
    """Returns the resident memory of this process.

    Raises:
        OSError: The system has no ``/proc``.
    """
    return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def device_bytes() -> int:
    """Returns the used memory of the GPUs, by all processes: what XLA, modules and graphs hold counts."""
    return sum(driver.used_bytes(device.local_hardware_id) for device in jax.local_devices(backend="cuda"))


class MemoryUse:
    """The samples of a trial. Its clock starts with the first sample.

    Args:
        platform: ``cuda`` samples the memory of the GPUs too.
    """

    def __init__(self, platform: str) -> None:
        self._on_gpu = platform == "cuda"
        self._start: tuple[float, float] | None = None
        self.samples: list[MemorySample] = []

    def sample(self, count: int) -> None:
        """Takes a sample after ``count`` calls or kernels."""
        now, processor = time.perf_counter(), time.process_time()
        if self._start is None:
            # What there is now, such as modules and compiled programs, is not looked at again.
            gc.collect()
            gc.freeze()
            now, processor = self._start = time.perf_counter(), time.process_time()
        start, processor_start = self._start
        self.samples.append(
            MemorySample(
                count=count,
                seconds=round(now - start, 6),
                resident_bytes=resident_bytes(),
                device_bytes=device_bytes() if self._on_gpu else None,
                processor_s=round(processor - processor_start, 6),
            )
        )
