"""softmax: ``out[i, j] = exp(x[i, j]) / sum(exp(x[i]))``, with the row's maximum subtracted so that nothing overflows.

Nominal size is the number of elements. As with ``jax.nn.softmax``, a row is NaN if it has a NaN or plus infinity, or if
all its elements are minus infinity. A single minus infinity has the weight zero.
"""

import math

import jax
import numpy as np

from suites import CudaKernel, Gradient, Operator, Sizes, TritonKernel, WarpKernel, total_bytes, values, vectors
from suites.backends.cutile import CutileKernel
from suites.kernels.half_precision import FLOATS, LOSES_NAN, TUNED, in_float32
from suites.ops.softmax import cutile, numba_cpu, numba_cuda, triton, warp
from suites.peers import functions as peers
from suites.vendors.calls import triton_call


def _shape(size):
    columns = math.isqrt(size)
    return size // columns, columns


def _sample(dtype, size, seed):
    shape = _shape(size)
    return (4 * values(dtype, math.prod(shape), np.random.default_rng(seed)).reshape(shape),)


def _edges(dtype):
    """Each vector as the middle one of three rows, and rows that are masked, far from zero, or of one column."""
    random = np.random.default_rng(6)
    cases = {}
    for name, vector in vectors(dtype).items():
        rows = np.ones((3, vector.size), dtype)
        rows[1] = vector
        cases[name] = (rows,)
    masked = values(dtype, 4 * 33, random).reshape(4, 33)
    masked[0, 5:], masked[1, :-1], masked[2] = -np.inf, -np.inf, -np.inf
    largest = vectors(dtype)["huge"][0]
    for name, shape in {"no_rows": (0, 5), "one_column": (5, 1), "one_long_row": (1, 5000), "tall": (1031, 2)}.items():
        cases[name] = (values(dtype, math.prod(shape), random).reshape(shape),)
    return cases | {
        "masked": (masked,),
        "far_from_zero": (values(dtype, 2 * 33, random).reshape(2, 33) + np.array([[1000], [-1000]], dtype),),
        "far_apart": (np.array([[0, -80, -90, -100, -1000], [largest, -largest, 0, largest, 1]], dtype),),
    }


OPERATOR = Operator(
    name="softmax",
    version=1,
    outputs=lambda x: [jax.ShapeDtypeStruct(x.shape, x.dtype)],
    reference=in_float32(lambda x: [jax.nn.softmax(x, axis=1)]),
    kernels={
        "numba": numba_cpu.softmax,
        "numba_parallel": numba_cpu.softmax_parallel,
        "numba_cuda": CudaKernel(numba_cuda.softmax_cuda, numba_cuda.launch),
        "numba_cuda_mlir": CudaKernel(numba_cuda.softmax_cuda, numba_cuda.launch),
        "warp": WarpKernel(warp.softmax_warp, warp.launch),
        "triton": TritonKernel(triton.softmax_triton, triton.launch),
        "cutile_kernel": CutileKernel(cutile.softmax_cutile, cutile.launch),
        "jax_triton": triton_call(TritonKernel(triton.softmax_triton, triton.launch)),
    },
    peers=peers.SOFTMAX,
    dtypes=FLOATS,
    lacks={**LOSES_NAN, "warp": TUNED},
    sample=_sample,
    edges=_edges,
    gradient=Gradient(inputs=(0,)),
    bytes_read=total_bytes,
    bytes_written=total_bytes,
    flops=lambda x: 5 * x.size,
    sizes=Sizes(cuda_quick=(4096, 2**20, 2**24)),
)
