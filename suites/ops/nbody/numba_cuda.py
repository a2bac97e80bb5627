"""Kernels of nbody in Numba-CUDA."""

import math

import numpy as np

from suites.kernels.numba_cuda.blocks import THREADS, cuda, kernel, quotient, sum_lanes
from suites.ops.nbody.numba_cpu import SQUARED

_LANES = 8

_BODIES = THREADS // _LANES


@kernel
def nbody_cuda(positions, masses, out):
    """Shared memory holds a tile of THREADS bodies at a time. _LANES threads share the work for one body."""
    x, y, z = (
        cuda.shared.array(THREADS, out.dtype),
        cuda.shared.array(THREADS, out.dtype),
        cuda.shared.array(THREADS, out.dtype),
    )
    mass = cuda.shared.array(THREADS, out.dtype)
    zero, one, two = np.uint64(0), np.uint64(1), np.uint64(2)
    size, lane = np.uint64(masses.size), np.uint64(cuda.threadIdx.x)
    place = np.uint64(cuda.threadIdx.y) * np.uint64(_LANES) + lane
    body = np.uint64(cuda.blockIdx.x) * np.uint64(_BODIES) + np.uint64(cuda.threadIdx.y)
    own = min(body, size - one)
    here_x, here_y, here_z = positions[own, zero], positions[own, one], positions[own, two]
    squared = out.dtype.type(SQUARED)
    ax = ay = az = nothing = out.dtype.type(0)
    first = zero
    while first < size:  # the same for all threads of a block: they synchronise in the loop
        j = first + place
        there = min(j, size - one)
        x[place], y[place], z[place] = positions[there, zero], positions[there, one], positions[there, two]
        mass[place] = masses[there] if j < size else nothing
        cuda.syncthreads()
        k = lane
        while k < np.uint64(THREADS):
            dx, dy, dz = x[k] - here_x, y[k] - here_y, z[k] - here_z
            distance2 = dx * dx + dy * dy + dz * dz + squared
            weight = quotient(mass[k], distance2 * math.sqrt(distance2))
            ax += weight * dx
            ay += weight * dy
            az += weight * dz
            k += np.uint64(_LANES)
        cuda.syncthreads()
        first += np.uint64(THREADS)
    ax, ay, az = sum_lanes(x, ax, _LANES), sum_lanes(y, ay, _LANES), sum_lanes(z, az, _LANES)
    if lane == zero and body < size:
        out[body, zero] = ax
        out[body, one] = ay
        out[body, two] = az


def launch(inputs, outs):
    return {"grid": -(-outs[0].shape[0] // _BODIES), "block": (_LANES, _BODIES)}
