"""Gives references of operators float16, bfloat16 and numbers of 8 bits, with everything computed in float32."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from suites.numerics.precision import FLOAT8

HALVES = ("float16", "bfloat16")

FLOATS = ("float32", "float64", *HALVES)
"""The dtypes of an operator on real floats. Its first dtype is the one that quick checks take."""

WIDE = ("float32", "float64")
"""The dtypes of a derivative for which Warp's adjoint adds several numbers up: it does so in the dtype of the array."""


def no_halves(why: str) -> dict[str, str]:
    """Returns the reason why a kernel lacks both dtypes of 16 bits, for the field ``lacks`` of an operator."""
    return dict.fromkeys(HALVES, why)


ADDS_IN_PLACE = no_halves("adds up in its results, which would round each sum to 16 bits")
"""Of kernels that add to memory that threads share."""

LOSES_NAN = {"numba_cuda_mlir": {"bfloat16": "numba-cuda-mlir 0.6 stores NaN as -0"}}
"""For the field ``lacks`` of an operator whose results may be NaN."""

TUNED = no_halves("keeps numbers of 32 or 64 bits in registers; other rows of the operator have 16 bits")
"""Of kernels whose vectors and shuffles are made for wider numbers."""


def in_float32(reference: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a reference that computes float16 and bfloat16 in float32, and rounds its results once.

    Its kernels are then held to the same: read a number of 16 bits as a float32, add up in float32, and round what is
    stored. A kernel that adds up in 16 bits is outside of the error bound. Other dtypes pass through unchanged.

    Args:
        reference: A function of JAX arrays. If one of them is of 16 bits, its float32 results get the dtype of this.
    """

    @functools.wraps(reference)
    def widened(*inputs: Any) -> Any:
        halves = [each.dtype for each in inputs if each.dtype in HALVES]
        if not halves:
            return reference(*inputs)
        results = reference(*(each.astype(jnp.float32) if each.dtype in HALVES else each for each in inputs))
        return jax.tree.map(lambda each: each.astype(halves[0]) if each.dtype == jnp.float32 else each, results)

    return widened


def product(A: jax.Array, B: jax.Array, precision: str = "highest") -> jax.Array:
    """The product of two matrices, or of a matrix and a vector: exact products, added up in :func:`wide` numbers.

    A tensor core multiplies numbers of 16 bits so. float32 is multiplied as TF32 only with ``tensorfloat32``.
    """
    precision = "default" if A.dtype == FLOAT8 else precision  # with more, cuBLAS adds up more slowly than a kernel
    return jnp.matmul(A, B, precision=precision, preferred_element_type=wide(A.dtype)).astype(result_dtype(A.dtype))


def result_dtype(dtype: Any) -> Any:
    """Returns the dtype of a product: that of its factors, but float32 for numbers of 8 bits."""
    return jnp.dtype(jnp.float32 if dtype == FLOAT8 else dtype)


def wide(dtype: Any) -> Any:
    """Returns the dtype that a kernel computes in: float32 for a dtype of 8 or 16 bits, else the dtype itself."""
    return jnp.dtype(jnp.float32 if dtype in (*HALVES, FLOAT8) else dtype)
