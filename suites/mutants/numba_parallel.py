"""Holds broken Numba kernels with several threads. Most are right for inputs that one thread is enough for."""

import math

import numba
import numpy as np

from suites.backends.backend import Backend
from suites.backends.numba_cpu import ONE_THREAD_BELOW, block_sum
from suites.mutants.mutant import mutant
from suites.ops.exp_trace import OPERATOR as EXP_TRACE
from suites.ops.exp_trace import exp_trace
from suites.ops.mean_std import OPERATOR as MEAN_STD
from suites.ops.mean_std import mean_std
from suites.ops.nbody import OPERATOR as NBODY
from suites.ops.nbody import SOFTENING
from suites.ops.sum import OPERATOR as SUM
from suites.ops.sum import total

PART = 4096
"""Elements that a thread takes at a time."""


@numba.njit(parallel=True)
def full_parts_only(x, out):
    if x.size < ONE_THREAD_BELOW:
        total(x, out)
    else:
        running = x.dtype.type(0)
        for part in numba.prange(x.size // PART):
            running += block_sum(x[part * PART : (part + 1) * PART])
        out[0] = running


@numba.njit(parallel=True)
def unwritten_parts(trace, spikes, tau_inv, out):
    if out.size < ONE_THREAD_BELOW:
        exp_trace(trace, spikes, tau_inv, out)
    else:
        decay = trace.dtype.type(math.exp(-tau_inv[0]))
        for part in numba.prange(out.size // PART):
            for i in range(part * PART, (part + 1) * PART):
                out[i] = trace[i] * decay + spikes[i]


@numba.njit(parallel=True, error_model="numpy")
def mean_of_means(x, mean_out, std_out):
    """Right only if all parts have the same size."""
    if x.size < ONE_THREAD_BELOW:
        mean_std(x, mean_out, std_out)
    else:
        parts = x.size // PART + 1
        means, squares = np.zeros(parts, x.dtype), np.zeros(parts, x.dtype)
        for part in numba.prange(parts):
            own = x[part * PART : min((part + 1) * PART, x.size)]
            means[part] = block_sum(own) / own.size
        mean = x.dtype.type(means.mean())
        for part in numba.prange(parts):
            for i in range(part * PART, min((part + 1) * PART, x.size)):
                squares[part] += (x[i] - mean) ** 2
        mean_out[0] = mean
        std_out[0] = math.sqrt(squares.sum() / x.size)


@numba.njit(parallel=True, error_model="numpy")
def racing_pairs(positions, masses, out):
    """Takes each pair once, and adds to the other body as well, which another thread may be adding to."""
    squared = out.dtype.type(SOFTENING * SOFTENING)
    out[:] = 0
    for i in numba.prange(masses.size):
        for j in range(i + 1):
            dx, dy = positions[j, 0] - positions[i, 0], positions[j, 1] - positions[i, 1]
            dz = positions[j, 2] - positions[i, 2]
            distance2 = dx * dx + dy * dy + dz * dz + squared
            weight = 1 / (distance2 * math.sqrt(distance2))
            for axis in range(3):
                distance = positions[j, axis] - positions[i, axis]
                out[i, axis] += masses[j] * weight * distance
                if j < i:
                    out[j, axis] -= masses[i] * weight * distance


@numba.njit(parallel=True, error_model="numpy")
def shared_temporary(positions, masses, out):
    squared = out.dtype.type(SOFTENING * SOFTENING)
    weights = np.empty_like(masses)
    for i in numba.prange(masses.size):
        for j in range(masses.size):
            dx, dy = positions[j, 0] - positions[i, 0], positions[j, 1] - positions[i, 1]
            dz = positions[j, 2] - positions[i, 2]
            distance2 = dx * dx + dy * dy + dz * dz + squared
            weights[j] = masses[j] / (distance2 * math.sqrt(distance2))
        for axis in range(3):
            total = out.dtype.type(0)
            for j in range(masses.size):
                total += weights[j] * (positions[j, axis] - positions[i, axis])
            out[i, axis] = total


def _parallel(of, name, kernel, fault):
    """A mutant in one dtype only, which is enough to catch it."""
    return mutant(of, name, Backend.NUMBA_PARALLEL, kernel, fault, dtypes=("float32",))


MUTANTS = (
    _parallel(SUM, "full_parts_only", full_parts_only, "elements beyond the last full part are left out"),
    _parallel(EXP_TRACE, "unwritten_parts", unwritten_parts, "elements beyond the last full part are never written"),
    _parallel(MEAN_STD, "mean_of_means", mean_of_means, "the mean of the parts' means, which are not equally long"),
    _parallel(NBODY, "racing_pairs", racing_pairs, "threads add to the acceleration of one body at once"),
    _parallel(NBODY, "shared_temporary", shared_temporary, "threads share a temporary array"),
)
