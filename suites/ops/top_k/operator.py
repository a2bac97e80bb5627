"""top_k: the K largest elements of each row in descending order, and their places; of equal ones the first comes first.

Nominal size is the number of elements. Precondition: there is no NaN.
"""

import math

import jax
import numpy as np

from suites import (
    CudaKernel,
    Domain,
    ErrorCase,
    Failure,
    Operator,
    Sizes,
    WarpKernel,
    total_bytes,
    value_errors,
    values,
)
from suites.kernels.half_precision import FLOATS
from suites.ops.top_k import numba_cpu, numba_cuda, warp
from suites.ops.top_k.numba_cpu import COLUMNS, K


def _outputs(x):
    shape = (x.shape[0], K)
    return [jax.ShapeDtypeStruct(shape, x.dtype), jax.ShapeDtypeStruct(shape, np.int32)]


def _sample(dtype, size, seed):
    columns = max(K, math.isqrt(size))
    rows = max(1, size // columns)
    return (values(dtype, rows * columns, np.random.default_rng(seed)).reshape(rows, columns),)


def _edges(dtype):
    random = np.random.default_rng(6)
    shapes = {"no_rows": (0, 9), "whole_row": (5, K), "one_long_row": (1, 5000), "tall": (1031, 5), "odd": (9, 131)}
    cases = {name: values(dtype, math.prod(shape), random).reshape(shape) for name, shape in shapes.items()}
    cases["all_equal"] = np.ones((3, 70), dtype)
    cases["few_values"] = random.integers(1, 4, (9, 200)).astype(dtype)
    cases["rising_and_falling"] = np.stack([np.arange(1, 101), np.arange(100, 0, -1)]).astype(dtype)
    return {name: (x,) for name, x in cases.items()}


OPERATOR = Operator(
    name="top_k",
    outputs=_outputs,
    reference=lambda x: list(jax.lax.top_k(x, K)),
    kernels={
        "numba": numba_cpu.top_k,
        "numba_parallel": numba_cpu.top_k_parallel,
        "numba_cuda": CudaKernel(numba_cuda.top_k_cuda, numba_cuda.launch),
        "warp": WarpKernel(warp.top_k_warp, warp.launch),
    },
    dtypes=FLOATS,
    sample=_sample,
    edges=_edges,
    errors=(
        ErrorCase(
            "too_few_columns",
            lambda: (np.zeros((2, K - 1), np.float32),),
            {"jnp": Failure(ValueError, "k argument to top_k"), **value_errors(COLUMNS)},
        ),
    ),
    domains={"x": Domain(finite=True, zero=False)},  # XLA takes -0.0 for less than 0.0
    gradient=None,  # it is undefined where elements are equal
    bytes_read=total_bytes,
    bytes_written=lambda x: x.shape[0] * K * (x.dtype.itemsize + 4),
    flops=lambda x: x.size,
    sizes=Sizes(cuda_quick=(4096, 2**20, 2**24), quick_by_name=True),
)
