"""stencil: one explicit step of the heat equation on a grid, with the five-point Laplacian. The rim is copied.

``out[i, j] = u[i, j] + rate[0] * (u[i-1, j] + u[i+1, j] + u[i, j-1] + u[i, j+1] - 4 * u[i, j])``. Nominal size is the
number of cells.
"""

import math

import jax
import numpy as np

from suites import (
    CudaKernel,
    CutileKernel,
    Gradient,
    Operator,
    Sizes,
    TritonKernel,
    WarpCallable,
    WarpKernel,
    total_bytes,
    values,
    vectors,
)
from suites.kernels.half_precision import FLOATS, LOSES_NAN, TUNED, WIDE, in_float32
from suites.ops.stencil import cutile, numba_cpu, numba_cuda, triton, warp
from suites.vendors.calls import triton_call


def _reference(u, rate):
    around = (u[:-2, 1:-1] + u[2:, 1:-1]) + (u[1:-1, :-2] + u[1:-1, 2:])
    center = u[1:-1, 1:-1]
    if not center.size:
        return [u]
    return [u.at[1:-1, 1:-1].set(center + rate[0] * (around - 4 * center))]


def _shape(size):
    columns = math.isqrt(size)
    return size // columns, columns


def _sample(dtype, size, seed):
    shape = _shape(size)
    return values(dtype, math.prod(shape), np.random.default_rng(seed)).reshape(shape), np.full(1, 0.2, dtype)


def _edges(dtype):
    """Each vector as a row of inner cells among ones, and grids that are all rim or nearly all rim."""
    rate = np.full(1, 0.2, dtype)
    random = np.random.default_rng(1)
    cases = {}
    for name, vector in vectors(dtype).items():
        u = np.ones((5, vector.size + 2), dtype)
        # The sum over the neighbours of a larger number overflows.
        u[2, 1:-1] = vector / 16 if name == "huge" else vector
        cases[name] = (u, rate)
    for name, shape in {
        "no_cells": (0, 7),
        "one_cell": (1, 1),
        "two_rows": (2, 9),
        "two_columns": (9, 2),
        "one_inner_cell": (3, 3),
        "wide": (3, 301),
        "tall": (301, 3),
    }.items():
        cases[name] = (values(dtype, math.prod(shape), random).reshape(shape), rate)
    cases["nan_rate"] = (np.ones((4, 4), dtype), np.full(1, np.nan, dtype))
    return cases


OPERATOR = Operator(
    name="stencil",
    version=1,
    outputs=lambda u, rate: [jax.ShapeDtypeStruct(u.shape, u.dtype)],
    reference=in_float32(_reference),
    kernels={
        "numba": numba_cpu.stencil,
        "numba_parallel": numba_cpu.stencil_parallel,
        "numba_cuda": CudaKernel(numba_cuda.stencil_cuda, numba_cuda.launch),
        "numba_cuda_mlir": CudaKernel(numba_cuda.stencil_cuda, numba_cuda.launch),
        "warp": WarpKernel(warp.stencil_warp),
        "warp_tile": WarpCallable(warp.stencil_in_tiles, calls=1),
        "triton": TritonKernel(triton.stencil_triton, triton.launch),
        "cutile_kernel": CutileKernel(cutile.stencil_cutile, cutile.launch),
        "jax_triton": triton_call(TritonKernel(triton.stencil_triton, triton.launch)),
    },
    dtypes=FLOATS,
    lacks={**LOSES_NAN, "warp_tile": TUNED},
    sample=_sample,
    edges=_edges,
    gradient=Gradient(inputs=(0, 1), dtypes=WIDE),
    bytes_read=total_bytes,
    bytes_written=lambda u, rate: total_bytes(u),
    flops=lambda u, rate: 7 * u.size,
    sizes=Sizes(quick=(2**20,), cuda_quick=(2**24,)),
)
