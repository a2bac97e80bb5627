"""Holds the add as a Warp kernel. This module imports Warp."""

# No `from __future__ import annotations` here: Warp reads the annotations of a kernel as objects.

from suites.kernels.warp.blocks import wp


@wp.kernel
def add(x: wp.array(dtype=wp.float32), y: wp.array(dtype=wp.float32), out: wp.array(dtype=wp.float32)):
    """Adds two vectors, one element for each thread."""
    i = wp.tid()
    out[i] = x[i] + y[i]
