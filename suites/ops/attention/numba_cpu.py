"""Kernels of attention in Numba, for CPUs."""

import math

import numba
import numpy as np

from suites.kernels.numba_cpu.blocks import ONE_THREAD_BELOW, block_dot
from suites.kernels.numba_cpu.wide import round_to, sums_for


@numba.njit(error_model="numpy")
def attend(q, k, v, i, h, out):
    """The result of query i of head h. A score that is larger than all before scales down their sum."""
    one, total = q.dtype.type(1), q.dtype.type(0)
    shared = h * k.shape[1] // q.shape[1]
    scale, largest = one / math.sqrt(q.dtype.type(q.shape[2])), q.dtype.type(-np.inf)
    own = sums_for(out[i, h])
    own[:] = 0
    for j in range(i + 1):
        score = block_dot(q[i, h], k[j, shared]) * scale
        if score > largest:
            fade = math.exp(largest - score)
            largest, total = score, total * fade
            for d in range(own.size):
                own[d] *= fade
        weight = math.exp(score - largest)
        total += weight
        for d in range(own.size):
            own[d] += weight * v[j, shared, d]
    for d in range(own.size):
        own[d] /= total
    round_to(out[i, h], own)


@numba.njit
def attention(q, k, v, out):
    for i in range(q.shape[0]):
        for h in range(q.shape[1]):
            attend(q, k, v, i, h, out)


@numba.njit(parallel=True)
def attention_parallel(q, k, v, out):
    if q.size * q.shape[0] < ONE_THREAD_BELOW:
        attention(q, k, v, out)
    else:
        for h in numba.prange(q.shape[1]):
            for i in range(q.shape[0]):
                attend(q, k, v, i, h, out)
