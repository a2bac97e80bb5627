"""rotary: turns pairs of features by the angle of their position, as rotary position embedding does.

``out[i, h, j] = x[i, h, j] * cos[i, j] - x[i, h, j + half] * sin[i, j]`` and
``out[i, h, j + half] = x[i, h, j + half] * cos[i, j] + x[i, h, j] * sin[i, j]`` for position i, head h and feature j of
the first half. ``cos`` and ``sin`` hold the angles. Nominal size is the size of x.
"""

import jax
import jax.numpy as jnp
import numpy as np

from suites import CutileKernel, Gradient, Operator, Sizes, TritonKernel, WarpKernel, total_bytes, values
from suites.kernels.half_precision import FLOATS, LOSES_NAN, WIDE, in_float32
from suites.ops.rotary import cutile, numba_cpu, numba_cuda, triton, warp

HEADS, HALF = 4, 16
"""Heads of a sample, and half of the features of a head."""


def _reference(x, cos, sin):
    a, b = jnp.split(x, 2, axis=2)
    cos, sin = cos[:, None], sin[:, None]
    return [jnp.concatenate([a * cos - b * sin, b * cos + a * sin], axis=2)]


def _call(dtype, length, heads, half, random):
    angles = np.arange(length)[:, None] * 10000.0 ** (-np.arange(half) / max(half, 1))
    x = values(dtype, length * heads * 2 * half, random).reshape(length, heads, 2 * half)
    return x, np.cos(angles).astype(dtype), np.sin(angles).astype(dtype)


def _sample(dtype, size, seed):
    return _call(dtype, max(1, size // (2 * HEADS * HALF)), HEADS, HALF, np.random.default_rng(seed))


def _edges(dtype):
    shapes = {"no_positions": (0, 2, 4), "one_pair": (1, 1, 1), "one_long_head": (3, 1, 257), "odd": (37, 3, 5)}
    random = np.random.default_rng(6)
    return {name: _call(dtype, *shape, random) for name, shape in shapes.items()}


OPERATOR = Operator(
    name="rotary",
    outputs=lambda x, cos, sin: [jax.ShapeDtypeStruct(x.shape, x.dtype)],
    reference=in_float32(_reference),
    kernels={
        "numba": numba_cpu.rotary,
        "numba_parallel": numba_cpu.rotary_parallel,
        "numba_cuda": numba_cuda.rotary_cuda,
        "numba_cuda_mlir": numba_cuda.rotary_cuda,
        "warp": WarpKernel(warp.rotary_warp, warp.launch),
        "triton": TritonKernel(triton.rotary_triton, triton.launch),
        "cutile_kernel": CutileKernel(cutile.rotary_cutile, cutile.launch),
    },
    dtypes=FLOATS,
    lacks=LOSES_NAN,
    sample=_sample,
    edges=_edges,
    gradient=Gradient(inputs=(0, 1, 2), dtypes=WIDE),
    bytes_read=total_bytes,
    bytes_written=lambda x, cos, sin: total_bytes(x),
    flops=lambda x, cos, sin: 3 * x.size,
    sizes=Sizes(cuda_quick=(4096, 2**20, 2**24), quick_by_name=True),
)
