"""Connects the native code that executes plans to the functions of the CUDA driver."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from bridge.ffi.cuda import driver
from bridge.ffi.native.addresses import c_function, c_string
from bridge.ffi.plans import device, poison

ILLEGAL_ADDRESS = 700
"""``CUDA_ERROR_ILLEGAL_ADDRESS``."""


@device.DESCRIBE
def _describe(status: int, name: int) -> int:
    kernel = ctypes.string_at(name).decode()
    return c_string(f"launching {kernel} failed: {driver.error_text(status)}")


def driver_words() -> int:
    """Address of the words for :func:`bridge.ffi.plans.device.make_execute`."""
    return device.driver_words(c_function(driver.library().cuLaunchKernelEx), c_function(_describe))


@device.DESCRIBE
def _describe_fault(status: int, name: int) -> int:
    reason = ": it reads or writes outside of its arrays" if status == ILLEGAL_ADDRESS else ""
    text = f"{ctypes.string_at(name).decode()} failed on the GPU: {driver.error_text(status)}{reason}"
    return c_string(f"{text}. compute-sanitizer names the line.")


def fill_and_wait(execute: Callable[..., Any]) -> Any:
    """Native ``(frame, plan) -> error`` that fills the outputs on XLA's stream, executes and waits for the kernel."""
    fill = poison.stream_fill(c_function(driver.library().cuMemsetD8Async), c_function(_describe))
    wait = poison.stream_wait(c_function(driver.library().cuStreamSynchronize), c_function(_describe_fault))
    return poison.fill_before(execute, fill, wait, on_stream=True)
