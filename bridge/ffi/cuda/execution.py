"""Connects the native code that executes plans to the functions of the CUDA driver."""

from __future__ import annotations

import ctypes
from typing import Any

from bridge.ffi.cuda import driver
from bridge.ffi.native.addresses import c_function, c_string
from bridge.ffi.plans import device, host, poison


@device.DESCRIBE
def _describe(status: int, name: int) -> int:
    kernel = ctypes.string_at(name).decode()
    return c_string(f"launching {kernel} failed: {driver.error_text(status)}")


def execute_launches() -> Any:
    """Native ``(frame, plan) -> error`` that executes a :class:`~bridge.ffi.plans.device.DevicePlan`."""
    return device.compile_execute(c_function(driver.library().cuLaunchKernelEx), c_function(_describe))


def execute_in_turn() -> Any:
    """The same, for plans whose launches no launch of another call may come between on the stream."""
    return host.in_turn(execute_launches(), host.Mutex.new())


def device_fill() -> Any:
    """Native ``fill`` of GPU memory on XLA's stream, for :func:`bridge.ffi.plans.poison.fill_before`."""
    return poison.stream_fill(c_function(driver.library().cuMemsetD8Async), c_function(_describe))
