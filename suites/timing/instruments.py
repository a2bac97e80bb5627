"""Builds kernels that help to measure, called from JAX: one keeps the device busy, one empties its cache.

They run on XLA's stream, so a later call starts after they end. Their names begin with :data:`PREFIX`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bridge import cuda_raw_kernel

PREFIX = "kernel_bridge_instrument"
"""Part of the name of each instrument, also where the compiler mangles names."""

VECTOR_BYTES = 16
"""Bytes that one thread loads at a time."""

_SOURCE = """
extern "C" __global__ void kernel_bridge_instrument_spin(const int* microseconds, int* out) {
    const unsigned long long limit = 1000ull * (unsigned long long)microseconds[0];
    unsigned long long begin, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
    do {
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    } while (now - begin < limit);
    out[0] = 0;
}

extern "C" __global__ void kernel_bridge_instrument_sweep(const uint4* data, int* out, unsigned int vectors) {
    unsigned int mixed = 0;
    for (unsigned int i = blockIdx.x * blockDim.x + threadIdx.x; i < vectors; i += gridDim.x * blockDim.x) {
        const uint4 vector = data[i];
        mixed += (vector.x ^ vector.y) + (vector.z ^ vector.w);
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) out[0] = 0;
    if (mixed == 0x9e3779b9u) out[1] = 1;  // keeps the loads; hardly ever true
}
"""

_BLOCK = 512
_BLOCKS = 1056
"""Enough for 8 blocks on each of 132 multiprocessors."""


@functools.cache
def spin(seconds: float, device: jax.Device) -> Callable[[], Any]:
    """Returns a function that keeps a device busy for a time, so that the host can queue calls behind it.

    It returns at once, and does not touch the memory of the device.

    Raises:
        ImportError: The package cuda-core is not installed.
        KernelCompileError: NVRTC cannot compile it.
    """
    # Copied to the device now: a copy in front of the timed calls would be recorded as their work.
    microseconds = jax.device_put(np.full(1, round(1e6 * seconds), np.int32), device)
    return _started(_kernel("spin", 1, grid=1, block=1), microseconds)


def sweep(size_bytes: int, device: jax.Device) -> Callable[[], Any]:
    """Returns a function that starts to empty the cache of a device: the next call finds none of its data there.

    It returns an array that is ready when the cache is empty. The kernel only reads, from an array that nothing else
    uses. If it wrote, the next call would have to wait until the cache has written its data to memory.

    Args:
        size_bytes: Bytes to read, several times as many as the cache has. They stay allocated.
        device: The device.

    Raises:
        ImportError: The package cuda-core is not installed.
    """
    vectors = -(-size_bytes // VECTOR_BYTES)
    with jax.enable_x64(False), jax.default_device(device):
        # Different numbers: constant data may be cheaper to move.
        data = jax.block_until_ready(jnp.arange(vectors * VECTOR_BYTES // 4, dtype=jnp.uint32))
    return _started(_kernel("sweep", 2, grid=_BLOCKS, block=_BLOCK, scalars=(np.uint32(vectors),)), data)


@functools.cache
def _kernel(name: str, outputs: int, **launch: Any) -> Callable[..., Any]:
    return cuda_raw_kernel(_SOURCE, f"{PREFIX}_{name}", jax.ShapeDtypeStruct((outputs,), jnp.int32), **launch)


def _started(kernel: Callable[..., Any], data: jax.Array) -> Callable[[], Any]:
    """Returns a function that starts a kernel, which has run once."""

    def start() -> Any:
        with jax.enable_x64(False):
            return kernel(data)

    jax.block_until_ready(start())
    return start
