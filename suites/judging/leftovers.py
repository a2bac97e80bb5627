"""Memory that a kernel finds on a GPU and has not written: temporary arrays and shared memory, filled before it runs.

A GPU hands out memory as it is. In a process that has just begun that is mostly zeros, which hides a kernel that relies
on them; here it is what another kernel might have left.
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
"""Dynamic shared memory of a block that needs no permission."""

_BLOCKS_PER_PROCESSOR = 8
_THREADS = 256


@contextlib.contextmanager
def leftovers(program: Any, byte: int, device: jax.Device) -> Iterator[None]:
    """Runs of a compiled program in the block find ``byte`` in every byte of its temporaries, and in shared memory.

    Three kinds of memory: what XLA allocates for the program, which it takes from where an array of that size was
    just given back; what callables allocate while they run; and what blocks of threads share. On a CPU there is
    nothing to fill: temporary arrays of kernels there are those of the language.
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
    """Has blocks on every multiprocessor write to all the shared memory that they can have together, and waits."""
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
