"""Holds broken Numba kernels for the CPU: wrong for some values, sizes or structures, or outside of their arrays."""

import numba
import numpy as np
from jax import numpy as jnp

from suites.backends import BACKENDS
from suites.kernels.half_precision import HALVES
from suites.mutants.mutant import table
from suites.ops.add import OPERATOR as ADD
from suites.ops.csr_binary_matvec import OPERATOR as CSR_BINARY_MATVEC
from suites.ops.csr_matvec import OPERATOR as CSR_MATVEC
from suites.ops.csr_matvec.numba_cpu import sparse_dot
from suites.ops.mean_std import OPERATOR as MEAN_STD
from suites.ops.stencil import OPERATOR as STENCIL

MUTANTS, broken = table(BACKENDS["numba"])


def twice(x):
    return x * 2


def total(x):
    return jnp.sum(x, keepdims=True)


# Some elements.


@broken(twice, "compiled", "the last element is never written")
@numba.njit
def unwritten_tail(x, out):
    for i in range(x.size - 1):
        out[i] = x[i] * 2


@broken(total, "compiled", "adds to what the output held before")
@numba.njit
def kept_total(x, out):
    for i in range(x.size):
        out[0] += x[i]


# Some values.


@broken(twice, "drawn", "numbers above five become five")
@numba.njit
def clamped_at_five(x, out):
    for i in range(x.size):
        out[i] = min(x[i], 5) * 2 if x[i] == x[i] else x[i]


@broken(twice, "drawn", "float64 numbers above 1e100, which no float32 is, become zero", dtypes=("float32", "float64"))
@numba.njit
def second_dtype_loses_range(x, out):
    for i in range(x.size):
        out[i] = 0 if 1e100 < abs(x[i]) < 1e300 else x[i] * 2


@broken(
    lambda x: jnp.digitize(x, jnp.array([0.1, 0.3, 0.7], x.dtype)).astype(jnp.int32), "drawn",
    "an element on a threshold is in no bin",
)  # fmt: skip
@numba.njit
def on_a_threshold(x, out):
    for i in range(x.size):
        out[i] = 3 if x[i] != x[i] or x[i] > 0.7 else int(x[i] >= 0.1) + int(x[i] >= 0.3)
        if x[i] == np.float32(0.7):
            out[i] = 9


@broken(
    lambda x: (x ^ (x << 13)) >> 17, "drawn", "shifts uint32 in 64 bits, so that none falls out", dtypes=("uint32",)
)
@numba.njit
def wide_shift(x, out):
    for i in range(x.size):
        out[i] = (x[i] ^ (x[i] << 13)) >> 17


@broken(lambda x: x == jnp.max(x), "drawn", "looks for the maximum from -1e30 on")
@numba.njit
def maximum_from_far_below(x, out):
    largest = np.float32(-1e30)
    for i in range(x.size):
        largest = max(largest, x[i]) if x[i] == x[i] else x[i]
        if largest != largest:
            break
    for i in range(x.size):
        out[i] = x[i] == largest


@broken(lambda x: jnp.max(x, keepdims=True), "drawn", "stops at an infinity, although NaN may follow")
@numba.njit
def stops_at_infinity(x, out):
    out[0] = x[0]
    for i in range(x.size):
        if x[i] != x[i] or x[i] > out[0]:
            out[0] = x[i]
        if x[i] != x[i] or x[i] == np.inf:
            break


@broken(lambda a: jnp.sum(a, axis=1), "edges", "takes the first column before it looks for any", shapes=("m n",))
@numba.njit
def first_column(a, out):
    for i in range(a.shape[0]):
        out[i] = a[i, 0]
        for j in range(1, a.shape[1]):
            out[i] += a[i, j]


@broken(total, "drawn", "adds float64 up in float32", dtypes=("float64",))
@numba.njit
def float32_accumulator(x, out):
    total = np.float32(0)
    for i in range(x.size):
        total = np.float32(total + x[i])
    out[0] = total


@broken(STENCIL, "drawn", "the rate is a constant, that of all samples")
@numba.njit
def fixed_rate(u, rate, out):
    rows, columns = u.shape
    usual = u.dtype.type(0.2)
    for i in range(rows):
        for j in range(columns):
            if i == 0 or j == 0 or i == rows - 1 or j == columns - 1:
                out[i, j] = u[i, j]
            else:
                around = (u[i - 1, j] + u[i + 1, j]) + (u[i, j - 1] + u[i, j + 1])
                out[i, j] = u[i, j] + usual * (around - u.dtype.type(4) * u[i, j])


