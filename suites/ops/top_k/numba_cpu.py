"""Kernels of top_k in Numba, for CPUs."""

import numba

from suites.kernels.numba_cpu.blocks import ONE_THREAD_BELOW

K = 4
"""How many elements of a row are chosen."""

COLUMNS = f"top_k: x must have at least {K} columns"


@numba.njit
def largest_of_row(x, values, indices):
    """Inserts each element into the sorted ones before it, of which the K largest remain."""
    for j in range(x.size):
        value, place = x[j], min(j, K)
        while place > 0 and value > values[place - 1]:
            if place < K:
                values[place], indices[place] = values[place - 1], indices[place - 1]
            place -= 1
        if place < K:
            values[place], indices[place] = value, j


@numba.njit
def top_k(x, values, indices):
    if x.shape[1] < K:
        raise ValueError(COLUMNS)
    for i in range(x.shape[0]):
        largest_of_row(x[i], values[i], indices[i])


@numba.njit(parallel=True)
def top_k_parallel(x, values, indices):
    if x.shape[1] < K:
        raise ValueError(COLUMNS)
    if x.size < ONE_THREAD_BELOW:
        top_k(x, values, indices)
    else:
        for i in numba.prange(x.shape[0]):
            largest_of_row(x[i], values[i], indices[i])
