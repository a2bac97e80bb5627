"""The add as a Warp kernel, wrapped by the bridge and by Warp itself; importing this module imports Warp."""

# No `from __future__ import annotations` here: Warp reads the annotations of a kernel as objects.

from collections.abc import Callable

import jax

import bridge
from suites.backends.warp_blocks import wp
from suites.dispatch.path import BinaryOp, PathUnavailableError


@wp.kernel
def add(x: wp.array(dtype=wp.float32), y: wp.array(dtype=wp.float32), out: wp.array(dtype=wp.float32)):
    i = wp.tid()
    out[i] = x[i] + y[i]


def bridge_add() -> BinaryOp:
    """The kernel wrapped by :func:`bridge.jax_kernel`."""
    return _single(bridge.jax_kernel(add))


def warp_add() -> BinaryOp:
    """The kernel wrapped by Warp's own ``jax_kernel``.

    Raises:
        PathUnavailableError: This Warp does not have it under this name.
    """
    if not hasattr(wp, "jax_kernel"):
        raise PathUnavailableError(f"Warp {wp.__version__} has no warp.jax_kernel")
    return _single(wp.jax_kernel(add))


def _single(wrapped: Callable[..., list[jax.Array]]) -> BinaryOp:
    """The one output of a wrapped kernel, which is in a list."""

    def call(x: jax.Array, y: jax.Array) -> jax.Array:
        (out,) = wrapped(x, y)
        return out

    return call
