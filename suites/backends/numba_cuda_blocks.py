"""Numba-CUDA building blocks that the operators' kernels share: tiles of independent loads, sums over groups of lanes.

A machine without numba-cuda can import the operators all the same: kernels are then left as the functions they are made
of, and :data:`MISSING` says why they cannot run.

Bandwidth: by Little's law a GPU that moves 4.8 TB/s with 700 ns of latency has 3.4 MB under way, 25 KB on each of its
132 multiprocessors. With 2048 threads on each that is three or four floats per thread. So each thread asks for
:data:`LOADS` elements before it writes the first: a load after a store waits, because the compiler must assume that the
store may have changed what is loaded. The elements of a thread lie a block apart, so that each load of a warp is
contiguous.

Indices are unsigned, because Numba takes signed ones that are negative from the end, at three instructions per access.
They are 64 bits wide throughout: Numba makes a float of a signed and an unsigned 64-bit integer.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

MISSING: str | None = None
"""Why there are no CUDA kernels, None if there are."""

cuda: Any = None
if importlib.util.find_spec("numba_cuda") is None:
    MISSING = "numba-cuda is not installed (extra cuda12 or cuda13)"
else:
    try:
        cuda = importlib.import_module("numba.cuda")
    except ImportError as error:
        MISSING = f"numba-cuda does not import: {error}"

NO_CUDA_CORE = (
    None
    if importlib.util.find_spec("cuda") and importlib.util.find_spec("cuda.core")
    else "cuda-core is not installed (extra cuda12 or cuda13)"
)
"""Why there is no compiler of CUDA C++, None if there is one."""

THREADS = 256
"""Threads of a block."""

LOADS = 4
"""Elements of each array that a thread loads before it stores anything."""

PARTIALS = 1024
"""Blocks of a reduction at most: they fill a GPU, and one block can add up their results."""

ONE_BLOCK_UP_TO = 1 << 12
"""Elements that one block reduces by itself: a second launch would take longer."""

LONG = 32
"""Terms per lane of a row above which all threads of a block share it."""


def kernel(function: Callable[..., None]) -> Any:
    """``numba.cuda.jit``, or the function itself where there is no numba-cuda."""
    return function if cuda is None else cuda.jit(function)


def device(function: Callable[..., Any]) -> Any:
    """``numba.cuda.jit(device=True)``, or the function itself where there is no numba-cuda."""
    return function if cuda is None else cuda.jit(device=True)(function)


# How a launch is shaped: from specs or arrays to the launch arguments of bridge.numba_cuda_kernel.


def tiles(inputs: Sequence[Any], outs: Sequence[Any]) -> dict[str, Any]:
    """The launch of a kernel that uses :func:`tile` on its first output."""
    return {"grid": tile_count(math.prod(outs[0].shape)), "block": THREADS}


def tile_count(size: int) -> int:
    """Blocks for ``size`` elements, :data:`LOADS` per thread."""
    return -(-size // (THREADS * LOADS))


def partial_count(size: int) -> int:
    """Blocks that reduce a vector, each to one element; 1 where no second pass is worth it."""
    return 1 if size <= ONE_BLOCK_UP_TO else min(PARTIALS, tile_count(size))


def rows_of(rows: int, terms: float) -> dict[str, Any]:
    """The launch of a kernel that sums rows, each by the threads of one ``threadIdx.y``.

    As many threads share a row as make :data:`LOADS` terms for each: fewer would make long rows slow, more would have
    nothing to do.

    Args:
        rows: How many rows there are.
        terms: The mean number of terms in a row.
    """
    lanes = 1
    while lanes < THREADS and lanes * LOADS < terms:
        lanes *= 2
    # Kernels go on to further rows where there are more than a million blocks' worth.
    return {"grid": min(-(-rows // (THREADS // lanes)), 1 << 20), "block": (lanes, THREADS // lanes)}


def csr_rows_of(inputs: Sequence[Any], outs: Sequence[Any]) -> dict[str, Any]:
    """The launch of a kernel of :func:`csr_row_sums`, from the arrays of a call: ``data`` is the first."""
    rows = outs[0].shape[0]
    return rows_of(rows, inputs[0].shape[0] / max(rows, 1))


# What kernels are made of.


@device
def tile(size):
    """Where this thread's elements are: the first, the distance to the next, and whether all LOADS are within size."""
    step = np.uint64(cuda.blockDim.x)
    first = np.uint64(cuda.blockIdx.x) * step * np.uint64(LOADS) + np.uint64(cuda.threadIdx.x)
    return first, step, first + step * np.uint64(LOADS - 1) < np.uint64(size)


def widened(value):
    """The value in the type to compute in: float32 for float16, whose arithmetic would be a function call each."""
    return value


def quotient(dividend, divisor):
    """The quotient; in float32 to 2 ulp, which takes a fifth of the instructions of the rounded one.

    Divisors above 2**126 give zero instead of a denormal number (CUDA Math API, ``__fdividef``).
    """
    return dividend / divisor


