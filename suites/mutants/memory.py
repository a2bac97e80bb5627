"""Lets a kernel use memory by its address, as careless kernels do that keep state or write to their inputs."""

from typing import Any

import numba
import numpy as np
from numba.extending import intrinsic

_KEPT: list[Any] = []
"""Keeps the arrays of :func:`address_of_zeros` alive: kernels only know their addresses."""


def address_of_zeros(count: int, dtype: Any) -> int:
    """Returns the address of so many zeros, which live as long as this process."""
    zeros = np.zeros(count, dtype)
    _KEPT.append(zeros)
    return int(zeros.ctypes.data)


@intrinsic
def _pointer(typingctx, address):
    """Converts an integer to a pointer."""

    def code(context, builder, signature, args):
        return builder.inttoptr(args[0], context.get_value_type(numba.types.voidptr))

    return numba.types.voidptr(numba.types.uintp), code


@numba.njit
def array_at(address, count, dtype):
    """Returns, in a kernel, the array of ``count`` elements that begins at an address."""
    return numba.carray(_pointer(np.uintp(address)), (count,), dtype)
