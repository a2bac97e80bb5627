"""sum: ``out[0] = x[0] + x[1] + ...``."""

import jax
import jax.numpy as jnp
import numpy as np

from suites import (
    CudaCallable,
    CutileCallable,
    Gradient,
    Operator,
    Sizes,
    TritonCallable,
    WarpCallable,
    total_bytes,
    values,
    vectors,
)
from suites.kernels.half_precision import FLOATS, in_float32
from suites.ops.sum import cutile, numba_cpu, numba_cuda, triton, warp
from suites.peers import functions as peers

OPERATOR = Operator(
    name="sum",
    version=1,
    outputs=lambda x: [jax.ShapeDtypeStruct((1,), x.dtype)],
    reference=in_float32(lambda x: [jnp.sum(x, keepdims=True, dtype=x.dtype)]),
    kernels={
        "numba": numba_cpu.total,
        "numba_parallel": numba_cpu.total_parallel,
        "numba_cuda_callable": CudaCallable(numba_cuda.total_cuda),
        "numba_cuda_replay": CudaCallable(numba_cuda.total_cuda),
        "warp": WarpCallable(warp.total_warp, calls=2),
        "triton": TritonCallable(triton.total_triton, calls=2),
        "cutile_kernel": CutileCallable(cutile.total_cutile, calls=2),
    },
    peers=peers.SUM,
    dtypes=(*FLOATS, "int32", "int64"),
    sample=lambda dtype, size, seed: (values(dtype, size, np.random.default_rng(seed)),),
    edges=lambda dtype: {name: (vector,) for name, vector in vectors(dtype).items()},
    gradient=Gradient(inputs=(0,)),
    bytes_read=total_bytes,
    bytes_written=lambda x: x.dtype.itemsize,
    flops=lambda x: x.size,
    sizes=Sizes(cuda_quick=(4096, 2**20, 2**24), quick_by_name=True),
)
