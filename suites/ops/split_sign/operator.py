"""split_sign: the positive part ``max(x[i], 0)`` and the negative part ``min(x[i], 0)``; NaN stays NaN in both."""

import jax
import jax.numpy as jnp
import numpy as np

from suites import CudaKernel, Gradient, Operator, Sizes, WarpKernel, total_bytes, values, vectors
from suites.kernels.half_precision import FLOATS
from suites.kernels.numba_cuda.vectors import neighbour_tiles
from suites.kernels.warp.blocks import per_stream_tile
from suites.ops.split_sign import numba_cpu, numba_cuda, warp

OPERATOR = Operator(
    name="split_sign",
    version=1,
    outputs=lambda x: [jax.ShapeDtypeStruct(x.shape, x.dtype)] * 2,
    reference=lambda x: [jnp.maximum(x, 0), jnp.minimum(x, 0)],
    kernels={
        "numba": numba_cpu.split_sign,
        "numba_parallel": numba_cpu.split_sign_parallel,
        "numba_cuda": CudaKernel(numba_cuda.split_sign_cuda, neighbour_tiles),
        "warp": WarpKernel(warp.split_sign_warp),
        "warp_tile": WarpKernel(warp.split_sign_tiles, per_stream_tile),
    },
    dtypes=(*FLOATS, "int32"),
    sample=lambda dtype, size, seed: (values(dtype, size, np.random.default_rng(seed)),),
    edges=lambda dtype: {name: (vector,) for name, vector in vectors(dtype).items()},
    gradient=Gradient(inputs=(0,)),
    bytes_read=total_bytes,
    bytes_written=lambda x: 2 * total_bytes(x),
    flops=lambda x: 2 * x.size,
    sizes=Sizes(quick=(2**20,), cuda_quick=(2**26,), quick_by_name=True),
)
