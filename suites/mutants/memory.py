"""Gives kernels arrays at fixed addresses: careless kernels keep state there, or write to their inputs."""

from typing import Any

import numba
import numpy as np
from numba.extending import intrinsic

_KEPT: list[Any] = []
"""The arrays of :func:`address_of_zeros`, kept alive because kernels hold only their addresses."""


def address_of_zeros(count: int, dtype: Any) -> int:
    """The address of ``count`` zeros, which stay there as long as this process lives."""
    zeros = np.zeros(count, dtype)
    _KEPT.append(zeros)
    return int(zeros.ctypes.data)


@intrinsic
def _pointer(typingctx, address):
    """An integer as a pointer."""

    def code(context, builder, signature, args):
        return builder.inttoptr(args[0], context.get_value_type(numba.types.voidptr))

    return numba.types.voidptr(numba.types.uintp), code


@numba.njit
def array_at(address, count, dtype):
    """In a kernel: the array of ``count`` elements that begins at an address."""
    return numba.carray(_pointer(np.uintp(address)), (count,), dtype)