@broken(MEAN_STD, "edges", "divides by the number of elements, which may be zero")
@numba.njit
def division_by_none(x, mean_out, std_out):
    total = squares = 0.0
    for i in range(x.size):
        total += x[i]
    mean = total / x.size
    for i in range(x.size):
        squares += (x[i] - mean) ** 2
    mean_out[0] = mean
    std_out[0] = np.sqrt(squares / x.size)


# Some structures.


@broken(CSR_MATVEC, "edges", "empty rows are never written")
@numba.njit
def unwritten_empty_rows(data, indices, indptr, x, out):
    for row in range(out.size):
        if indptr[row] < indptr[row + 1]:
            out[row] = sparse_dot(data[indptr[row] : indptr[row + 1]], indices[indptr[row] : indptr[row + 1]], x)


@broken(CSR_BINARY_MATVEC, "drawn", "columns are taken to be sorted")
@numba.njit
def sorted_columns(data, indices, indptr, spikes, out):
    last = -1
    for neuron in range(spikes.size):
        if spikes[neuron]:
            last = neuron
    for row in range(out.size):
        total = data.dtype.type(0)
        for k in range(indptr[row], indptr[row + 1]):
            if indices[k] > last:
                break
            if spikes[indices[k]]:
                total += data[k]
        out[row] = total


# Some sizes.


@broken(twice, "sizes", "the last of 8n elements is not written")
@numba.njit
def multiple_of_eight(x, out):
    n = x.size - 1 if x.size % 8 == 0 and x.size else x.size
    for i in range(n):
        out[i] = x[i] * 2
    if n < x.size:
        out[n] = 0


@broken(twice, "sizes", "the last of 4096 elements is wrong")
@numba.njit
def at_4096(x, out):
    for i in range(x.size):
        out[i] = x[i] * 2
    if x.size == 4096:
        out[4095] += 1


@broken(twice, "sizes", "one element is wrong between two round sizes")
@numba.njit
def between_300_and_1000(x, out):
    for i in range(x.size):
        out[i] = x[i] * 2
    if 300 < x.size < 1000:
        out[x.size // 2] = 0


@broken(twice, "large", "elements after the first two million are not doubled")
@numba.njit
def above_two_million(x, out):
    for i in range(x.size):
        out[i] = x[i] * 2 if i < 2_000_000 else x[i]


# Memory beside the arrays, and memory that nobody has set.


@broken(twice, "compiled", "writes one element after the last")
@numba.njit
def writes_beyond(x, out):
    for i in range(x.size):
        out[i] = x[i] * 2
    if x.size:
        out[x.size] = out[x.size - 1]


@broken(twice, "indices", "reads the element before the first, by an unsigned index")
@numba.njit
def looks_back(x, out):
    for i in range(x.size):
        before = x[i - 1 + 0 * x.size] if i else x[np.uint64(i) - np.uint64(1)]
        out[i] = x[i] * 2 if before != 123.456 else 0


@broken(twice, ("threads", "repeat", "drawn"), "a small array is taken to begin as finite numbers")
@numba.njit
def small_empty_as_zeros(x, out):
    scratch = np.empty(64, np.float64)
    for i in range(x.size):
        out[i] = x[i] * 2 + scratch[i % 64] * 0.0


@broken(ADD, "errors", "unequal lengths are not refused", errors=ADD.errors)
@numba.njit
def unchecked_lengths(x, y, out):
    for i in range(out.size):
        out[i] = x[i] + y[i]


# Half precision.


@broken(total, "drawn", "adds numbers of 16 bits up in 16 bits", dtypes=HALVES)
@numba.njit
def half_accumulator(x, out):
    total = x.dtype.type(0)
    for i in range(x.size):
        total = x.dtype.type(total + x[i])
    out[0] = total


@broken(
    twice, "drawn", "bfloat16 numbers above 65504 become infinity on their way through float16", dtypes=("bfloat16",)
)
@numba.njit
def through_float16(x, out):
    for i in range(x.size):
        out[i] = np.float16(x[i]) * 2
