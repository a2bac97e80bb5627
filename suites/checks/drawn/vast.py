"""Chooses a size whose index takes more than 31 bits, where the memory of machine and device has room for it."""

from __future__ import annotations

import os
from typing import Any

import jax
import numpy as np

from suites.declare.operator import Operator

SIZE = 2**31 + 9
"""An index beyond it is negative in 32 bits."""

COPIES = 5
"""Arrays that a check holds for each input and output: the values, the poison, two results, and a comparison."""


def vast_size(operator: Operator, dtype: str, device: jax.Device) -> int | None:
    """Returns :data:`SIZE` for an elementwise operator whose arrays fit the memory, else None.

    Only samples of elementwise operators repeat themselves, so that their truth is cheap.
    """
    if not operator.elementwise:
        return None
    inputs = operator.sample(dtype, 64, 0)
    arrays: list[Any] = [*inputs, *operator.outputs(*inputs)]
    needed = COPIES * sum(SIZE * np.dtype(each.dtype).itemsize for each in arrays if int(np.prod(each.shape)) > 1)
    return SIZE if needed < min(_free_bytes(), _device_bytes(device)) else None


def _free_bytes() -> float:
    """Memory that programs may still take, or 0 where the system does not say."""
    try:
        return float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (ValueError, OSError, AttributeError):
        return 0.0


def _device_bytes(device: jax.Device) -> float:
    statistics = device.memory_stats() if device.platform != "cpu" else None
    return float(statistics["bytes_limit"]) if statistics else float("inf")
