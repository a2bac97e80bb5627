"""sigmoid: ``out[i] = 1 / (1 + exp(-x[i]))``."""

import jax
import jax.numpy as jnp
import numpy as np

from suites import CudaKernel, Gradient, Operator, Sizes, WarpKernel, total_bytes, values, vectors
from suites.backends import cuda_raw, pallas
from suites.kernels.half_precision import FLOATS, in_float32
from suites.kernels.numba_cuda.vectors import neighbour_tiles
from suites.kernels.warp.blocks import per_stream_tile
from suites.ops.sigmoid import numba_cpu, numba_cuda, warp
from suites.peers import functions as peers
from suites.vendors.calls import mosaic_elementwise

OPERATOR = Operator(
    name="sigmoid",
    version=1,
    outputs=lambda x: [jax.ShapeDtypeStruct(x.shape, x.dtype)],
    reference=in_float32(lambda x: [1 / (1 + jnp.exp(-x))]),
    kernels={
        "numba": numba_cpu.sigmoid,
        "numba_parallel": numba_cpu.sigmoid_parallel,
        "numba_cuda": CudaKernel(numba_cuda.sigmoid_cuda, neighbour_tiles),
        "warp": WarpKernel(warp.sigmoid_warp),
        "warp_tile": WarpKernel(warp.sigmoid_tiles, per_stream_tile),
        "cuda_raw": cuda_raw.elementwise(
            "const auto power = exp(-x[i]); out[i] = quotient(decltype(power)(1), 1 + power);", ("x",)
        ),
        "pallas": pallas.elementwise(lambda x: [1 / (1 + jnp.exp(-x))]),
        "mosaic_gpu": mosaic_elementwise(lambda x: [1 / (1 + jnp.exp(-x))]),
    },
    peers=peers.SIGMOID,
    dtypes=FLOATS,
    sample=lambda dtype, size, seed: (4 * values(dtype, size, np.random.default_rng(seed)),),
    edges=lambda dtype: {name: (vector,) for name, vector in vectors(dtype).items()},
    gradient=Gradient(inputs=(0,)),
    bytes_read=total_bytes,
    bytes_written=total_bytes,
    flops=lambda x: 4 * x.size,
    sizes=Sizes(quick=(2**20,), cuda_quick=(2**26,), quick_by_name=True),
)
