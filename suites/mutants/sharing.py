"""Holds Numba kernels that share memory between calls, keep old results, or change with the number of calls."""

import numba
import numpy as np

from suites.backends.backend import Backend
from suites.mutants.memory import address_of_zeros, array_at
from suites.mutants.mutant import mutant
from suites.ops.add import OPERATOR as ADD
from suites.ops.exp_decay import OPERATOR as EXP_DECAY
from suites.ops.hadamard import OPERATOR as HADAMARD
from suites.ops.histogram import OPERATOR as HISTOGRAM
from suites.ops.leaky_relu import OPERATOR as LEAKY_RELU
from suites.ops.leaky_relu import SLOPE
from suites.ops.relu import OPERATOR as RELU
from suites.ops.scatter_add import OPERATOR as SCATTER_ADD
from suites.ops.sum import OPERATOR as SUM

ROOM = 1 << 17
"""Elements in the memory that calls share: more than the largest sample has."""

# Faults of calls that overlap.

SHARED = address_of_zeros(ROOM, np.float32)


@numba.njit
def shared_copy(x, out):
    """Copies the input to memory that all calls share, and works on it there."""
    scratch = array_at(SHARED, x.size, np.float32)
    for i in range(x.size):
        scratch[i] = x[i]
    for i in range(x.size):
        out[i] = scratch[i] if not scratch[i] <= 0 else np.float32(0)


PARTIALS = address_of_zeros(ROOM, np.float64)
PART = 64


@numba.njit
def shared_partials(x, out):
    """Keeps the sums of its parts at a fixed address, as a static array of C would be."""
    parts = (x.size + PART - 1) // PART
    partials = array_at(PARTIALS, parts, np.float64)
    for part in range(parts):
        partials[part] = 0
        for i in range(part * PART, min((part + 1) * PART, x.size)):
            partials[part] += x[i]
    out[0] = partials.sum()


IN_USE = address_of_zeros(1, np.int64)


@numba.njit
def busy_flag(x, y, out):
    """Gives up where another call is at work."""
    flag = array_at(IN_USE, 1, np.int64)
    if flag[0]:
        out[:] = 0
        return
    flag[0] = 1
    for i in range(out.size):
        out[i] = x[i] + y[i]
    flag[0] = 0


# Faults of the threads of one call.


@numba.njit(parallel=True)
def racing_scatter(values, targets, scale, acc, out):
    out[:] = acc
    for i in numba.prange(values.size):
        out[targets[i]] += values[i] * scale[0]


@numba.njit(parallel=True)
def racing_counts(x, counts, out):
    out[:] = counts
    for i in numba.prange(x.size):
        if x[i] >= 0 and x[i] < out.size:
            out[np.int64(x[i])] += 1


# Faults that keep the result of an earlier call.

_KEY, _KEPT = 8, ROOM


def _keeping(of_inputs):
    """A sum of two vectors that returns its last result if a key of the inputs is the same.

    Args:
        of_inputs: A compiled function of both inputs and of an array of eight numbers, to which it writes the key.
    """
    key_address, kept_address = address_of_zeros(_KEY, np.float64), address_of_zeros(_KEPT, np.float32)

    @numba.njit
    def add(x, y, out):
        kept_key, kept = array_at(key_address, _KEY, np.float64), array_at(kept_address, x.size, np.float32)
        key = np.zeros(_KEY)
        key[0] = x.size + 1
        of_inputs(x, y, key)
        known = True
        for k in range(_KEY):
            known = known and key[k] == kept_key[k]
        if not known:
            for i in range(out.size):
                kept[i] = x[i] + y[i]
            kept_key[:] = key
        out[:] = kept

    return add


@numba.njit
def _addresses(x, y, key):
    key[1], key[2] = x.ctypes.data, y.ctypes.data


@numba.njit
def _first_elements(x, y, key):
    for i in range(min(3, x.size)):
        key[1 + i], key[4 + i] = x[i], y[i]


@numba.njit
def _both_ends(x, y, key):
    if x.size:
        key[1], key[2], key[3], key[4] = x[0], x[-1], y[0], y[-1]


@numba.njit
def _totals(x, y, key):
    for i in range(x.size):
        key[1] += x[i]
        key[2] += abs(x[i])
        key[3] += y[i]
        key[4] += abs(y[i])


