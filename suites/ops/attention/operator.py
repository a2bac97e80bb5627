"""attention: each query takes the mean of the values up to its place, weighted by the softmax of its scores.

``out[i, h]`` is the sum of ``w[j] * v[j, h]`` over j from 0 to i, where w is the softmax of the scores
``q[i, h] . k[j, h] / sqrt(width)``, for position i and head h: causal attention, as in
``jax.nn.dot_product_attention``. If k and v have fewer heads, as many heads of q share one of theirs. Weights of
values of 16 bits are rounded to 16 bits; all else is float32.
Nominal size is the size of q. No kernel keeps the scores in memory; each takes the keys one after the other.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np

from suites import CudaKernel, CutileKernel, Domain, Operator, Sizes, TritonKernel, WarpCallable, total_bytes, values
from suites.kernels.half_precision import FLOATS, WIDE, wide
from suites.ops.attention import cutile, mosaic, numba_cpu, numba_cuda, triton, warp, warp_tiles
from suites.vendors.calls import triton_call
from suites.vendors.shipped import CuteKernel, Later, ShippedKernel

WIDTH = 32
"""Features of a head in a sample."""


def _reference(q, k, v):
    k, v = (jnp.repeat(each, q.shape[1] // max(each.shape[1], 1), axis=1) for each in (k, v))
    full = {"precision": "highest", "preferred_element_type": wide(q.dtype)}
    scores = jnp.einsum("ihd,jhd->hij", q, k, **full) / math.sqrt(max(q.shape[2], 1))
    scores = jnp.where(jnp.tri(q.shape[0], dtype=bool), scores, -jnp.inf)
    weights = jax.nn.softmax(scores, axis=2).astype(v.dtype)  # a tensor core multiplies 16 bits
    return [jnp.einsum("hij,jhd->ihd", weights, v, **full).astype(q.dtype)]


def _call(dtype, length, heads, width, random):
    count = length * heads * width
    return tuple(values(dtype, count, random).reshape(length, heads, width) for _ in range(3))


def _sample(dtype, size, seed):
    """A sequence is as long as all heads of a position are wide, or longer."""
    heads = max(1, math.isqrt(size) // WIDTH)
    return _call(dtype, max(1, size // (heads * WIDTH)), heads, WIDTH, np.random.default_rng(seed))


def _edges(dtype):
    shapes = {
        "no_positions": (0, 2, 8),
        "one": (1, 1, 1),
        "odd": (37, 3, 5),
        "wide": (5, 1, 128),
        "long": (257, 1, 3),
    }
    random = np.random.default_rng(6)
    cases = {name: _call(dtype, *shape, random) for name, shape in shapes.items()}
    q, k, v = _call(dtype, 40, 2, 8, random)
    grouped = q, k[:, :1], v[:, :1]
    return cases | {"sharp": (10 * q, k, v), "equal_keys": (q, np.ones_like(k), v), "grouped": grouped}


def _flops(q, k, v):
    return 2 * q.size * (q.shape[0] + 1)


OPERATOR = Operator(
    name="attention",
    outputs=lambda q, k, v: [jax.ShapeDtypeStruct(q.shape, q.dtype)],
    reference=_reference,
    kernels={
        "numba": numba_cpu.attention,
        "numba_parallel": numba_cpu.attention_parallel,
        "numba_cuda": CudaKernel(numba_cuda.attention_cuda, numba_cuda.launch),
        "numba_cuda_mlir": CudaKernel(numba_cuda.attention_cuda, numba_cuda.launch),
        "warp": WarpCallable(warp.attention_of_rows, calls=1),
        "warp_tile": WarpCallable(warp_tiles.attention_in_tiles, calls=1),
        "triton": TritonKernel(triton.attention_triton, triton.launch),
        "cutile_kernel": CutileKernel(cutile.attention_cutile, cutile.launch),
        "jax_triton": triton_call(TritonKernel(triton.attention_triton, triton.launch)),
        "cute_dsl": CuteKernel(Later("suites.ops.attention.cute_dsl", "attention_cute")),
        "mosaic_gpu": ShippedKernel(mosaic.attention_mosaic),
    },
    lacks={
        "warp_tile": dict.fromkeys(WIDE, "Warp compiles its tiles for minutes; the kernel of warp has this dtype"),
        "cute_dsl": dict.fromkeys(WIDE, "the kernel multiplies numbers of 16 bits"),
        "mosaic_gpu": dict.fromkeys((*WIDE, "bfloat16"), "the kernel that JAX ships keeps float16 in shared memory"),
    },
    dtypes=FLOATS,
    sample=_sample,
    edges=_edges,
    domains={name: Domain(least=-30, most=30) for name in "qkv"},  # XLA multiplies masked values with zero
    gradient=None,  # its derivative is a kernel of its own
    bytes_read=total_bytes,
    bytes_written=lambda q, k, v: total_bytes(q),
    flops=_flops,
    sizes=Sizes(
        large=20_003,
        quick=(2**16,),
        full=(4096, 2**16, 2**18),
        cuda_quick=(4096, 2**20),
        cuda_full=(4096, 2**20, 2**22),
    ),
)
