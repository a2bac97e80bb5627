"""Sets JAX's x64 mode by dtypes, and names numbers that only tensor cores multiply."""

from __future__ import annotations

import contextlib
from typing import Any

import jax
import numpy as np

NARROWER = {"float64": "float32", "int64": "int32", "uint64": "uint32", "complex128": "complex64"}
"""The dtypes that JAX has only in its x64 mode, each with the dtype that replaces it in the other mode."""

FLOAT8 = "float8_e4m3fn"
"""Floats of 8 bits up to 448, without infinities. Their products are added up in, and returned as, float32."""

FLOAT8_SUM_BITS = 14
"""The bits of a sum of such products that Hopper's tensor cores keep (DeepSeek-V3 Technical Report, section 3.3.2)."""

TF32_BITS = 11
"""The bits of a significand in TF32, with the leading one. A tensor core may cut off the other ones, or round."""


def multiplies_tf32(precision: Any) -> bool:
    """Tells whether a product of float32 matrices is of TF32 numbers, by the ``precision`` of ``dot_general``."""
    return precision in ((jax.lax.Precision.HIGH,) * 2, jax.lax.DotAlgorithmPreset.TF32_TF32_F32)


def needs_x64(*dtypes: Any) -> bool:
    """Tells whether any of the dtypes needs JAX's x64 mode."""
    return any(np.dtype(dtype).name in NARROWER for dtype in dtypes)


def precision(*dtypes: Any) -> contextlib.AbstractContextManager[Any]:
    """Turns JAX's x64 mode on only if any of the dtypes needs it, so that both modes are tested."""
    on: contextlib.AbstractContextManager[Any] = jax.enable_x64(needs_x64(*dtypes))
    return on
