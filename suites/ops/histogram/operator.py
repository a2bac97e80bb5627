"""histogram: adds to ``counts`` the number of elements of x in each of the bins [0, 1), [1, 2), ...

There are as many bins as ``counts`` has elements. Elements outside of them are dropped: negative numbers (but not
-0.0), infinities and NaN. Nominal size is the number of elements of x.
"""

import jax
import jax.numpy as jnp
import numpy as np

from suites import CudaKernel, Domain, Operator, Sizes, WarpCallable, total_bytes
from suites.kernels.half_precision import FLOATS, in_float32
from suites.ops.histogram import numba_cpu, numba_cuda, warp
from suites.ops.histogram.samples import edges, sample


def _reference(x, counts):
    inside = (x >= 0) & (x < counts.size)
    return [counts.at[jnp.where(inside, x, counts.size).astype(jnp.int32)].add(1, mode="drop")]


OPERATOR = Operator(
    name="histogram",
    version=1,
    outputs=lambda x, counts: [jax.ShapeDtypeStruct(counts.shape, np.int32)],
    reference=in_float32(_reference),
    kernels={
        "numba": numba_cpu.histogram,
        "numba_parallel": numba_cpu.histogram_parallel,
        # Whole numbers are the same in any order.
        "numba_cuda": CudaKernel(numba_cuda.histogram_cuda, numba_cuda.launch, atomic=False),
        "warp": WarpCallable(warp.histogram_warp, calls=2, atomic=False),
    },
    dtypes=(*FLOATS, "int32"),
    sample=sample,
    domains={"counts": Domain()},
    edges=edges,
    bytes_read=total_bytes,
    bytes_written=lambda x, counts: total_bytes(counts),
    gradient=None,  # counts are integers
    flops=lambda x, counts: 2 * x.size,
    sizes=Sizes(quick=(2**20,), cuda_quick=(2**24,), quick_by_name=True),
)
