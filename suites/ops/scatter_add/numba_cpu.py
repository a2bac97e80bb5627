"""Kernels of scatter_add in Numba, for CPUs."""

import numba
import numpy as np

from suites.kernels.numba_cpu.blocks import ONE_THREAD_BELOW, add_partials, copy_to
from suites.kernels.numba_cpu.wide import round_to, sums_for


@numba.njit
def scatter_part(values, targets, factor, out, first, last):
    """Adds the values from ``first`` up to ``last``."""
    for i in range(first, last):
        out[np.uint32(targets[i])] += values[i] * factor


@numba.njit
def scatter_add(values, targets, scale, acc, out):
    if values.size != targets.size:
        raise ValueError("scatter_add: values and targets must have one length")
    sums = sums_for(out)
    copy_to(sums, acc)
    scatter_part(values, targets, scale[0], sums, 0, values.size)
    round_to(out, sums)


@numba.njit(parallel=True)
def scatter_add_parallel(values, targets, scale, acc, out):
    """Each part of the values has its own accumulator, so that no two threads share an element.

    There are at most as many parts as values per element. So the accumulators take no more work than the values.
    """
    parts = min(numba.get_num_threads(), values.size // max(acc.size, 1))
    if values.size < ONE_THREAD_BELOW or parts < 2:
        scatter_add(values, targets, scale, acc, out)
    else:
        if values.size != targets.size:
            raise ValueError("scatter_add: values and targets must have one length")
        partials = np.zeros((parts, acc.size), sums_for(acc[:0]).dtype)
        for part in numba.prange(parts):
            first, last = values.size * part // parts, values.size * (part + 1) // parts
            scatter_part(values, targets, scale[0], partials[part], first, last)
        add_partials(acc, partials, out)


LENGTHS = "scatter_add: values and targets must have one length"
