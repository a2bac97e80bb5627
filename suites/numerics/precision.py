"""Sets JAX's x64 mode by dtypes, so that each operator runs in the mode that its users need."""

from __future__ import annotations

import contextlib
from typing import Any

import jax
import numpy as np

NARROWER = {"float64": "float32", "int64": "int32", "uint64": "uint32", "complex128": "complex64"}
"""The dtypes that JAX has only in its x64 mode, each with the dtype that replaces it in the other mode."""


def needs_x64(*dtypes: Any) -> bool:
    """Tells whether any of the dtypes needs JAX's x64 mode."""
    return any(np.dtype(dtype).name in NARROWER for dtype in dtypes)


def precision(*dtypes: Any) -> contextlib.AbstractContextManager[Any]:
    """Turns JAX's x64 mode on only if any of the dtypes needs it, so that both modes are tested."""
    on: contextlib.AbstractContextManager[Any] = jax.enable_x64(needs_x64(*dtypes))
    return on
