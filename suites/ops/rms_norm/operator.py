"""rms_norm: ``out[i] = x[i] / sqrt(mean(x[i] ** 2) + EPSILON) * weight`` for row i; nominal size is the size of x."""

import math

import jax
import jax.numpy as jnp
import numpy as np

from suites import CudaKernel, Domain, Gradient, Operator, Sizes, TritonKernel, WarpKernel, total_bytes, values
from suites.backends.cutile import CutileKernel
from suites.kernels.half_precision import FLOATS, LOSES_NAN, WIDE, in_float32
from suites.ops.rms_norm import cutile, numba_cpu, numba_cuda, triton, warp
from suites.ops.rms_norm.numba_cpu import EPSILON


def _reference(x, weight):
    mean = jnp.mean(jnp.square(x), axis=1, keepdims=True)
    return [x * jax.lax.rsqrt(mean + EPSILON) * weight]


def _call(dtype, rows, columns, random):
    return values(dtype, rows * columns, random).reshape(rows, columns), values(dtype, columns, random)


def _sample(dtype, size, seed):
    columns = math.isqrt(size)
    return _call(dtype, size // columns, columns, np.random.default_rng(seed))


def _edges(dtype):
    random = np.random.default_rng(6)
    shapes = {"no_rows": (0, 5), "one_column": (5, 1), "one_long_row": (1, 5000), "tall": (1031, 2), "odd": (7, 131)}
    cases = {name: _call(dtype, *shape, random) for name, shape in shapes.items()}
    x, weight = _call(dtype, 4, 33, random)
    x[0], x[1], x[2, 3] = 0, x[1] / 1000, 0
    return cases | {"zero_and_small_rows": (x, weight)}


OPERATOR = Operator(
    name="rms_norm",
    outputs=lambda x, weight: [jax.ShapeDtypeStruct(x.shape, x.dtype)],
    reference=in_float32(_reference),
    kernels={
        "numba": numba_cpu.rms_norm,
        "numba_parallel": numba_cpu.rms_norm_parallel,
        "numba_cuda": CudaKernel(numba_cuda.rms_norm_cuda, numba_cuda.launch),
        "numba_cuda_mlir": CudaKernel(numba_cuda.rms_norm_cuda, numba_cuda.launch),
        "warp": WarpKernel(warp.rms_norm_warp, warp.launch),
        "triton": TritonKernel(triton.rms_norm_triton, triton.launch),
        "cutile_kernel": CutileKernel(cutile.rms_norm_cutile, cutile.launch),
    },
    dtypes=FLOATS,
    lacks=LOSES_NAN,
    sample=_sample,
    edges=_edges,
    domains={"x": Domain(least=-1e12, most=1e12)},  # the square of a larger number may overflow in float32
    gradient=Gradient(inputs=(0, 1), dtypes=WIDE),
    bytes_read=total_bytes,
    bytes_written=lambda x, weight: total_bytes(x),
    flops=lambda x, weight: 4 * x.size,
    sizes=Sizes(cuda_quick=(4096, 2**20, 2**24), quick_by_name=True),
)
