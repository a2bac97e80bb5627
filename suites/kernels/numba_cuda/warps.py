"""Combines values of the threads of a warp, and of a block, in Numba-CUDA kernels.

The 32 threads of a warp run together and read each other's registers (a *shuffle*), without shared memory and without
waiting for other warps. So a reduction over a block has two barriers instead of ten: each warp combines its own
values, and leaves one in shared memory for the others.

After a shuffle by ``xor`` both threads of a pair have combined the same two values. So all threads end with the same
bits, and the order of the operations depends on nothing but the number of threads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from suites.kernels.numba_cuda.blocks import cuda, device, overloads

WARP = 32
"""Threads of a warp."""

WARPS = 32
"""The most warps of a block: the slots that a block needs in shared memory for one value of each warp."""

_WARP_BITS = 5
_ALL = 0xFFFFFFFF
_WAIT_SECONDS = 60


@device
def place_in_block():
    """The number of this thread in its block of two dimensions. Threads of a warp have consecutive numbers."""
    return np.uint64(cuda.threadIdx.y) * np.uint64(cuda.blockDim.x) + np.uint64(cuda.threadIdx.x)


# Shuffles and votes. All threads of a warp must call them. Shuffled values are int32, int64, float32 or float64.


def shuffle_xor(value, mask):
    """The value of the thread whose lane differs from this one's by the bits of ``mask``."""
    return _exchanged(value, lambda lane: lane ^ mask)


def shuffle_up(value, distance):
    """The value of the lane that is ``distance`` lower; the own value where there is none."""
    return _exchanged(value, lambda lane: lane - distance if lane >= distance else lane)


def shuffle_from(value, lane):
    """The value of one lane."""
    return _exchanged(value, lambda _: lane)


def votes(flag):
    """A word whose bit of each lane says whether ``flag`` is true there."""
    return np.uint32(sum(bool(is_set) << lane for lane, is_set in _shown(flag).items()))


class _SimulatedWarp:
    """The values that the threads of a warp show each other in Numba's simulator, which has no shuffles.

    Values alternate between two places. A thread that shows its next but one value has passed the barrier of the next
    one, so all have read the value that it overwrites: one barrier for each exchange is enough.
    """

    def __init__(self, threads: int):
        self.barrier = threading.Barrier(threads)
        self.values: tuple[dict[int, Any], dict[int, Any]] = ({}, {})
        self.turns = [0] * threads


def _shown(value: Any) -> dict[int, Any]:
    """The values of all threads of the simulated warp, by lane."""
    thread: Any = threading.current_thread()
    number, block = int(thread.thread_id), thread._manager
    threads = min(WARP, int(np.prod(block._block_dim)) - number // WARP * WARP)
    warps = vars(block).setdefault("simulated_warps", {})
    warp = warps.setdefault(number // WARP, _SimulatedWarp(threads))
    lane = number % WARP
    values: dict[int, Any] = warp.values[warp.turns[lane] % 2]
    warp.turns[lane] += 1
    values[lane] = value
    warp.barrier.wait(_WAIT_SECONDS)
    return values


def _exchanged(value: Any, source: Callable[[int], int]) -> Any:
    """The value of another thread of the simulated warp."""
    thread: Any = threading.current_thread()
    return _shown(value).get(int(source(thread.thread_id % WARP)), value)


@overloads(shuffle_xor)
def _overload_xor(value, mask):
    return lambda value, mask: cuda.shfl_xor_sync(_ALL, value, mask)


@overloads(shuffle_up)
def _overload_up(value, distance):
    return lambda value, distance: cuda.shfl_up_sync(_ALL, value, distance)


@overloads(shuffle_from)
def _overload_from(value, lane):
    return lambda value, lane: cuda.shfl_sync(_ALL, value, lane)


@overloads(votes)
def _overload_votes(flag):
    return lambda flag: np.uint32(cuda.ballot_sync(_ALL, flag))


@device
def slots_of_group(lanes):
    """The slot in shared memory of a warp that shares a group with this one, another in each lane, and the own slot.

    The numbers are powers of two, so masks replace divisions: a division of 64 bits takes a hundred instructions.
    """
    place = place_in_block()
    warp, rest = place >> np.uint64(_WARP_BITS), np.uint64(lanes >> _WARP_BITS) - np.uint64(1)
    return warp - (warp & rest) + (place & rest), warp


def lanes_combined(combine: Callable[..., Any]) -> Any:
    """Makes the device function that combines values of groups of threads by an associative, commutative function.

    It takes ``(shared, value, lanes)``. Each ``lanes`` consecutive threads of a block, a power of two, are a group, and
    all its threads get its result. All threads of a block must call it, with the same ``lanes``. ``shared`` has
    WARPS elements; the function waits until all threads have read them.

    Args:
        combine: A device function of two values.
    """

    @device
    def of_lanes(shared, value, lanes):
        reach = min(lanes, WARP) >> 1
        while reach > 0:
            value = combine(value, shuffle_xor(value, reach))
            reach >>= 1
        if lanes > WARP:
            slot, own = slots_of_group(lanes)
            if place_in_block() % np.uint64(WARP) == np.uint64(0):
                shared[own] = value
            cuda.syncthreads()
            value = shared[slot]
            reach = lanes >> _WARP_BITS + 1
            while reach > 0:
                value = combine(value, shuffle_xor(value, reach))
                reach >>= 1
            cuda.syncthreads()
        return value

    return of_lanes


@device
def _sum(a, b):
    return a + b


sum_of_lanes = lanes_combined(_sum)
"""Adds up the values of groups of threads, see :func:`lanes_combined`."""


@device
def larger(a, b):
    """The larger of two numbers, the second if one is NaN."""
    return a if a > b else b


largest_of_lanes = lanes_combined(larger)
"""The largest value of groups of threads, see :func:`lanes_combined`."""
