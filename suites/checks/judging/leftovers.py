"""Fills the memory that a kernel finds on a GPU before it runs: temporary arrays and shared memory.

A GPU hands out memory as it is. In a new process that is mostly zeros, which hides a kernel that relies on zeros. The
filled memory is like memory that another kernel has used.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from suites.backends.numba_cuda_blocks import MISSING, cuda

_SHARED_BYTES = 48 * 1024
"""Most dynamic shared memory that a block may use without opting in to more."""

_BLOCKS_PER_PROCESSOR = 8
_THREADS = 256


@contextlib.contextmanager
def leftovers(program: Any, byte: int, device: jax.Device) -> Iterator[None]:
    """Fills three kinds of memory with ``byte`` for the runs of a compiled program inside the ``with`` block.

    - Temporary arrays of the program. XLA takes them from memory of the same size that was just given back.
    - Arrays that callables allocate while they run.
    - Shared memory of the blocks of threads.

    On a CPU it does nothing: the kernel language allocates temporary arrays there.
    """
    if device.platform == "cpu":
        yield
        return
    with contextlib.ExitStack() as stack:
        if MISSING is None:
            from bridge.languages.numba_cuda.device_memory import filled_with

            stack.enter_context(filled_with(byte))
            _fill_shared_memory(device.local_hardware_id, byte)
        size = program.memory_analysis().temp_size_in_bytes
        if size:
            jnp.full(size, byte, jnp.uint8, device=device).block_until_ready().delete()
        yield


def _fill_shared_memory(ordinal: int, byte: int) -> None:
    """Writes to all shared memory of every multiprocessor, and waits for the end."""
    with cuda.gpus[ordinal]:
        blocks = _BLOCKS_PER_PROCESSOR * cuda.get_current_device().MULTIPROCESSOR_COUNT
        _filler()[blocks, _THREADS, 0, _SHARED_BYTES](np.uint8(byte))
        cuda.synchronize()


@functools.cache
def _filler() -> Any:
    @cuda.jit
    def fill(byte: Any) -> None:
        shared = cuda.shared.array(0, np.uint8)
        i = cuda.threadIdx.x
        while i < _SHARED_BYTES:
            shared[i] = byte
            i += _THREADS

    return fill
