"""matmul: the product of two matrices; nominal size is the size of the first, and samples are square."""

import math

import jax
import numpy as np

from suites import (
    CudaKernel,
    CutileKernel,
    ErrorCase,
    Failure,
    Operator,
    Sizes,
    TritonKernel,
    WarpCallable,
    WarpKernel,
    value_errors,
    values,
)
from suites.kernels.half_precision import FLOATS, LOSES_NAN, WIDE, product, result_dtype
from suites.numerics.precision import FLOAT8
from suites.ops.matmul import cutile, mosaic, numba_cpu, numba_cuda, triton, warp, warp_tiles
from suites.peers import functions as peers
from suites.vendors.calls import triton_call
from suites.vendors.shipped import CuteKernel, Later, ShippedKernel

NO_FLOAT8 = {FLOAT8: "the language has no products of numbers of 8 bits"}


def _call(dtype, rows, depth, columns, random):
    A, B = values(dtype, rows * depth, random), values(dtype, depth * columns, random)
    return A.reshape(rows, depth), B.reshape(depth, columns)


def _sample(dtype, size, seed):
    side = math.isqrt(size)
    return _call(dtype, side, side, side, np.random.default_rng(seed))


def _edges(dtype):
    shapes = {
        "no_rows": (0, 3, 5),
        "no_depth": (3, 0, 5),
        "one": (1, 1, 1),
        "one_row": (1, 70, 131),
        "one_column": (131, 70, 1),
        "odd": (33, 67, 65),
        "deep": (3, 1031, 2),
        "half_of_a_tile": (32, 32, 32),
    }
    random = np.random.default_rng(6)
    cases = {name: _call(dtype, *shape, random) for name, shape in shapes.items()}
    A, B = _call(dtype, 5, 7, 9, random)
    A[2, 3], B[1, 4] = np.nan, np.inf
    return cases | {"nan_and_inf": (A, B)}


OPERATOR = Operator(
    name="matmul",
    outputs=lambda A, B: [jax.ShapeDtypeStruct((A.shape[0], B.shape[1]), result_dtype(A.dtype))],
    reference=lambda A, B: [product(A, B)],
    kernels={
        "numba": numba_cpu.matmul,
        "numba_parallel": numba_cpu.matmul_parallel,
        "numba_cuda": CudaKernel(numba_cuda.matmul_cuda, numba_cuda.launch),
        "numba_cuda_mlir": CudaKernel(numba_cuda.matmul_cuda, numba_cuda.launch),
        "warp": WarpKernel(warp.matmul_warp, warp.launch),
        "warp_tile": WarpCallable(warp_tiles.matmul_in_tiles, calls=1),
        "triton": TritonKernel(triton.matmul_triton, triton.launch),
        "cutile_kernel": CutileKernel(cutile.matmul_cutile, cutile.launch),
        "jax_triton": triton_call(TritonKernel(triton.matmul_triton, triton.launch)),
        "cute_dsl": CuteKernel(Later("suites.ops.matmul.cute_dsl", "matmul_cute")),
        "mosaic_gpu": ShippedKernel(mosaic.matmul_mosaic),
    },
    peers=peers.MATMUL,
    dtypes=(*FLOATS, FLOAT8),
    lacks={
        **dict.fromkeys(("numba", "numba_parallel", "numba_cuda", "warp"), NO_FLOAT8),
        "numba_cuda_mlir": {**LOSES_NAN["numba_cuda_mlir"], **NO_FLOAT8},
        "warp_tile": {
            "float64": "Warp compiles its tiles for a minute in each dtype; the kernel of warp has this one",
            **NO_FLOAT8,
        },
        "cute_dsl": dict.fromkeys((*WIDE, FLOAT8), "the kernel multiplies numbers of 16 bits"),
        "mosaic_gpu": dict.fromkeys((*WIDE, FLOAT8), "JAX ships a kernel for numbers of 16 bits"),
    },
    sample=_sample,
    edges=_edges,
    errors=(
        ErrorCase(
            "unequal_depths",
            lambda: (np.zeros((3, 4), np.float32), np.zeros((5, 2), np.float32)),
            {
                "jnp": Failure(TypeError, "contracting dimension"),
                **value_errors(numba_cpu.DEPTHS, in_launches=("warp", "warp_tile")),
            },
        ),
    ),
    gradient=None,  # it is two more products, which a rule around the kernel would call
    flops=lambda A, B: 2 * A.size * B.shape[1],
    sizes=Sizes(
        quick=(2**16,),  # Warp takes 0.8 s for one call of 2**20 on a CPU, and a group minutes
        full=(1024, 4096, 2**16, 2**20),
        cuda_quick=(4096, 2**20, 2**22),
        cuda_full=(4096, 2**16, 2**20, 2**22, 2**24),
    ),
)
