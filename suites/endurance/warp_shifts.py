"""Makes Warp kernels that differ in a constant. This module imports Warp."""

# No `from __future__ import annotations` here: Warp reads the annotations of a kernel as objects.

from typing import Any

from suites.backends.warp_blocks import wp


def warp_shift(number: float) -> Any:
    """Returns a new Warp kernel that adds ``number``."""
    amount = wp.float32(number)

    @wp.kernel(module="unique")
    def shift(x: wp.array(dtype=wp.float32), out: wp.array(dtype=wp.float32)):
        i = wp.tid()
        out[i] = x[i] + amount

    return shift