if cuda is not None and hasattr(cuda, "extending"):  # the simulator takes widened itself

    @cuda.extending.overload(widened)
    def _widened(value):
        if str(value) == "float16":
            return lambda value: np.float32(value)
        return lambda value: value

    @cuda.extending.overload(quotient)
    def _quotient(dividend, divisor):
        if str(dividend) == str(divisor) == "float32":
            return lambda dividend, divisor: cuda.libdevice.fast_fdividef(dividend, divisor)
        return lambda dividend, divisor: dividend / divisor


@device
def load(x, i, step):
    """LOADS elements of a vector, ``step`` apart, :func:`widened`."""
    return (
        widened(x[i]),
        widened(x[i + step]),
        widened(x[i + step * np.uint64(2)]),
        widened(x[i + step * np.uint64(3)]),
    )


@device
def store(out, i, step, values):
    """The counterpart of :func:`load`."""
    out[i] = values[0]
    out[i + step] = values[1]
    out[i + step * np.uint64(2)] = values[2]
    out[i + step * np.uint64(3)] = values[3]


@device
def sum_lanes(shared, value, lanes):
    """Sum of ``value`` over each group of ``lanes`` threads that follow each other; all threads of a block call it.

    ``lanes`` is a power of two, and the same for all threads. ``shared`` has an element per thread.
    """
    place = cuda.threadIdx.y * cuda.blockDim.x + cuda.threadIdx.x
    lane = place % lanes
    shared[place] = value
    cuda.syncthreads()
    width = lanes // 2
    while width > 0:
        if lane < width:
            shared[place] += shared[place + width]
        cuda.syncthreads()
        width //= 2
    total = shared[place - lane]
    cuda.syncthreads()  # before a further call overwrites what a slower thread still has to read
    return total


@device
def strided_sum(x, first, stride):
    """Sum of ``x[first::stride]``, in LOADS chains that do not wait for each other."""
    i, step, size = np.uint64(first), np.uint64(stride), np.uint64(x.size)
    a = b = c = d = x.dtype.type(0)
    while i + step * np.uint64(3) < size:
        values = load(x, i, step)
        a += values[0]
        b += values[1]
        c += values[2]
        d += values[3]
        i += step * np.uint64(4)
    while i < size:
        a += x[i]
        i += step
    return (a + b) + (c + d)


@kernel
def add_up(x, sums):
    """``sums[b]`` is the sum of what block b takes of x; all elements are taken."""
    shared = cuda.shared.array(THREADS, x.dtype)
    total = sum_lanes(shared, strided_sum(x, cuda.grid(1), cuda.gridsize(1)), THREADS)
    if cuda.threadIdx.x == 0:
        sums[cuda.blockIdx.x] = total


def csr_row_sums(part: Callable[..., Any]) -> Any:
    """The kernel of ``(data, indices, indptr, x, out)`` that sums the rows of a CSR matrix times x.

    Rows are summed by a few lanes each, as many as the mean row keeps busy (:func:`csr_rows_of`); far longer ones by
    the whole block. Lanes of short rows would idle in a warp per row, and a long row would keep a single lane, and with
    it the block, for as long as it has elements.

    Args:
        part: Of ``(data, indices, x, first, stop, step)``, on the device: the sum over those elements of a row.
    """

    @kernel
    def row_sums(data, indices, indptr, x, out):
        shared = cuda.shared.array(THREADS, out.dtype)
        rows, lanes, height = np.uint64(out.size), np.uint64(cuda.blockDim.x), np.uint64(cuda.blockDim.y)
        lane = np.uint64(cuda.threadIdx.x)
        first = np.uint64(cuda.blockIdx.x) * height
        while first < rows:  # alike for all threads of a block, which meet in sum_lanes
            row = first + np.uint64(cuda.threadIdx.y)
            start, stop = np.uint64(0), np.uint64(0)
            if row < rows:
                start, stop = np.uint64(indptr[row]), np.uint64(indptr[row + np.uint64(1)])
            is_long = stop - start > lanes * np.uint64(LONG)
            total = data.dtype.type(0)
            if not is_long:
                total = part(data, indices, x, start + lane, stop, lanes)
            total = sum_lanes(shared, total, cuda.blockDim.x)
            if lane == np.uint64(0) and row < rows and not is_long:
                out[row] = total
            if cuda.syncthreads_or(1 if is_long else 0):
                place = np.uint64(cuda.threadIdx.y) * lanes + lane
                row = first
                while row < rows and row < first + height:
                    start, stop = np.uint64(indptr[row]), np.uint64(indptr[row + np.uint64(1)])
                    if stop - start > lanes * np.uint64(LONG):
                        total = part(data, indices, x, start + place, stop, np.uint64(THREADS))
                        total = sum_lanes(shared, total, THREADS)
                        if place == np.uint64(0):
                            out[row] = total
                    row += np.uint64(1)
            first += np.uint64(cuda.gridDim.x) * height

    return row_sums
