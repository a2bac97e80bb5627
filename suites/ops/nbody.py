"""nbody: the softened gravitational acceleration of each of N bodies by all bodies; nominal size is N.

``out[i]`` is the sum of ``masses[j] * d / (d . d + SOFTENING ** 2) ** 1.5`` over j, where ``d = positions[j] -
positions[i]``, in units in which the gravitational constant is 1. Positions and accelerations are rows of three.
"""

import functools
import math

import jax
import jax.numpy as jnp
import numba
import numpy as np

from suites import CudaKernel, Domain, Gradient, Operator, Sizes, Truth, WarpKernel, bounded, total_bytes, values, wide
from suites.backends.numba_cuda import THREADS, cuda, kernel, quotient, sum_lanes
from suites.backends.warp import scalar, wp

SOFTENING = 1 / 16
"""A length that limits the force between bodies that meet. It is exact in every dtype."""

_SQUARED = SOFTENING * SOFTENING

ONE_THREAD_BELOW = 64
"""Bodies below which one thread is enough: their pairs take about 5 us (:mod:`suites.backends.numba_cpu_blocks`)."""

_LANES = 8
_BODIES = THREADS // _LANES


@numba.njit(fastmath={"reassoc"})
def pull(x, y, z, masses, i):
    """The acceleration of one body. :mod:`suites.backends.numba_cpu_blocks` says why additions may be reordered."""
    zero, squared = x.dtype.type(0), x.dtype.type(_SQUARED)
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
    squared = out.dtype.type(_SQUARED)
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


