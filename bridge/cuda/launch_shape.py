"""Turns the launch arguments of users into grid, block and shared memory, and checks them against device limits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from bridge.errors import LaunchError
from bridge.ffi.cuda.devices import Dimensions, Limits

MOST = 2**31 - 1
"""The largest number of blocks in a dimension, and of anything else in a launch. No device has a higher limit."""


class LaunchShape(msgspec.Struct, frozen=True):
    """The size of a launch.

    Attributes:
        grid: Blocks in x, y, z.
        block: Threads of a block in x, y, z.
        shared_bytes: Dynamic shared memory of a block.
    """

    grid: Dimensions
    block: Dimensions
    shared_bytes: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether no thread runs."""
        return 0 in self.grid


def launch_shape(
    name: str,
    grid: Any = None,
    block: Any = None,
    launch_dims: Any = None,
    threads_per_block: int = 256,
    shared_mem: int = 0,
) -> LaunchShape:
    """The launch shape of the launch arguments of a kernel wrapper.

    Args:
        name: The kernel, for errors.
        grid: Blocks: an int, or up to three.
        block: Threads of a block: an int, or up to three. Goes with ``grid``.
        launch_dims: Threads in all, instead of ``grid`` and ``block``: an int, or up to three. Each is rounded up
            to whole blocks, so the kernel must check its bounds.
        threads_per_block: The largest size of a block made from ``launch_dims``. In one dimension a block has this
            size. In two or three, powers of two are spread as evenly as possible: 256 becomes 16x16 or 8x8x4.
        shared_mem: Dynamic shared memory of a block in bytes.

    Raises:
        LaunchError: Both or neither of the two forms is given, or a number makes no sense.
    """
    if (grid is None) != (block is None):
        raise LaunchError(
            f"{name}: grid is {grid!r} and block is {block!r}, but one needs the other. Pass both, or launch_dims."
        )
    if (grid is None) == (launch_dims is None):
        given = "neither (grid, block) nor launch_dims" if grid is None else "both (grid, block) and launch_dims"
        raise LaunchError(
            f"{name}: {given} given; the launch needs one of them. Pass grid= and block=, or launch_dims=."
        )
    shared_bytes = _integer(name, "shared_mem", shared_mem, least=0)
    if launch_dims is None:
        blocks, threads = integers(name, "grid", grid, least=0), integers(name, "block", block, least=1)
        return LaunchShape(_three(blocks), _three(threads), shared_bytes)
    dims = integers(name, "launch_dims", launch_dims, least=0, most=None)
    threads = _spread(_integer(name, "threads_per_block", threads_per_block, least=1), len(dims))
    blocks = tuple(-(-extent // size) for extent, size in zip(dims, threads, strict=True))
    if max(blocks) > MOST:
        raise LaunchError(
            f"{name}: launch_dims is {launch_dims!r}, which is {max(blocks)} blocks in one dimension, expected at most "
            f"{MOST}. Let each thread handle several elements, or pass a larger threads_per_block."
        )
    return LaunchShape(_three(blocks), _three(threads), shared_bytes)


def check_limits(name: str, shape: LaunchShape, limits: Limits, static_shared_bytes: int = 0) -> None:
    """Checks a launch against the limits of a device.

    Raises:
        LaunchError: A number is over its limit.
    """
    threads = math.prod(shape.block)
    if threads > limits.block_threads:
        raise LaunchError(
            f"{name}: a block of {_times(shape.block)} is {threads} threads, but this kernel can have at most "
            f"{limits.block_threads} on this device. Use smaller blocks and more of them."
        )
    for what, extents, most in (("block", shape.block, limits.block), ("grid", shape.grid, limits.grid)):
        for axis, extent, limit in zip("xyz", extents, most, strict=True):
            if extent > limit:
                raise LaunchError(
                    f"{name}: the {what} {_times(extents)} has {extent} in {axis}, but the device allows {limit}. "
                    f"{'Put the largest dimension first, in x.' if what == 'grid' else 'Use smaller blocks.'}"
                )
    if shape.shared_bytes + static_shared_bytes > limits.shared_bytes:
        raise LaunchError(
            f"{name}: a block needs {shape.shared_bytes} bytes of dynamic and {static_shared_bytes} of static shared "
            f"memory, but the device has {limits.shared_bytes}. Use less, or smaller blocks."
        )


def check_covers(name: str, shape: LaunchShape, outputs: Sequence[Any]) -> None:
    """Refuses a launch of no threads if an output has elements, which would not be written.

    Raises:
        LaunchError: The grid is empty and an output is not.
    """
    if shape.is_empty and any(math.prod(output.shape) for output in outputs):
        raise LaunchError(
            f"{name}: the grid {_times(shape.grid)} launches nothing, so the outputs would not be written. "
            "Launch at least one block, or declare empty outputs."
        )


def check_alignment(name: str, alignment: Any) -> int:
    """The alignment that a user asks for, in bytes.

    Raises:
        LaunchError: It is no power of two.
    """
    if alignment not in (1, 2, 4, 8, 16, 32, 64, 128, 256):
        raise LaunchError(
            f"{name}: alignment is {alignment!r}, expected a power of two from 1 to 256, in bytes. Pass the size "
            "of the largest vector that the kernel loads."
        )
    return int(alignment)


def integers(
    name: str, argument: str, value: Any, least: int, most: int | None = MOST, count: int = 3
) -> tuple[int, ...]:
    """An integer, or a sequence of up to ``count`` of them, that a user passes for an argument of a launch.

    Raises:
        LaunchError: It is something else, or one of them is not from ``least`` to ``most``.
    """
    values = tuple(value) if isinstance(value, Sequence) or np.ndim(value) == 1 else (value,)
    if not 1 <= len(values) <= count:
        raise LaunchError(f"{name}: {argument} is {value!r}, expected an int or a sequence of one to {count} ints.")
    for number in values:
        if isinstance(number, bool) or not hasattr(number, "__index__") or np.ndim(number):
            raise LaunchError(
                f"{name}: {argument} is {value!r}, expected integers; {number!r} is of type {type(number).__name__}."
            )
        if number.__index__() < least or (most is not None and number.__index__() > most):
            expected = f"of {least} or more" if most is None else f"from {least} to {most}"
            raise LaunchError(f"{name}: {argument} is {value!r}, expected integers {expected}.")
    return tuple(number.__index__() for number in values)


def _integer(name: str, argument: str, value: Any, least: int) -> int:
    numbers = integers(name, argument, value, least)
    if len(numbers) != 1:
        raise LaunchError(f"{name}: {argument} is {value!r}, expected one integer.")
    return numbers[0]


def _spread(threads: int, rank: int) -> tuple[int, ...]:
    if rank == 1:
        return (threads,)
    bits, extra = divmod(threads.bit_length() - 1, rank)
    return tuple(1 << (bits + (axis < extra)) for axis in range(rank))


def _three(values: Sequence[int]) -> Dimensions:
    x, y, z = (*values, 1, 1)[:3]
    return x, y, z


def _times(values: Sequence[int]) -> str:
    return "x".join(map(str, values))
