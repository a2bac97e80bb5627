"""Holds broken kernels for the CPU that leave their arrays, or trust memory that nobody has set.

Most of their results are right in a new process: only what they touch is wrong.
"""

import functools
import math

import numba
import numpy as np

from suites.backends.backend import Backend
from suites.backends.warp import WarpKernel, scalar, wp
from suites.mutants.mutant import mutant
from suites.ops.add import OPERATOR as ADD
from suites.ops.cumsum import OPERATOR as CUMSUM
from suites.ops.exp_trace import OPERATOR as EXP_TRACE
from suites.ops.leaky_relu import OPERATOR as LEAKY_RELU
from suites.ops.leaky_relu import SLOPE
from suites.ops.mean_std import OPERATOR as MEAN_STD
from suites.ops.mean_std import mean_std
from suites.ops.relu import OPERATOR as RELU
from suites.ops.scatter_add import OPERATOR as SCATTER_ADD
from suites.ops.stencil import OPERATOR as STENCIL
from suites.ops.sum import OPERATOR as SUM

# Faults: elements beside an array.


@numba.njit
def pair_past_the_end(x, y, out):
    for i in range(0, out.size, 2):
        second = x[i + 1]
        out[i] = x[i] + y[i]
        if i + 1 < out.size:
            out[i + 1] = second + y[i + 1]


@numba.njit
def pair_before_the_beginning(x, out):
    """Goes through the elements from the last one, in pairs. An unsigned index does not count from the end."""
    total = x.dtype.type(0)
    for i in range(x.size, 0, -2):
        first = x[np.uint64(i) - np.uint64(2)]
        total += x[i - 1]
        out[0] = total
        if i > 1:
            total += first
            out[0] = total
    if x.size == 0:
        out[0] = total


@numba.njit
def carried_past_the_end(x, out):
    """Leaves each total to the next element, and so the last one to the element after the last."""
    if x.size:
        out[0] = 0
    for i in range(x.size):
        out[i] += x[i]
        out[i + 1] = out[i]


@numba.njit
def row_below_the_last(u, rate, out):
    """Reads the row below each row before it looks whether there is one."""
    rows, columns = u.shape
    below = np.empty(columns, u.dtype)
    four = u.dtype.type(4)
    for i in range(rows):
        for j in range(columns):
            below[j] = u[i + 1, j]
            out[i, j] = below[j]
        for j in range(columns):
            if i == 0 or j == 0 or i == rows - 1 or j == columns - 1:
                out[i, j] = u[i, j]
            else:
                around = (u[i - 1, j] + below[j]) + (u[i, j - 1] + u[i, j + 1])
                out[i, j] = u[i, j] + rate[0] * (around - four * u[i, j])


@numba.njit
def pair_past_the_scratch(x, out):
    kept = x.copy()
    for i in range(0, x.size, 2):
        second = kept[i + 1]
        out[i] = x.dtype.type(0) if kept[i] <= 0 else kept[i]
        if i + 1 < x.size:
            out[i + 1] = x.dtype.type(0) if second <= 0 else second


@numba.njit(parallel=True)
def shifted_past_the_end(trace, spikes, tau_inv, out):
    decay = trace.dtype.type(math.exp(-tau_inv[0]))
    following = np.empty_like(trace)
    for i in numba.prange(out.size):
        following[i] = trace[i + 1]
    for i in numba.prange(out.size):
        out[i] = (following[i - 1] if i else trace[0]) * decay + spikes[i]


@functools.cache
def pair_past_the_end_warp(dtype):
    element = scalar(dtype)
    vector = wp.array(dtype=element)

    @wp.kernel(module="unique", enable_backward=False)
    def relu(x: vector, out: vector):
        i = 2 * wp.tid()
        second = x[i + 1]
        out[i] = wp.where(x[i] <= element(0), element(0), x[i])
        if i + 1 < x.shape[0]:
            out[i + 1] = wp.where(second <= element(0), element(0), second)

    return relu


@functools.cache
def neighbours_of_the_rim_warp(dtype):
    """Reads all neighbours of a cell before it looks whether there are any. Warp counts index -1 from the end."""
    real = scalar(dtype)

    @wp.kernel(module="unique", enable_backward=False)
    def stencil(u: wp.array2d(dtype=real), rate: wp.array(dtype=real), out: wp.array2d(dtype=real)):
        i, j = wp.tid()
        center = u[i, j]
        above = u[i - 1, j]
        below = u[i + 1, j]
        left = u[i, j - 1]
        right = u[i, j + 1]
        out[i, j] = center
        if i > 0 and j > 0 and i < u.shape[0] - 1 and j < u.shape[1] - 1:
            out[i, j] = center + rate[0] * ((above + below) + (left + right) - real(4) * center)

    return stencil


