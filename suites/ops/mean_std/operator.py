"""mean_std: mean and (population) standard deviation of a vector, in two passes; NaN for no elements."""

import jax
import jax.numpy as jnp
import numpy as np

from suites import CudaCallable, Gradient, Operator, Sizes, WarpCallable, total_bytes, values, vectors
from suites.kernels.half_precision import FLOATS, TUNED, in_float32
from suites.ops.mean_std import numba_cpu, numba_cuda, warp


def _reference(x):
    return [jnp.mean(x, keepdims=True), jnp.std(x, keepdims=True)]


def _edges(dtype):
    cases = {name: (vector,) for name, vector in vectors(dtype).items()}
    # The square of a large number overflows in every two-pass algorithm in the precision of the input.
    cases["huge"] = (np.sqrt(vectors(dtype)["huge"]) / 4,)
    cases["far_from_zero"] = ((1000 + np.random.default_rng(3).standard_normal(777)).astype(dtype),)
    cases["constant"] = (np.full(100, 0.1, dtype),)
    return cases


OPERATOR = Operator(
    name="mean_std",
    version=1,
    outputs=lambda x: [jax.ShapeDtypeStruct((1,), x.dtype)] * 2,
    reference=in_float32(_reference),
    kernels={
        "numba": numba_cpu.mean_std,
        "numba_parallel": numba_cpu.mean_std_parallel,
        "numba_cuda_callable": CudaCallable(numba_cuda.mean_std_cuda),
        "numba_cuda_replay": CudaCallable(numba_cuda.mean_std_cuda),
        "warp": WarpCallable(warp.mean_std_warp, calls=4),
    },
    dtypes=FLOATS,
    lacks={"warp": TUNED, "numba_cuda_callable": TUNED, "numba_cuda_replay": TUNED},
    sample=lambda dtype, size, seed: (values(dtype, size, np.random.default_rng(seed)) + np.dtype(dtype).type(0.5),),
    edges=_edges,
    gradient=Gradient(inputs=(0,), sizes=(257, 2100)),
    bytes_read=total_bytes,
    bytes_written=lambda x: 2 * x.dtype.itemsize,
    flops=lambda x: 4 * x.size,
    sizes=Sizes(quick=(2**20,), cuda_quick=(2**24,), quick_by_name=True),
)
