"""Keeps the inputs of a kernel at fixed addresses, and refills the memory there between calls."""

from __future__ import annotations

import mmap
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from suites.checks.judging.bits import Array
from suites.numerics.arrays import Inputs

_ALIGNMENT = 64
"""On a CPU, JAX borrows the memory of a NumPy array that begins at a multiple of so many bytes."""

_PAGE = 4096
_SKEW = 17 * _ALIGNMENT

_ADVISED_FROM = 1 << 22
"""NumPy asks Linux for large pages for arrays from this size on. A user's arrays come from XLA, which does not ask. So
the inputs are allocated without NumPy: reading 16 MiB or more takes up to a third less time in large pages."""


class RefilledMemory:
    """Memory on a device for inputs of one set of shapes and dtypes.

    On a CPU, JAX borrows the memory from NumPy, and NumPy refills it. On a GPU, a program writes new contents to
    donated memory.

    Args:
        like: Inputs with these shapes and dtypes.
        device: Where the memory lies.
    """

    def __init__(self, like: Inputs, device: jax.Device):
        self._device = device
        self._on_host = device.platform == "cpu"
        self._arrays = [_aligned(array, index) for index, array in enumerate(like)]
        self._placed: list[jax.Array] | None = None

    def fill(self, inputs: Inputs) -> list[jax.Array]:
        """Returns inputs on the device, at the addresses of the inputs before, whose arrays must not be used again.

        Raises:
            AssertionError: Something has other addresses, so the calls prove nothing.
        """
        if self._on_host or self._placed is None:
            self._placed = None
            for array, new in zip(self._arrays, inputs, strict=True):
                np.copyto(array, new)
            placed = jax.block_until_ready([jax.device_put(array, self._device) for array in self._arrays])
            own = [array.ctypes.data for array in self._arrays] if self._on_host else _addresses(placed)
        else:
            own = _addresses(self._placed)
            placed = jax.block_until_ready(
                _write(self._placed, [jax.device_put(each, self._device) for each in inputs])
            )
        pairs = zip(placed, _addresses(placed), own, strict=True)
        if any(array.size and address != expected for array, address, expected in pairs):
            raise AssertionError("an input does not lie at the address that it had before, so the calls prove nothing")
        self._placed = placed
        return list(placed)


def _addresses(arrays: Sequence[jax.Array]) -> list[int]:
    return [array.unsafe_buffer_pointer() for array in arrays]


def _aligned(like: Array, index: int) -> Array:
    """An array of this shape and dtype that begins where JAX borrows it; the index is its number among the inputs."""
    size = like.nbytes + _PAGE + _ALIGNMENT
    memory = np.zeros(size, np.uint8) if size < _ADVISED_FROM else np.frombuffer(mmap.mmap(-1, size), np.uint8)
    # At different places of a page: with equal ones, loads of one array would wait for stores to another.
    start = index * _SKEW % _PAGE + -memory.ctypes.data % _ALIGNMENT
    return memory[start : start + like.nbytes].view(like.dtype).reshape(like.shape)


def _write(old: Sequence[jax.Array], new: Sequence[jax.Array]) -> list[jax.Array]:
    """Copies arrays to the memory of others, which XLA takes over."""
    program = jax.jit(lambda old, new: [jnp.copy(array) for array in new], donate_argnums=0, keep_unused=True)
    written: list[jax.Array] = program(list(old), list(new))
    return written