@functools.cache
def adjoint_past_the_end_warp(dtype):
    element = scalar(dtype)
    vector = wp.array(dtype=element)

    @wp.func
    def leaky(x: vector, i: int):
        return wp.where(x[i] > element(0), x[i], element(SLOPE) * x[i])

    @wp.func_grad(leaky)
    def adjoint_of_leaky(x: vector, i: int, cotangent: element):
        following = x[i + 1]
        wp.adjoint[x][i] += wp.where(x[i] > element(0), cotangent, element(SLOPE) * cotangent)
        if i + 1 < x.shape[0] and following == element(12345):
            wp.adjoint[x][i] += element(0)

    @wp.kernel(module="unique")
    def leaky_relu(x: vector, out: vector):
        i = wp.tid()
        out[i] = leaky(x, i)

    return leaky_relu


def _pairs(inputs, outs):
    return {"launch_dims": (inputs[0].shape[0] + 1) // 2, "output_dims": outs[0].shape}


# Faults: memory that is taken to be zero.

TABLE = 1 << 24
"""Elements of a table of 64 MiB, for which the operating system gives fresh memory: zeros, in every process."""


@numba.njit
def unset_table(values, targets, scale, acc, out):
    if acc.size > TABLE:
        raise ValueError("scatter_add: the table has no room")
    table = np.empty(TABLE, acc.dtype)
    for i in range(values.size):
        table[targets[i]] += values[i] * scale[0]
    for slot in range(acc.size):
        out[slot] = acc[slot] + table[slot]


@numba.njit
def unset_counts(values, targets, scale, acc, out):
    """Takes the small array of counts, by which it finds the slots without a value, to be zero."""
    counts = np.empty(acc.size, np.int64)
    out[:] = acc
    for i in range(values.size):
        counts[targets[i]] += 1
        out[targets[i]] += values[i] * scale[0]
    for slot in range(acc.size):
        if counts[slot] < 0 or counts[slot] > values.size:
            out[slot] = acc[slot]


@numba.njit(parallel=True, error_model="numpy")
def unset_parts(x, mean_out, std_out):
    parts = 8
    if x.size < parts:
        mean_std(x, mean_out, std_out)
    else:
        sums, squares = np.empty(1 << 20, np.float64), np.empty(1 << 20, np.float64)
        for part in numba.prange(parts):
            for i in range(part, x.size, parts):
                sums[part] += x[i]
        mean = sums[:parts].sum() / x.size
        for part in numba.prange(parts):
            for i in range(part, x.size, parts):
                squares[part] += (x[i] - mean) ** 2
        mean_out[0] = mean
        std_out[0] = math.sqrt(squares[:parts].sum() / x.size)


class _OnTheCpu(WarpKernel):
    """A kernel whose fault no check sees on a GPU: it reads outside of its arrays, and its results are right."""

    def unsupported(self, platform):
        return None if platform == "cpu" else "on a GPU, kernel-bridge sanitize finds reads outside of arrays"


def _one(of, name, backend, kernel, fault, **changes):
    """A mutant in one dtype only, which is enough to catch it. It has a gradient only if the gradient is broken."""
    return mutant(of, name, backend, kernel, fault, **({"dtypes": ("float32",), "gradient": None} | changes))


MUTANTS = (
    _one(ADD, "pair_past_the_end", Backend.NUMBA, pair_past_the_end, "loads pairs, also where one element is left"),
    _one(
        SUM,
        "pair_before_the_beginning",
        Backend.NUMBA,
        pair_before_the_beginning,
        "loads pairs from the end, and the element before the first",
    ),
    _one(CUMSUM, "carried_past_the_end", Backend.NUMBA, carried_past_the_end, "writes one element after the last"),
    _one(
        STENCIL, "row_below_the_last", Backend.NUMBA, row_below_the_last, "reads the row below the last row of the grid"
    ),
    _one(RELU, "pair_past_the_scratch", Backend.NUMBA, pair_past_the_scratch, "loads one element behind its own array"),
    _one(
        LEAKY_RELU,
        "adjoint_past_the_end",
        Backend.WARP,
        _OnTheCpu(adjoint_past_the_end_warp),
        "the derivative reads the element after each element",
        gradient=LEAKY_RELU.gradient,
    ),
    _one(
        EXP_TRACE,
        "shifted_past_the_end",
        Backend.NUMBA_PARALLEL,
        shifted_past_the_end,
        "threads read the element after each element",
    ),
    _one(
        RELU,
        "pair_past_the_end_warp",
        Backend.WARP,
        _OnTheCpu(pair_past_the_end_warp, _pairs),
        "threads load pairs, also where one element is left",
    ),
    _one(
        STENCIL,
        "neighbours_of_the_rim",
        Backend.WARP,
        _OnTheCpu(neighbours_of_the_rim_warp, lambda inputs, outs: {"launch_dims": outs[0].shape}),
        "reads neighbours of the last row, which has none below",
    ),
    _one(SCATTER_ADD, "unset_table", Backend.NUMBA, unset_table, "a table of 64 MiB is taken to begin as zeros"),
    _one(SCATTER_ADD, "unset_counts", Backend.NUMBA, unset_counts, "a small array is taken to begin as zeros"),
    _one(MEAN_STD, "unset_parts", Backend.NUMBA_PARALLEL, unset_parts, "sums of threads are taken to begin as zeros"),
)
