"""Loads the machine code of a kernel on a device, and checks its launch against what the device allows."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

from bridge.cuda.launch_shape import LaunchShape, check_limits
from bridge.ffi.cuda import driver
from bridge.ffi.cuda.devices import check_cooperative, load_everywhere

CodeT = TypeVar("CodeT")


def check_launch(name: str, handle: int, shape: LaunchShape, is_cooperative: bool, ordinal: int) -> None:
    """Checks a launch against the limits of a device whose context is current, and asks for its shared memory.

    Args:
        name: The kernel, for errors.
        handle: Its function on this device.
        shape: Grid, block and shared memory.
        is_cooperative: Whether the kernel synchronises its whole grid.
        ordinal: The device.

    Raises:
        LaunchError: The launch is over a limit of the device.
    """
    check_limits(name, shape, driver.limits(handle, ordinal), driver.static_shared_bytes(handle))
    driver.allow_shared_bytes(handle, shape.shared_bytes)
    if is_cooperative:
        most = driver.most_cooperative_blocks(handle, ordinal, math.prod(shape.block), shape.shared_bytes)
        check_cooperative(name, shape.grid, most)


def load_for_each_chip(
    compile_for: Callable[[int], CodeT], load: Callable[[CodeT, int], int]
) -> tuple[tuple[int, ...], dict[int, CodeT]]:
    """Compiles a kernel once for each compute capability among JAX's GPUs, and loads it on each of these.

    Args:
        compile_for: The machine code for a compute capability, such as 90.
        load: The kernel's handle on a device, from its machine code and the device's ordinal.

    Returns:
        The table of the handles by ordinal, and the machine code by compute capability.
    """
    compiled: dict[int, CodeT] = {}

    def load_on(ordinal: int) -> int:
        capability = driver.compute_capability(ordinal)
        if capability not in compiled:
            compiled[capability] = compile_for(capability)
        return load(compiled[capability], ordinal)

    return load_everywhere(load_on), compiled


def load_cubin(name: str, content: bytes, symbol: str, shape: LaunchShape, is_cooperative: bool, ordinal: int) -> int:
    """The handle of a kernel on a device: loads the function ``symbol`` of a cubin, and checks its launch.

    Raises:
        LaunchError: The launch is over a limit of the device.
    """
    with driver.current(ordinal):
        handle = driver.load_function(driver.load_kernel(content, symbol))
        check_launch(name, handle, shape, is_cooperative, ordinal)
    return handle
