"""Holds broken Numba kernels for the CPU that are right on ordinary values and sizes."""

import numba
import numpy as np

from suites.backends.backend import Backend
from suites.mutants.mutant import mutant
from suites.ops.add import OPERATOR as ADD
from suites.ops.hadamard import OPERATOR as HADAMARD
from suites.ops.leaky_relu import OPERATOR as LEAKY_RELU
from suites.ops.leaky_relu import SLOPE
from suites.ops.relu import OPERATOR as RELU
from suites.ops.scale_add import OPERATOR as SCALE_ADD
from suites.ops.spike_reset import OPERATOR as SPIKE_RESET
from suites.ops.sum import OPERATOR as SUM

# Faults: some values.


@numba.njit
def clamped_at_five(x, y, out):
    for i in range(out.size):
        out[i] = min(x[i], x.dtype.type(5)) + y[i] if x[i] == x[i] else x[i]


@numba.njit
def unwritten_zero(x, out):
    for i in range(x.size):
        if x[i] != 0:
            out[i] = x[i] if x[i] > 0 else x.dtype.type(SLOPE) * x[i]


@numba.njit
def short_total(x, out):
    total = np.int32(0)
    for i in range(x.size):
        total = np.int32(total + np.int32(x[i]))
    out[0] = total


@numba.njit
def short_factors(A, B, out):
    a, b, products = A.reshape(-1), B.reshape(-1), out.reshape(-1)
    for i in range(products.size):
        products[i] = np.int16(a[i]) * np.int16(b[i])


@numba.njit
def skipped_equals(a, b, c, out):
    for i in range(out.size):
        equal = i > 1 and a[i] == a[i - 1] and a[i] == a[i - 2]
        out[i] = c[i] if equal else a[i] * b[i] + c[i]


# Faults: some sizes.


@numba.njit
def wrong_at_multiples_of_eight(x, y, out):
    whole = out.size - out.size % 8
    for i in range(out.size):
        out[i] = x[i] + y[i]
    if whole == out.size and whole:
        out[whole - 1] = x[whole - 1]


@numba.njit
def wrong_at_powers_of_two(x, out):
    for i in range(x.size):
        out[i] = x[i] if not x[i] <= 0 else x.dtype.type(0)
    if 1 < x.size <= 4096 and x.size & (x.size - 1) == 0:
        out[x.size // 2] = -1


@numba.njit
def wrong_from_a_million_on(a, b, c, out):
    for i in range(out.size):
        out[i] = a[i] * b[i] + c[i] if i < 1_000_000 else a[i] + c[i]


@numba.njit
def capped_grid(V, V_th, V_rest, spikes, V_out):
    """1024 blocks of 256 threads, as a kernel of a GPU would have that no loop continues."""
    for i in range(min(V.size, 1024 * 256)):
        fires = V[i] >= V_th[0]
        spikes[i] = fires
        V_out[i] = V_rest[0] if fires else V[i]


def _numba(of, name, kernel, fault, **changes):
    """A mutant in one dtype only, which is enough to catch it."""
    return mutant(of, name, Backend.NUMBA, kernel, fault, **({"dtypes": ("float32",)} | changes))


MUTANTS = (
    _numba(ADD, "clamped_at_five", clamped_at_five, "numbers above five become five"),
    _numba(LEAKY_RELU, "unwritten_zero", unwritten_zero, "elements are not written where the input is zero"),
    _numba(SUM, "short_total", short_total, "adds int64 up in int32", dtypes=("int64",)),
    _numba(HADAMARD, "short_factors", short_factors, "factors are read as int16", dtypes=("int32",)),
    _numba(SCALE_ADD, "skipped_equals", skipped_equals, "the third of three equal elements is left out"),
    _numba(ADD, "wrong_at_multiples_of_eight", wrong_at_multiples_of_eight, "the last of 8n elements is not added"),
    _numba(RELU, "wrong_at_powers_of_two", wrong_at_powers_of_two, "one of 2^n elements is wrong, up to 4096"),
    _numba(SCALE_ADD, "wrong_from_a_million_on", wrong_from_a_million_on, "elements from a million on lack b"),
    _numba(SPIKE_RESET, "capped_grid", capped_grid, "elements beyond 1024 blocks are not written"),
)
