"""Holds a broken Numba-CUDA kernel for the product of a matrix whose rows are long."""

import numpy as np

from suites.backends.backend import Backend
from suites.backends.numba_cuda import (
    NEIGHBOURS,
    WARP,
    WARPS,
    CudaKernel,
    aligned,
    cuda,
    kernel,
    neighbours,
    neighbours_once,
    sum_of_lanes,
)
from suites.mutants.mutant import mutant
from suites.ops.matvec import OPERATOR as MATVEC
from suites.ops.matvec import dot_of_four


@kernel
def dropped_vectors(A, x, out):
    """A warp has a row, and loads two vectors before it uses the first. A last vector without a second is left out."""
    shared = cuda.shared.array(WARPS, out.dtype)
    row, columns, lanes = np.uint64(cuda.blockIdx.x), np.uint64(A.shape[1]), np.uint64(cuda.blockDim.x)
    each, lane = np.uint64(NEIGHBOURS), np.uint64(cuda.threadIdx.x)
    first, step, j = row * columns, lanes * each, lane
    total = out.dtype.type(0)
    if columns % each == np.uint64(0) and aligned(A) and aligned(x):
        j = lane * each
        while j + step < columns:
            i = first + j
            v0, v1 = neighbours_once(A, i), neighbours_once(A, i + step)
            total += dot_of_four(v0, neighbours(x, j)) + dot_of_four(v1, neighbours(x, j + step))
            j += step * np.uint64(2)
        j = columns
    while j < columns:
        total += A[row, j] * x[j]
        j += lanes
    total = sum_of_lanes(shared, total, cuda.blockDim.x)
    if lane == np.uint64(0):
        out[row] = total


def _warp_a_row(inputs, outs):
    return {"grid": outs[0].shape[0], "block": WARP}


MUTANTS = (
    mutant(
        MATVEC,
        "dropped_vectors",
        Backend.NUMBA_CUDA,
        CudaKernel(dropped_vectors, _warp_a_row),
        "vectors that fill no batch of loads are left out",
        gradient=None,
    ),
)
