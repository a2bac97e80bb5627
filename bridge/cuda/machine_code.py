"""Checks the launch of a loaded kernel against what the device allows."""

from __future__ import annotations

import math

from bridge.cuda.launch_shape import LaunchShape, check_limits
from bridge.errors import LaunchError
from bridge.ffi.cuda import driver


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
        # Its blocks wait for each other, and so must all run at once.
        most = driver.most_cooperative_blocks(handle, ordinal, math.prod(shape.block), shape.shared_bytes)
        blocks = math.prod(shape.grid)
        if blocks > most:
            cure = (
                "Launch at most so many, and let each thread handle several elements."
                if most
                else "Use a GPU that has cooperative launches, or a kernel that does not synchronise its grid."
            )
            raise LaunchError(
                f"{name} synchronises its whole grid, so its {blocks} blocks must all run at once, but on this device "
                f"at most {most} of them do. {cure}"
            )