@numba.njit
def _every_tenth(x, y, key):
    for i in range(0, x.size, 10):
        key[1] = key[1] * 31 + x[i]
        key[2] = key[2] * 31 + y[i]


# Faults that calls of other kinds leave behind.

LARGEST = address_of_zeros(1, np.int64)


@numba.njit
def largest_length(x, decay, out):
    """Keeps the length of the longest input, and stops a little earlier in shorter ones."""
    longest = array_at(LARGEST, 1, np.int64)
    longest[0] = max(longest[0], x.size)
    end = out.size - 1 if longest[0] > 2048 and out.size < 512 else out.size
    for i in range(out.size):
        out[i] = x[i]
    for i in range(end):
        out[i] = x[i] * np.exp(-decay[0])


FAILED = address_of_zeros(1, np.int64)


@numba.njit
def left_by_failure(x, y, out):
    """Sets a flag before the lengths are compared, and takes it back only after a call that succeeds."""
    flag = array_at(FAILED, 1, np.int64)
    after_failure = flag[0] != 0
    flag[0] = 1
    if x.size != y.size:
        raise ValueError("add: x and y must have one length")
    for i in range(out.size):
        out[i] = x[i] + y[i]
    if after_failure and out.size:
        out[0] = x[0]
    flag[0] = 0


# Faults that appear after many calls.

COUNTED, SHORT = address_of_zeros(1, np.int64), address_of_zeros(1, np.uint16)


@numba.njit
def first_thousands_only(A, B, out):
    """Right for the first ten thousand calls of a process."""
    calls = array_at(COUNTED, 1, np.int64)
    calls[0] += 1
    a, b, products = A.reshape(-1), B.reshape(-1), out.reshape(-1)
    for i in range(products.size):
        products[i] = a[i] * b[i] if calls[0] < 10_000 else a[i]


@numba.njit
def short_counter(x, out):
    """Counts calls in 16 bits, and begins anew with its set-up when the counter comes back to zero."""
    calls = array_at(SHORT, 1, np.uint16)
    calls[0] += 1
    slope = x.dtype.type(SLOPE) if calls[0] else x.dtype.type(0)
    for i in range(out.size):
        out[i] = x[i] if x[i] > 0 or x[i] != x[i] else slope * x[i]


def _numba(of, name, kernel, fault, **changes):
    """A mutant in one dtype only, which is enough to catch it."""
    return mutant(of, name, Backend.NUMBA, kernel, fault, **({"dtypes": ("float32",)} | changes))


def _parallel(of, name, kernel, fault):
    return mutant(of, name, Backend.NUMBA_PARALLEL, kernel, fault, dtypes=("float32",))


MUTANTS = (
    _numba(RELU, "shared_copy", shared_copy, "calls that overlap share a copy of the input"),
    _numba(SUM, "shared_partials", shared_partials, "calls that overlap share the sums of their parts"),
    _numba(ADD, "busy_flag", busy_flag, "returns zeros while another call is at work"),
    _parallel(SCATTER_ADD, "racing_scatter", racing_scatter, "threads add to one element at once"),
    _parallel(HISTOGRAM, "racing_counts", racing_counts, "threads count in one place at once"),
    _numba(ADD, "kept_by_address", _keeping(_addresses), "the last result is kept while addresses are the same"),
    _numba(ADD, "kept_by_start", _keeping(_first_elements), "the last result is kept if the first elements agree"),
    _numba(ADD, "kept_by_ends", _keeping(_both_ends), "the last result is kept if both ends agree"),
    _numba(ADD, "kept_by_total", _keeping(_totals), "the last result is kept if the sums agree"),
    _numba(ADD, "kept_by_sample", _keeping(_every_tenth), "the last result is kept if every tenth element agrees"),
    _numba(EXP_DECAY, "largest_length", largest_length, "short inputs after long ones lack their last element"),
    _numba(ADD, "left_by_failure", left_by_failure, "the call after one that fails is wrong", errors=ADD.errors),
    _numba(HADAMARD, "first_thousands_only", first_thousands_only, "wrong after ten thousand calls"),
    _numba(LEAKY_RELU, "short_counter", short_counter, "wrong once in 65,536 calls"),
)
