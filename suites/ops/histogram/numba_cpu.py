"""Kernels of histogram in Numba, for CPUs."""

import numba
import numpy as np

from suites.kernels.blocked_sums import BLOCK
from suites.kernels.numba_cpu.blocks import ONE_THREAD_BELOW, copy_to
from suites.kernels.numba_cpu.wide import sums_for


@numba.njit
def add_counts(x, out):
    """Adds the counts of x to ``out``, a block of x at a time: it finds bins with vector instructions, then counts.

    It counts in two tables in turn, so that equal neighbours need not wait for each other. The last element of a table
    counts the elements outside of all bins: a branch would be mispredicted.
    """
    bins, outside, zero = sums_for(x[:0]).dtype.type(out.size), np.int32(out.size), x.dtype.type(0)
    table, other = np.zeros(out.size + 1, out.dtype), np.zeros(out.size + 1, out.dtype)
    places = np.empty(BLOCK, np.uint32)
    for first in range(0, x.size, BLOCK):
        block = x[first : first + BLOCK]
        for i in range(block.size):
            inside = (block[i] >= zero) & (block[i] < bins)
            places[i] = np.int32(block[i]) if inside else outside
        half = block.size // 2
        for i in range(half):
            table[places[i]] += 1
            other[places[i + half]] += 1
        if block.size % 2:
            table[places[block.size - 1]] += 1
    for i in range(out.size):
        out[i] += table[i] + other[i]


@numba.njit
def histogram(x, counts, out):
    copy_to(out, counts)
    add_counts(x, out)


@numba.njit(parallel=True)
def histogram_parallel(x, counts, out):
    """Each part of x has its own bins. There are at most as many parts as elements per bin."""
    parts = min(numba.get_num_threads(), x.size // max(counts.size, 1))
    if x.size < ONE_THREAD_BELOW or parts < 2:
        histogram(x, counts, out)
    else:
        partials = np.zeros((parts, counts.size), counts.dtype)
        for part in numba.prange(parts):
            add_counts(x[x.size * part // parts : x.size * (part + 1) // parts], partials[part])
        copy_to(out, counts)
        for part in range(parts):
            for i in range(counts.size):
                out[i] += partials[part, i]
