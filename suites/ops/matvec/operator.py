"""matvec: the dense product ``out = A @ x``; nominal size is the number of elements of A."""

import math

import jax
import numpy as np

from suites import (
    CudaKernel,
    CutileKernel,
    ErrorCase,
    Failure,
    Gradient,
    Operator,
    Sizes,
    TritonKernel,
    WarpCallable,
    WarpKernel,
    total_bytes,
    value_errors,
    values,
    vectors,
)
from suites.kernels.half_precision import FLOATS, LOSES_NAN, TUNED, product
from suites.ops.matvec import cutile, numba_cpu, numba_cuda, triton, warp
from suites.peers import functions as peers
from suites.vendors.calls import triton_call


def _sample(dtype, size, seed):
    random = np.random.default_rng(seed)
    columns = math.isqrt(size)
    rows = size // columns
    return values(dtype, rows * columns, random).reshape(rows, columns), values(dtype, columns, random)


def _edges(dtype):
    """Each vector as the middle one of three rows, and as x. The other operand consists of ones."""
    cases = {"no_rows": (np.zeros((0, 5), dtype), np.ones(5, dtype))}
    for name, vector in vectors(dtype).items():
        ones = np.ones((3, vector.size), dtype)
        ones[1] = vector
        cases[f"{name}_row"] = (ones, np.ones(vector.size, dtype))
        cases[f"{name}_x"] = (np.ones((2, vector.size), dtype), vector)
    return cases


OPERATOR = Operator(
    name="matvec",
    version=1,
    outputs=lambda A, x: [jax.ShapeDtypeStruct(A.shape[:1], A.dtype)],
    reference=lambda A, x: [product(A, x)],
    kernels={
        "numba": numba_cpu.matvec,
        "numba_parallel": numba_cpu.matvec_parallel,
        "numba_cuda": CudaKernel(numba_cuda.matvec_cuda, numba_cuda.launch),
        "numba_cuda_mlir": CudaKernel(numba_cuda.matvec_cuda, numba_cuda.launch),
        "warp": WarpKernel(warp.matvec_warp, warp.launch),
        "warp_tile": WarpCallable(warp.matvec_in_tiles, calls=1),
        "triton": TritonKernel(triton.matvec_triton, triton.launch),
        "cutile_kernel": CutileKernel(cutile.matvec_cutile, cutile.launch),
        "jax_triton": triton_call(TritonKernel(triton.matvec_triton, triton.launch)),
    },
    peers=peers.MATVEC,
    dtypes=(*FLOATS, "int32"),
    lacks={**LOSES_NAN, "warp": TUNED, "warp_tile": TUNED},
    sample=_sample,
    edges=_edges,
    errors=(
        ErrorCase(
            "wrong_columns",
            lambda: (np.zeros((3, 4), np.float32), np.zeros(5, np.float32)),
            {
                "jnp": Failure(TypeError, "contracting dimensions"),
                **value_errors("matvec: A must have as many columns", in_launches=("warp", "warp_tile")),
            },
        ),
    ),
    gradient=Gradient(inputs=(0, 1)),
    bytes_read=total_bytes,
    bytes_written=lambda A, x: A.shape[0] * A.dtype.itemsize,
    flops=lambda A, x: 2 * A.size,
    sizes=Sizes(quick=(2**20,), cuda_quick=(4096, 2**20, 2**24)),
)
