"""Runs the calls of a primitive on arrays, outside of the programs that JAX compiles.

JAX does so under ``jax.disable_jit``, and to find the operation of a program that returned a NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

_config: Any = jax.config  # has no type annotations


class Named(Protocol):
    """A hashable call that errors can name."""

    name: str

    def __hash__(self) -> int:
        """JAX finds compiled programs by it."""


def evaluation(bind: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    """The evaluation rule of a primitive. It compiles once for each call and each set of types.

    Args:
        bind: Makes a call: a function of the call and of its arrays.
    """
    compiled = jax.jit(bind, static_argnums=0)

    def evaluate(*args: Any, call: Named) -> list[Any]:
        # After a NaN, JAX evaluates a program again, operation by operation, and so comes back here. The call is one of
        # these operations: it is not evaluated again, but checked as a whole.
        with jax.disable_jit(False), jax.debug_nans(False), jax.debug_infs(False):
            results: list[Any] = compiled(call, *args)
        if _config.jax_debug_nans:
            _check(call, results, "nan", np.isnan)
        if _config.jax_debug_infs:
            _check(call, results, "inf", np.isinf)
        return results

    return evaluate


def _check(call: Named, results: Sequence[Any], kind: str, found: Callable[[Any], Any]) -> None:
    """Raises the error that JAX raises for an operation of its own with such a result."""
    for result in results:
        if jnp.issubdtype(result.dtype, jnp.inexact):
            parts = (np.asarray(shard.data) for shard in result.addressable_shards)
            if any(found(part).any() for part in parts):
                raise FloatingPointError(f"invalid value ({kind}) encountered in {call.name}")
