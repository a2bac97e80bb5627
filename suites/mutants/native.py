"""Holds broken C functions, whose errors only show in memory, or in a call that fails.

Numba compiles them to functions that get addresses and sizes, and trust them, as a function in C does.
"""

import jax
import numba

from bridge import native_kernel
from suites.backends import BACKENDS
from suites.mutants.mutant import table

MUTANTS, broken = table(BACKENDS["native"])

MAP = numba.types.void(numba.types.CPointer(numba.float32), numba.int64, numba.types.CPointer(numba.float32))


def twice(x):
    return x * 2


def same(x):
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def wrapped(function):
    return native_kernel(function, same, lambda x, out: (x, x.size, out))


@broken(twice, "compiled", "a C loop ends one element too early", make=wrapped)
@numba.cfunc(MAP)
def ends_early(x, n, out):
    for i in range(n - 1):
        out[i] = x[i] * 2


@broken(twice, "compiled", "a C loop writes one element after the last", make=wrapped)
@numba.cfunc(MAP)
def ends_late(x, n, out):
    for i in range(n):
        out[i] = x[i] * 2
    if n > 0:
        out[n] = 1


@broken(twice, "compiled", "reads the element after the last, by its address", make=wrapped)
@numba.cfunc(MAP)
def reads_next(x, n, out):
    for i in range(n):
        after = x[i + 1]
        out[i] = x[i] * 2 if after != 123.5 else after


@broken(twice, "compiled", "changes its input, which no compiler forbids", make=wrapped)
@numba.cfunc(MAP)
def scales_in_place(x, n, out):
    for i in range(n):
        x[i] = x[i] * 2
        out[i] = x[i]
