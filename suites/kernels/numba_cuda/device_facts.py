"""Says how many blocks of a Numba-CUDA launch run at once, and how much shared memory each of them can have."""

from __future__ import annotations

from typing import NamedTuple

import jax


class GpuFacts(NamedTuple):
    """The properties of a device on which launches of persistent blocks depend.

    Attributes:
        processors: How many multiprocessors there are.
        shared_bytes: The most shared memory of a block, static and dynamic.
    """

    processors: int
    shared_bytes: int


H200 = GpuFacts(132, 232_448)
"""The properties that a machine without a GPU assumes. There kernels are only compiled or simulated."""


def gpu_facts() -> GpuFacts:
    """The least of JAX's GPUs in this process: a launch is the same on all of them."""
    try:
        devices = jax.local_devices(backend="cuda")
    except RuntimeError:
        return H200
    return GpuFacts(
        min(device.core_count for device in devices), min(device.shared_memory_per_block_optin for device in devices)
    )
