"""Names the types of arrays, and compares arrays by shape, dtype and bits."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Array = np.ndarray[Any, Any]

Inputs = tuple[Array, ...]
"""The inputs of one call of an operator."""


def kind_of(dtype: Any) -> str:
    """The kind of a dtype, as NumPy names it: "f" also for bfloat16, which NumPy takes for a structure."""
    return "f" if jnp.issubdtype(dtype, np.floating) else np.dtype(dtype).kind


def specs(arrays: Sequence[Any]) -> tuple[jax.ShapeDtypeStruct, ...]:
    """Shapes and dtypes of arrays, or of anything that has both; the result is hashable."""
    return tuple(jax.ShapeDtypeStruct(array.shape, array.dtype) for array in arrays)


def total_bytes(*arrays: Any) -> int:
    """The bytes of all arrays together, from their shapes and dtypes."""
    return sum(int(np.prod(array.shape)) * np.dtype(array.dtype).itemsize for array in arrays)


def fingerprint(arrays: Sequence[Array]) -> str:
    """Returns a digest that is equal for equal bits, shapes and dtypes: NaN equals itself, -0.0 differs from 0.0."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def same_bits(arrays: Sequence[Array], others: Sequence[Array]) -> bool:
    """Tells whether two lists of arrays hold the same bits."""
    pairs = zip(arrays, others, strict=True)
    return all(np.array_equal(_bytes(a), _bytes(b)) for a, b in pairs)


def _bytes(array: Array) -> Array:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
