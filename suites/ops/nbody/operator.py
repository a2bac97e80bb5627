"""nbody: the softened gravitational acceleration of each of N bodies by all bodies; nominal size is N.

``out[i]`` is the sum of ``masses[j] * d / (d . d + SOFTENING ** 2) ** 1.5`` over j, where ``d = positions[j] -
positions[i]``, in units in which the gravitational constant is 1. Positions and accelerations are rows of three.
"""

import jax
import jax.numpy as jnp
import numpy as np

from suites import CudaKernel, Domain, Gradient, Operator, Sizes, WarpKernel, total_bytes, values
from suites.ops.nbody import numba_cpu, numba_cuda, warp


def _reference(positions, masses):
    # Component by component, so that XLA keeps no array of pairs of vectors.
    dx, dy, dz = (positions[None, :, axis] - positions[:, None, axis] for axis in range(3))
    distance2 = dx * dx + dy * dy + dz * dz + numba_cpu.SQUARED
    weight = masses / (distance2 * jnp.sqrt(distance2))
    return [jnp.stack([jnp.sum(weight * d, axis=1) for d in (dx, dy, dz)], axis=1)]


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
    kernels={
        "numba": numba_cpu.nbody,
        "numba_parallel": numba_cpu.nbody_parallel,
        "numba_cuda": CudaKernel(numba_cuda.nbody_cuda, numba_cuda.launch),
        "numba_cuda_mlir": CudaKernel(numba_cuda.nbody_cuda, numba_cuda.launch),
        "warp": WarpKernel(warp.nbody_warp, warp.launch),
    },
    dtypes=("float32", "float64"),  # 16 bits do not hold the distances of near bodies
    sample=_sample,
    edges=_edges,
    # The cube of a longer distance overflows in float32.
    domains={"positions": Domain(least=-1e12, most=1e12)},
    gradient=Gradient(inputs=(0, 1)),
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
