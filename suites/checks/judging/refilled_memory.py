"""Keeps the inputs of a kernel at fixed addresses, and refills the memory there between calls."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from suites.checks.judging.bits import Array
from suites.numerics.arrays import Inputs

_ALIGNMENT = 64
"""On a CPU, JAX borrows the memory of a NumPy array that begins at a multiple of so many bytes."""


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
        self._arrays = [_aligned(array) for array in like]
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


def _aligned(like: Array) -> Array:
    """An array of this shape and dtype that begins where JAX borrows it."""
    memory = np.zeros(like.nbytes + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    return memory[start : start + like.nbytes].view(like.dtype).reshape(like.shape)


def _write(old: Sequence[jax.Array], new: Sequence[jax.Array]) -> list[jax.Array]:
    """Copies arrays to the memory of others, which XLA takes over."""
    program = jax.jit(lambda old, new: [jnp.copy(array) for array in new], donate_argnums=0, keep_unused=True)
    written: list[jax.Array] = program(list(old), list(new))
    return written
