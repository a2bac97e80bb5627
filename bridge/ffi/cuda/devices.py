"""Lists the GPUs that JAX uses in this process, and says how large a launch on them may be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import jax

Dimensions = tuple[int, int, int]
"""Extents in x, y and z."""


@dataclass(frozen=True)
class Limits:
    """The largest launch that a device allows. The defaults hold for every NVIDIA GPU since compute capability 3.0.

    Attributes:
        block_threads: Threads of a block.
        block: Threads of a block in x, y, z.
        grid: Blocks in x, y, z.
        shared_bytes: Shared memory of a block, static and dynamic, with the opt-in for more than 48 KiB.
    """

    block_threads: int = 1024
    block: Dimensions = (1024, 1024, 64)
    grid: Dimensions = (2**31 - 1, 65535, 65535)
    shared_bytes: int = 49152


def local_ordinals() -> list[int]:
    """Ordinals of JAX's local GPUs, in ascending order. JAX may use a part of the machine's GPUs.

    Raises:
        RuntimeError: JAX has no GPU.
    """
    return sorted(device.local_hardware_id for device in jax.local_devices(backend="cuda"))


def handles_table(handles: Mapping[int, int]) -> tuple[int, ...]:
    """Function handles as a table by ordinal, for :class:`~bridge.ffi.plans.device.Launch`; 0 stands for no handle."""
    return tuple(handles.get(ordinal, 0) for ordinal in range(max(handles) + 1))


def load_everywhere(load: Callable[[int], int]) -> tuple[int, ...]:
    """Calls ``load`` with the ordinal of each of JAX's local GPUs; returns the table of the handles."""
    return handles_table({ordinal: load(ordinal) for ordinal in local_ordinals()})
