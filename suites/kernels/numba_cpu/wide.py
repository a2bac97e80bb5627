"""Gives Numba CPU kernels float32 arrays in place of arrays of 16 bits, to add up in and for vector registers.

For other dtypes the functions return the array itself, and no code is left of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.extending import overload

from suites.kernels.half_precision import HALVES


def widened(x):  # type: ignore[no-untyped-def]
    """The array, or a float32 copy of one of 16 bits."""
    raise NotImplementedError("for kernels only")


def sums_for(out):  # type: ignore[no-untyped-def]
    """The array itself to write to, or a float32 array of its shape, which has any values."""
    raise NotImplementedError("for kernels only")


def round_to(out, sums):  # type: ignore[no-untyped-def]
    """Rounds what a kernel has written to ``sums_for(out)``; nothing is left to do for other dtypes."""
    raise NotImplementedError("for kernels only")


def _is_half(array: Any) -> bool:
    return str(array.dtype) in HALVES


def _copy_each(to, x):  # type: ignore[no-untyped-def]
    flat, source = to.reshape(-1), x.reshape(-1)
    for i in range(source.size):
        flat[i] = source[i]


@overload(_copy_each)
def _copy_each_of(to, x):  # type: ignore[no-untyped-def]
    return _copy_each


@overload(widened)
def _widened(x):  # type: ignore[no-untyped-def]
    def copied(x):  # type: ignore[no-untyped-def]
        wide = np.empty(x.shape, np.float32)
        _copy_each(wide, x)  # type: ignore[no-untyped-call]
        return wide

    return copied if _is_half(x) else lambda x: x


@overload(sums_for)
def _sums_for(out):  # type: ignore[no-untyped-def]
    return (lambda out: np.empty(out.shape, np.float32)) if _is_half(out) else lambda out: out


@overload(round_to)
def _round_to(out, sums):  # type: ignore[no-untyped-def]
    return (lambda out, sums: _copy_each(out, sums)) if _is_half(out) else lambda out, sums: None  # type: ignore[no-untyped-call]
