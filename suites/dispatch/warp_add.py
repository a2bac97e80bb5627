"""The add as a Warp kernel; importing this module imports Warp."""

# No `from __future__ import annotations` here: Warp reads the annotations of a kernel as objects.

from collections.abc import Callable

import jax
import warp as wp

from suites.dispatch.path import PathUnavailableError

# Warp prints its start-up banner on the standard output, where the report goes.
if hasattr(wp, "LOG_WARNING"):
    wp.config.log_level = wp.LOG_WARNING
else:  # older releases
    wp.config.quiet = True  # type: ignore[attr-defined]


@wp.kernel
def add(x: wp.array(dtype=wp.float32), y: wp.array(dtype=wp.float32), out: wp.array(dtype=wp.float32)):  # type: ignore
    i = wp.tid()
    out[i] = x[i] + y[i]


def warp_add() -> Callable[[jax.Array, jax.Array], jax.Array]:
    """The kernel wrapped by Warp's own ``jax_kernel``.

    Raises:
        PathUnavailableError: This Warp does not have it under this name.
    """
    if not hasattr(wp, "jax_kernel"):
        raise PathUnavailableError(f"Warp {wp.__version__} has no warp.jax_kernel")
    wrapped: Callable[..., list[jax.Array]] = wp.jax_kernel(add)

    def call(x: jax.Array, y: jax.Array) -> jax.Array:
        (out,) = wrapped(x, y)
        return out

    return call