def _launch(inputs, outs):
    return {"grid": -(-outs[0].shape[0] // _BODIES), "block": (_LANES, _BODIES)}


PULL_THREADS = 64
"""Warp threads that share the work for one body: with one each, a few thousand bodies would leave a GPU idle."""


@functools.cache
def nbody_warp(dtype):
    """A block for each body. Its threads take turns at the other bodies."""
    real = scalar(dtype)
    vector = wp.types.vector(3, real)

    # The loop is in a function of its own: the adjoint of a kernel does not know the result of a loop in it.
    @wp.func
    def pull_of_share(positions: wp.array(dtype=vector), masses: wp.array(dtype=real), here: vector, lane: int):
        total = vector()
        for j in range(lane, masses.shape[0], wp.block_dim()):
            d = positions[j] - here
            distance2 = wp.dot(d, d) + real(_SQUARED)
            total += (masses[j] / (distance2 * wp.sqrt(distance2))) * d
        return total

    @wp.kernel(module="unique")
    def nbody(positions: wp.array(dtype=vector), masses: wp.array(dtype=real), out: wp.array(dtype=vector)):
        body, lane = wp.tid() // PULL_THREADS, wp.tid() % PULL_THREADS
        if lane < wp.block_dim():  # a block is one thread on the CPU
            total = pull_of_share(positions, masses, positions[body], lane)
            wp.tile_store(out, wp.tile_sum(wp.tile(total, preserve_type=True)), offset=body)

    return nbody


def _launch_warp(inputs, outs):
    bodies = outs[0].shape[0]
    return {"launch_dims": bodies * PULL_THREADS, "block_dim": PULL_THREADS, "output_dims": bodies}


def _reference(positions, masses):
    # Component by component, so that XLA keeps no array of pairs of vectors.
    dx, dy, dz = (positions[None, :, axis] - positions[:, None, axis] for axis in range(3))
    distance2 = dx * dx + dy * dy + dz * dz + _SQUARED
    weight = masses / (distance2 * jnp.sqrt(distance2))
    return [jnp.stack([jnp.sum(weight * d, axis=1) for d in (dx, dy, dz)], axis=1)]


_TERM = 20
"""Roundings on the way from two positions to a term of the sum.

A distance has one, its square three, the sum of three squares and the softening six. The root has half of these and up
to four of its own (2 ulp): seven. The product with the root has 14. The quotient adds up to four (2 ulp). The product
with the distance adds two: its own, and the one of the distance.
"""

_ADJOINT_TERM = 64
"""Roundings on the way from two positions and a cotangent c to a term of the cotangent of a position.

A weight has 18, as counted above; the product of c with the distance has four. The derivative of the quotient divides
the weight by the divisor (36 with the division) and multiplies it with that product: 41. The derivatives of the product
with the root and of the root itself follow: the squared distance has 61, the distance 63. The sum with the direct term
adds one.
"""


def _pairs(positions, masses, first, last):
    """Distances from the bodies ``first`` up to ``last`` to all others, their softened squares, and the weights."""
    d = positions[None, :, :] - positions[first:last, None, :]
    distance2 = np.square(d).sum(axis=2) + _SQUARED
    return d, distance2, masses / (distance2 * np.sqrt(distance2))


def _truth(positions, masses):
    dtype, count = positions.dtype, masses.size
    positions, masses = wide(positions), wide(masses)
    value, condition = np.empty_like(positions), np.empty_like(positions)
    flushed = np.full(positions.shape, count + 1.0)
    with np.errstate(invalid="ignore", over="ignore"):
        for first in range(0, count, 64):  # so that the pairs fit a cache
            d, _, weight = _pairs(positions, masses, first, first + 64)
            terms = weight[:, :, None] * d
            value[first : first + 64] = terms.sum(axis=1)
            condition[first : first + 64] = np.abs(terms).sum(axis=1)
            # A weight may be flushed to zero before it is multiplied with a distance.
            flushed[first : first + 64] += np.abs(d).sum(axis=1)
    return Truth((bounded(value, dtype, condition=condition, terms=count + _TERM, flushed=flushed),))


def _condition(pullback, inputs, cotangents):
    """With weights w and cotangents c, the pair i, j contributes ``w c - 3 w (c . d) d / distance2``.

    This is added to the cotangent of position j and subtracted from the cotangent of position i. The cotangent of mass
    j gets ``w / m (c . d)``.
    """
    positions, masses = inputs
    d, distance2, unit_weight = _pairs(positions, np.ones_like(masses), 0, None)
    c, d = np.abs(cotangents[0])[:, None, :], np.abs(d)
    along = (c * d).sum(axis=2)
    weight = np.abs(masses) * unit_weight
    terms = weight[:, :, None] * c + (3 * weight * along / distance2)[:, :, None] * d
    return terms.sum(axis=0) + terms.sum(axis=1), (unit_weight * along).sum(axis=0)


def _sample(dtype, size, seed):
    random = np.random.default_rng(seed)
    return values(dtype, 3 * size, random).reshape(size, 3), random.uniform(0.5, 1.5, size).astype(dtype)


def _edges(dtype):
    def bodies(count, seed=1):
        return _sample(dtype, count, seed)

    positions, masses = bodies(5)
    strayed, unweighable = positions.copy(), masses.copy()
    strayed[2, 1] = unweighable[3] = np.nan
    crowd = np.full((300, 3), 0.3, dtype)
    crowd[150] += np.asarray(1e-3, dtype)
    return {
        "empty": bodies(0),
        "one": bodies(1),
        "two": bodies(2),
        "massless": (positions, np.zeros_like(masses)),
        "all_but_one_at_one_place": (crowd, np.ones(300, dtype)),
        "far_from_zero": (1000 + positions, masses),
        "nan": (strayed, masses),
        "nan_mass": (positions, unweighable),
    }


OPERATOR = Operator(
    name="nbody",
    version=1,
    outputs=lambda positions, masses: [jax.ShapeDtypeStruct(positions.shape, positions.dtype)],
    reference=_reference,
    truth=_truth,
    kernels={
        "numba": nbody,
        "numba_parallel": nbody_parallel,
        "numba_cuda": CudaKernel(nbody_cuda, _launch),
        "warp": WarpKernel(nbody_warp, _launch_warp),
    },
    dtypes=("float32", "float64"),
    sample=_sample,
    edges=_edges,
    # The cube of a longer distance overflows in float32.
    domains={"positions": Domain(least=-1e12, most=1e12)},
    gradient=Gradient(
        {0: lambda positions, masses: 2 * masses.size + _ADJOINT_TERM, 1: lambda positions, masses: masses.size + 25},
        _condition,
    ),
    bytes_read=total_bytes,
    bytes_written=lambda positions, masses: total_bytes(positions),
    flops=lambda positions, masses: 20 * masses.size**2,
    sizes=Sizes(
        check=(1, 33, 257),
        large=1500,
        quick=(1024,),
        full=(128, 256, 512, 1024),
        cuda_quick=(4096,),
        cuda_full=(1024, 2048, 4096, 8192),
    ),
)
