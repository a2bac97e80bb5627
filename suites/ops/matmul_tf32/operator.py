"""matmul_tf32: matmul of float32, whose elements lose all but 10 of their 23 stored bits before they are multiplied.

Tensor cores multiply these numbers, TF32, about eight times as fast as a GPU multiplies float32; sums are float32.
"""

import dataclasses
import functools

import numpy as np

from suites import CutileKernel, TritonKernel
from suites.kernels.half_precision import product
from suites.ops.matmul import cutile, triton
from suites.ops.matmul.operator import OPERATOR as IN_FULL


def _edges(dtype):
    """Those of matmul, and whole numbers of eleven bits, which TF32 holds and bfloat16 does not."""
    random = np.random.default_rng(7)
    whole = (random.integers(-2047, 2048, shape).astype(dtype) for shape in ((33, 70), (70, 65)))
    return {**IN_FULL.edges(dtype), "eleven_bits": tuple(whole)}


OPERATOR = dataclasses.replace(
    IN_FULL,
    name="matmul_tf32",
    reference=lambda A, B: [product(A, B, "tensorfloat32")],
    kernels={
        "triton": TritonKernel(triton.matmul_triton, functools.partial(triton.launch, precision="tf32")),
        "cutile_kernel": CutileKernel(cutile.matmul_cutile, functools.partial(cutile.launch, tf32=True)),
    },
    peers={},
    dtypes=("float32",),
    lacks={},
    edges=_edges,
    errors=(),
    remarks="TF32: 10 bits of a factor, float32 sums; on a CPU jnp multiplies float32",
)
