"""Kernels of linear_recurrence in Numba, for CPUs."""

import numba

from suites.kernels.numba_cpu.blocks import ONE_THREAD_BELOW
from suites.kernels.numba_cpu.wide import round_to, sums_for

CACHE_LINE = 16
"""The fewest channels of a thread: with fewer, two threads would write to one line of a cache."""


@numba.njit
def step(a, b, before, after):
    """One step of all channels."""
    for c in range(after.size):
        after[c] = a[c] * before[c] + b[c]


@numba.njit
def steps_of(a, b, initial, out, first, last):
    """All steps of the channels from ``first`` up to ``last``; states of 16 bits are rounded for the results alone."""
    if out.shape[0]:
        state = sums_for(out[0, first:last])
        step(a[0, first:last], b[0, first:last], initial[first:last], state)
        round_to(out[0, first:last], state)
    for t in range(1, out.shape[0]):
        before, state = state, sums_for(out[t, first:last])
        step(a[t, first:last], b[t, first:last], before, state)
        round_to(out[t, first:last], state)


@numba.njit
def linear_recurrence(a, b, initial, out):
    if a.shape != b.shape or a.shape[1] != initial.size:
        raise ValueError("linear_recurrence: a and b must have one shape, and initial an element for each column")
    steps_of(a, b, initial, out, 0, initial.size)


@numba.njit(parallel=True)
def linear_recurrence_parallel(a, b, initial, out):
    """Each thread has its own channels: sharing the steps of a channel would take twice the work."""
    parts = min(numba.get_num_threads(), initial.size // CACHE_LINE)
    if out.size < ONE_THREAD_BELOW or parts < 2:
        linear_recurrence(a, b, initial, out)
    else:
        if a.shape != b.shape or a.shape[1] != initial.size:
            raise ValueError("linear_recurrence: a and b must have one shape, and initial an element for each column")
        lines = initial.size // CACHE_LINE
        for part in numba.prange(parts):
            first = lines * part // parts * CACHE_LINE
            last = lines * (part + 1) // parts * CACHE_LINE if part + 1 < parts else initial.size
            steps_of(a, b, initial, out, first, last)
