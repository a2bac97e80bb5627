"""Says how large a CUDA launch may be."""

from __future__ import annotations

from dataclasses import dataclass

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
