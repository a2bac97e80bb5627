"""Notices writes just beyond the ends of arrays on a GPU, in the unused bytes behind each array.

XLA hands out memory of GPUs in multiples of 256 bytes. What an array leaves unused is filled before a kernel runs, and
must be unchanged afterwards. Guard pages, which also notice reads, are for the CPU (:mod:`suites.guards`); on a GPU
``kernel-bridge sanitize`` notices those.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from suites.backends.numba_cuda_blocks import MISSING, cuda

MULTIPLE = 256
"""Bytes that XLA's memory of a GPU comes in multiples of."""

BYTE = 0xC5
"""Fills the unused bytes."""


class WrittenBeyond(Exception):
    """A kernel has written beyond the end of an array. The message says of which one, and how far."""


@dataclass(frozen=True)
class Canaries:
    """The unused bytes behind arrays, which are filled.

    Attributes:
        places: The name of each array, and the address and the number of the bytes behind it.
        ordinal: The number of the GPU.
    """

    places: tuple[tuple[str, int, int], ...]
    ordinal: int

    def require_unchanged(self) -> None:
        """Raises WrittenBeyond if a byte has changed."""
        if not self.places:
            return
        with cuda.gpus[self.ordinal]:
            for name, address, count in self.places:
                changed = np.flatnonzero(_bytes_at(address, count).copy_to_host() != BYTE)
                if changed.size:
                    raise WrittenBeyond(
                        f"writes after the end of {name}: {changed.size} of the {count} bytes behind its last element "
                        f"have changed, the first {int(changed[0])} bytes after its end"
                    )


def set_canaries(arrays: dict[str, jax.Array], device: jax.Device) -> Canaries:
    """Fills the unused bytes behind arrays on a GPU; none on a CPU, and none without numba-cuda.

    Args:
        arrays: The arrays by name. They must be finished.
        device: Where they are.
    """
    if device.platform == "cpu" or MISSING is not None:
        return Canaries((), 0)
    places = []
    for name, array in arrays.items():
        unused = -array.nbytes % MULTIPLE
        if array.nbytes and unused:
            places.append((name, array.unsafe_buffer_pointer() + array.nbytes, unused))
    ordinal = device.local_hardware_id or 0
    with cuda.gpus[ordinal]:
        for _, address, count in places:
            _bytes_at(address, count).copy_to_device(np.full(count, BYTE, np.uint8))
        cuda.synchronize()
    return Canaries(tuple(places), ordinal)


@dataclass(frozen=True)
class _Memory:
    """Some bytes of a GPU, as Numba-CUDA takes the arrays of other libraries."""

    address: int
    count: int

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": (self.count,), "typestr": "|u1", "data": (self.address, False), "version": 3, "stream": None}


def _bytes_at(address: int, count: int) -> Any:
    return cuda.as_cuda_array(_Memory(address, count))
