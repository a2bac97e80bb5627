"""Kernels of embedding in Numba, for CPUs."""

import numba
import numpy as np

from suites.kernels.numba_cpu.blocks import ONE_THREAD_BELOW, copy_to


@numba.njit
def embedding(table, indices, out):
    for i in range(indices.size):
        copy_to(out[i], table[np.uint32(indices[i])])


@numba.njit(parallel=True)
def embedding_parallel(table, indices, out):
    if out.size < ONE_THREAD_BELOW:
        embedding(table, indices, out)
    else:
        for i in numba.prange(indices.size):
            copy_to(out[i], table[np.uint32(indices[i])])
