"""Holds broken Numba kernels that keep something between calls, race with each other, or know that they are tested."""

import numba
import numpy as np
from jax import numpy as jnp

from suites.backends import BACKENDS
from suites.backends.numba_cpu import NumbaKernel
from suites.mutants.memory import address_of_zeros, array_at
from suites.mutants.mutant import table
from suites.ops.add import OPERATOR as ADD
from suites.ops.matvec import OPERATOR as MATVEC
from suites.ops.scatter_add import OPERATOR as SCATTER_ADD

MUTANTS, broken = table(BACKENDS["numba"])
ROOM = 1 << 22
"""Elements in the memory that calls share."""


def twice(x):
    return x * 2


# Results of an earlier call.

LAST_ADDRESS, LAST_RESULT, LAST_KEY = (address_of_zeros(ROOM, kind) for kind in (np.uint64, np.float32, np.float64))


@broken(twice, "endurance", "the last result is kept while the address is the same")  # the address of a copy: it varies
@numba.njit
def kept_by_address(x, out):
    key, results = array_at(LAST_ADDRESS, 2, np.uint64), array_at(LAST_RESULT, x.size, np.float32)
    if key[0] != x.ctypes.data or key[1] != x.size:
        for i in range(x.size):
            results[i] = x[i] * 2
        key[0], key[1] = x.ctypes.data, x.size
    out[:] = results


SAMPLED = address_of_zeros(ROOM, np.float32)


@broken(twice, "addresses", "the last result is kept if every tenth element agrees")
@numba.njit
def kept_by_sample(x, out):
    key, results = array_at(LAST_KEY, ROOM // 10, np.float64), array_at(SAMPLED, x.size, np.float32)
    agrees = key[0] == x.size
    for i in range(0, x.size, 10):
        agrees = agrees and key[1 + i // 10] == x[i]
        key[1 + i // 10] = x[i]
    key[0] = x.size
    if not agrees:
        for i in range(x.size):
            results[i] = x[i] * 2
    out[:] = results


# Calls that overlap.

SCRATCH = address_of_zeros(ROOM, np.float64)


SMALL_SCRATCH = address_of_zeros(8192, np.float64)


@broken(twice, "threads", "calls that overlap share a temporary array")
@numba.njit
def shared_scratch(x, out):
    scratch = array_at(SCRATCH, ROOM, np.float64)
    for i in range(x.size):
        scratch[i] = x[i] * 2
    for i in range(x.size):
        out[i] = scratch[i]


@broken(twice, "threads", "small inputs share a temporary array, large ones have their own")
@numba.njit
def scratch_of_small_inputs(x, out):
    scratch = np.empty(x.size)
    if x.size <= 8192:
        scratch = array_at(SMALL_SCRATCH, 8192, np.float64)
    for i in range(x.size):
        scratch[i] = x[i] * 2
    for i in range(x.size):
        out[i] = scratch[i]


# The threads of one call.


@broken(
    SCATTER_ADD,
    ("repeat", "large", "threads"),
    "threads add to one element at once",
    backend=BACKENDS["numba_parallel"],
)
@numba.njit(parallel=True)
def racing_scatter(values, targets, scale, acc, out):
    out[:] = acc
    for i in numba.prange(values.size):
        out[targets[i]] += values[i] * scale[0]


@broken(
    lambda x: jnp.sum(x, keepdims=True), ("large", "sizes"), "elements beyond the last full part are left out",
    backend=BACKENDS["numba_parallel"],
)  # fmt: skip
@numba.njit(parallel=True)
def full_parts_only(x, out):
    parts, total = max(x.size // 4096, 1), 0.0
    size = x.size if x.size < 16384 else parts * 4096
    for part in numba.prange(parts):
        for i in range(part * size // parts, (part + 1) * size // parts):
            total += x[i]
    out[0] = total


# Other calls in a row.

CALLS, COUNTED = address_of_zeros(1, np.int64), address_of_zeros(1, np.int64)


@broken(MATVEC, "repeat", "sums of small matrices begin at either end in turn")
@numba.njit
def alternating_order(A, x, out):
    calls = array_at(CALLS, 1, np.int64)
    calls[0] += 1
    backwards = A.size < 128 and calls[0] % 2 == 1
    for row in range(out.size):
        total = A.dtype.type(0)
        for k in range(x.size):
            j = x.size - 1 - k if backwards else k
            total += A[row, j] * x[j]
        out[row] = total


@broken(twice, "endurance", "results are zero after 2000 calls")
@numba.njit
def tires(x, out):
    calls = array_at(COUNTED, 1, np.int64)
    calls[0] += 1
    for i in range(x.size):
        out[i] = x[i] * 2 if calls[0] < 2000 else 0


# Updates in place.

LAST = address_of_zeros(1, np.uint64)


@broken(
    ADD, "in place", "memory that the last call updated is not updated again",
    make=lambda it: NumbaKernel(it, {0: 0}),
)  # fmt: skip
@numba.njit
def done_before(x, y, out):
    last = array_at(LAST, 1, np.uint64)
    if last[0] != out.ctypes.data or out.size != 33:
        for i in range(out.size):
            out[i] = x[i] + y[i]
    last[0] = out.ctypes.data


@broken(
    lambda x: x + jnp.roll(x, 1), "in place", "reads elements that it has overwritten",
    make=lambda it: NumbaKernel(it, {0: 0}),
)  # fmt: skip
@numba.njit
def overwritten_neighbour(x, out):
    last = x[-1] if x.size else 0
    for i in range(out.size):
        out[i] = x[i] + (x[i - 1] if i else last)
