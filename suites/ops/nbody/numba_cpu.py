"""Kernels of nbody in Numba, for CPUs."""

import math

import numba

SOFTENING = 1 / 16
"""A length that limits the force between bodies that meet. It is exact in every dtype."""

SQUARED = SOFTENING * SOFTENING

ONE_THREAD_BELOW = 64
"""Bodies below which one thread is enough: their pairs take about 5 us (:mod:`suites.kernels.numba_cpu.blocks`)."""


@numba.njit(fastmath={"reassoc"})
def pull(x, y, z, masses, i):
    """The acceleration of one body. :mod:`suites.kernels.numba_cpu.blocks` says why additions may be reordered."""
    zero, squared = x.dtype.type(0), x.dtype.type(SQUARED)
    ax, ay, az = zero, zero, zero
    for j in range(x.size):
        dx, dy, dz = x[j] - x[i], y[j] - y[i], z[j] - z[i]
        distance2 = dx * dx + dy * dy + dz * dz + squared
        weight = masses[j] / (distance2 * math.sqrt(distance2))
        ax += weight * dx
        ay += weight * dy
        az += weight * dz
    return ax, ay, az


@numba.njit(error_model="numpy")
def nbody(positions, masses, out):
    # One load fills a vector register from each of these; from the rows it would take a load per element.
    x, y, z = positions[:, 0].copy(), positions[:, 1].copy(), positions[:, 2].copy()
    for i in range(masses.size):
        out[i, 0], out[i, 1], out[i, 2] = pull(x, y, z, masses, i)


@numba.njit(parallel=True, error_model="numpy")
def nbody_parallel(positions, masses, out):
    if masses.size < ONE_THREAD_BELOW:
        nbody(positions, masses, out)
    else:
        x, y, z = positions[:, 0].copy(), positions[:, 1].copy(), positions[:, 2].copy()
        for i in numba.prange(masses.size):
            out[i, 0], out[i, 1], out[i, 2] = pull(x, y, z, masses, i)
