"""Wraps the add as a Warp kernel, by the bridge and by Warp itself. This module imports Warp."""

# No `from __future__ import annotations` here: Warp reads the annotations of a kernel as objects.

from collections.abc import Callable

import jax

import bridge
from suites.backends.warp_blocks import wp
from suites.dispatch.path import BinaryOp, PathUnavailableError


@wp.kernel
def add(x: wp.array(dtype=wp.float32), y: wp.array(dtype=wp.float32), out: wp.array(dtype=wp.float32)):
    """Adds two vectors, one element for each thread."""
    i = wp.tid()
    out[i] = x[i] + y[i]


def bridge_add() -> BinaryOp:
    """Returns the kernel, wrapped by :func:`bridge.jax_kernel`."""
    return _single(bridge.jax_kernel(add))


def warp_add() -> BinaryOp:
    """Returns the kernel, wrapped by ``jax_kernel`` of Warp.

    Raises:
        PathUnavailableError: This version of Warp has no ``warp.jax_kernel``.
    """
    if not hasattr(wp, "jax_kernel"):
        raise PathUnavailableError(f"Warp {wp.__version__} has no warp.jax_kernel")
    return _single(wp.jax_kernel(add))


def _single(wrapped: Callable[..., list[jax.Array]]) -> BinaryOp:
    """Returns a function that takes the only output of a wrapped kernel out of its list."""

    def call(x: jax.Array, y: jax.Array) -> jax.Array:
        (out,) = wrapped(x, y)
        return out

    return call
