"""cumsum: ``out[i] = x[0] + ... + x[i]``; integers wrap around."""

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
from suites.kernels.blocked_sums import BLOCK
from suites.kernels.half_precision import FLOATS, TUNED, in_float32
from suites.ops.cumsum import cutile, numba_cpu, numba_cuda, triton, warp
from suites.peers import functions as peers

OPERATOR = Operator(
    name="cumsum",
    version=1,
    outputs=lambda x: [jax.ShapeDtypeStruct(x.shape, x.dtype)],
    reference=in_float32(lambda x: [jnp.cumsum(x, dtype=x.dtype)]),
    kernels={
        "numba": numba_cpu.cumsum,
        "numba_parallel": numba_cpu.cumsum_parallel,
        "numba_cuda_callable": CudaCallable(numba_cuda.cumsum_cuda, atomic=False),  # its atomic operations count tiles
        "numba_cuda_replay": CudaCallable(numba_cuda.cumsum_cuda, atomic=False),
        "warp": WarpCallable(warp.cumsum_warp, calls=1, atomic=False),
        "triton": TritonCallable(triton.cumsum_triton, calls=2),
        "cutile_kernel": CutileCallable(cutile.cumsum_cutile, calls=2),
    },
    peers=peers.CUMSUM,
    dtypes=(*FLOATS, "int32", "int64"),
    lacks={"warp": TUNED, "numba_cuda_callable": TUNED, "numba_cuda_replay": TUNED},
    sample=lambda dtype, size, seed: (values(dtype, size, np.random.default_rng(seed)),),
    edges=lambda dtype: (
        {name: (vector,) for name, vector in vectors(dtype).items()}
        | {"block_and_one": (values(dtype, BLOCK + 1, np.random.default_rng(4)),)}
    ),
    gradient=Gradient(inputs=(0,)),  # a cotangent is the sum of all that follow it
    bytes_read=total_bytes,
    bytes_written=total_bytes,
    flops=lambda x: x.size,
    sizes=Sizes(
        large=140_003, quick=(2**20,), cuda_quick=(4096, 2**20, 2**24)
    ),  # on a GPU, more tiles than a group has
)
