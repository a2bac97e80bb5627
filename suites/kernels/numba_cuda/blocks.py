"""Gives Numba-CUDA kernels tiles of loads, and sums over groups of threads.

A machine without numba-cuda can import the operators too. There the decorators return the Python function itself,
and :data:`MISSING` says why it cannot run.

Bandwidth: by Little's law a GPU that moves 4.8 TB/s with a latency of 700 ns has 3.4 MB under way, 25 KB on each of its
132 multiprocessors. With 2048 threads on each, that is three or four floats per thread. So each thread loads
:data:`LOADS` elements before it stores the first. A load after a store would wait, because the compiler must assume
that the store changed the loaded value. The elements of a thread lie a block apart, so that each load of a warp is
contiguous.

Indices are unsigned: Numba counts negative indices from the end, which costs three more instructions per access with
a signed index. All are 64 bits wide: arithmetic on a signed and an unsigned 64-bit integer gives a float in Numba.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

MISSING: str | None = None
"""Why CUDA kernels cannot be compiled; None if they can."""

cuda: Any = None
if importlib.util.find_spec("numba_cuda") is None:
    MISSING = "numba-cuda is not installed (extra cuda12 or cuda13)"
else:
    try:
        cuda = importlib.import_module("numba.cuda")
    except ImportError as error:
        MISSING = f"numba-cuda does not import: {error}"


def missing() -> str | None:
    """Returns :data:`MISSING`."""
    return MISSING


THREADS = 256
"""Threads of a block."""

LOADS = 4
"""Elements of each array that a thread loads before it stores anything."""

PARTIALS = 1024
"""The most blocks of a reduction: they fill a GPU, and one block can add up their results."""

ONE_BLOCK_UP_TO = 1 << 12
"""Up to so many elements one block reduces by itself: a second launch would take longer."""

LONG = 32
"""All threads of a block share a row with more terms per lane than this."""


def kernel(function: Callable[..., None]) -> Any:
    """``numba.cuda.jit``, or the function itself where there is no numba-cuda."""
    return function if cuda is None else cuda.jit(function)


def roomy_kernel(threads: int, blocks: int) -> Callable[[Callable[..., None]], Any]:
    """Makes a decorator like :func:`kernel` that lets threads keep more loads under way.

    The assembler does not know how many threads a launch has. It assumes many and saves registers for them, so it uses
    the first loads before it begins the last: of eight loads of 16 bytes, three were under way. Told that two blocks of
    512 threads are enough for a multiprocessor, it gives each thread 64 of the 65,536 registers, and begins all eight.

    Args:
        threads: The most threads of a block. A launch with more fails.
        blocks: How many such blocks have room on a multiprocessor at once.
    """

    def decorate(function: Callable[..., None]) -> Any:
        if cuda is None or not hasattr(cuda, "extending"):  # the simulator knows no such bounds
            return kernel(function)
        return cuda.jit(launch_bounds=(threads, blocks))(function)

    return decorate


def device(function: Callable[..., Any]) -> Any:
    """``numba.cuda.jit(device=True)``, or the function itself where there is no numba-cuda."""
    return function if cuda is None else cuda.jit(device=True)(function)


OVERLOADS: list[tuple[Callable[..., Any], Any]] = []
"""The functions whose code in kernels is Python, each with the function of types that returns this code."""


def overloads(function: Callable[..., Any]) -> Callable[[Any], Any]:
    """Makes a decorator like ``cuda.extending.overload``, for Python code that each compiler of kernels takes."""

    def decorate(code_of: Any) -> Any:
        OVERLOADS.append((function, code_of))
        if cuda is None or not hasattr(cuda, "extending"):  # the simulator calls the Python function
            return code_of
        return cuda.extending.overload(function)(code_of)

    return decorate


# Launches: functions of specs or arrays that return the launch arguments of bridge.numba_cuda_kernel.


def tiles(inputs: Sequence[Any], outs: Sequence[Any]) -> dict[str, Any]:
    """The launch of a kernel that uses :func:`tile` on its first output."""
    return {"grid": tile_count(math.prod(outs[0].shape)), "block": THREADS}


def tile_count(size: int) -> int:
    """Blocks for ``size`` elements, :data:`LOADS` per thread."""
    return -(-size // (THREADS * LOADS))


def partial_count(size: int) -> int:
    """Blocks that reduce a vector, each to one element; 1 where a second pass is not worth it."""
    return 1 if size <= ONE_BLOCK_UP_TO else min(PARTIALS, tile_count(size))


def rows_of(rows: int, terms: float) -> dict[str, Any]:
    """The launch of a kernel that sums rows. The threads with one ``threadIdx.y`` share a row.

    Each of these threads adds up about :data:`LOADS` terms. With fewer threads, long rows would be slow; with
    more, some threads would have nothing to do.

    Args:
        rows: How many rows there are.
        terms: The mean number of terms in a row.
    """
    lanes = 1
    while lanes < THREADS and lanes * LOADS < terms:
        lanes *= 2
    # With rows for more than a million blocks, each block goes on to further rows.
    return {"grid": min(-(-rows // (THREADS // lanes)), 1 << 20), "block": (lanes, THREADS // lanes)}


# Parts of kernels.


@device
def tile(size):
    """The first element of this thread, the distance to its next one, and whether all LOADS of them are within size."""
    step = np.uint64(cuda.blockDim.x)
    first = np.uint64(cuda.blockIdx.x) * step * np.uint64(LOADS) + np.uint64(cuda.threadIdx.x)
    return first, step, first + step * np.uint64(LOADS - 1) < np.uint64(size)


def widened(value):
    """The value in the type to compute in: float32 for one of 16 bits, whose sums would lose digits."""
    return value


def wide_number(x, value):
    """A number of the dtype that elements of an array are computed in, see :func:`widened`."""
    return x.dtype.type(value)


def wide_dtype(x):
    """The dtype that elements of an array are computed in, see :func:`widened`."""
    return x.dtype


def quotient(dividend, divisor):
    """The quotient. In float32 it is exact to 2 ulp, with a fifth of the instructions of the rounded one.

    Divisors above 2**126 give zero instead of a denormal number (CUDA Math API, ``__fdividef``).
    """
    return dividend / divisor


_HALVES = ("float16", "bfloat16", "__nv_bfloat16")


@overloads(widened)
def _widened(value):
    return (lambda value: np.float32(value)) if str(value) in _HALVES else lambda value: value


@overloads(wide_number)
def _wide_number(x, value):
    if str(x.dtype) in _HALVES:
        return lambda x, value: np.float32(value)
    return lambda x, value: x.dtype.type(value)


@overloads(wide_dtype)
def _wide_dtype(x):
    return (lambda x: np.float32) if str(x.dtype) in _HALVES else lambda x: x.dtype


@overloads(quotient)
def _quotient(dividend, divisor):
    if str(dividend) == str(divisor) == "float32":
        return lambda dividend, divisor: cuda.libdevice.fast_fdividef(dividend, divisor)
    return lambda dividend, divisor: dividend / divisor


@device
def load(x, i, step):
    """LOADS elements of a vector, ``step`` apart, each :func:`widened`."""
    return (
        widened(x[i]),
        widened(x[i + step]),
        widened(x[i + step * np.uint64(2)]),
        widened(x[i + step * np.uint64(3)]),
    )


@device
def store(out, i, step, values):
    """Stores LOADS values, ``step`` apart."""
    out[i] = values[0]
    out[i + step] = values[1]
    out[i + step * np.uint64(2)] = values[2]
    out[i + step * np.uint64(3)] = values[3]


@device
def sum_lanes(shared, value, lanes):
    """Sum of ``value`` over each group of ``lanes`` consecutive threads. All threads of a block must call it.

    ``lanes`` is a power of two, the same for all threads. ``shared`` has an element per thread.
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
    cuda.syncthreads()  # a slower thread must have read its sum before the next call overwrites it
    return total
