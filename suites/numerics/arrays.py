"""Names the types of the arrays that operators take, and describes arrays by shape and dtype."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

Array = np.ndarray[Any, Any]

Inputs = tuple[Array, ...]
"""The inputs of one call of an operator."""


def specs(arrays: Sequence[Any]) -> tuple[jax.ShapeDtypeStruct, ...]:
    """Shapes and dtypes of arrays, or of anything that has both; the result is hashable."""
    return tuple(jax.ShapeDtypeStruct(array.shape, array.dtype) for array in arrays)
