"""Makes the kernels of the backend ``jnp``: the reference of an operator, compiled by XLA."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax

from suites.kernels.kernel import Kernel


@functools.lru_cache(maxsize=256)  # JAX keeps compiled programs by the function
def in_full_precision(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function that multiplies float32 matrices in float32, unless ``jax_default_matmul_precision`` is set.

    On a GPU XLA multiplies them in TensorFloat-32, which keeps 10 bits of a number: no kernel is held to so little.
    """

    @functools.wraps(function)
    def precise(*arrays: Any) -> Any:
        chosen = getattr(jax.config, "jax_default_matmul_precision", None)
        with jax.default_matmul_precision(chosen or "highest"):
            return function(*arrays)

    return precise


@dataclass(frozen=True)
class JaxFunction(Kernel):
    """A function of JAX arrays."""

    function: Callable[..., Any]

    def build(self, inputs: Sequence[Any], outs: Sequence[Any]) -> Callable[..., Any]:
        """The function, with products of float32 in float32."""
        return in_full_precision(self.function)

    @property
    def returns_list(self) -> bool:
        """The reference of an operator returns one."""
        return True


def accept(declared: Any) -> Kernel | None:
    """Returns a function as a kernel."""
    return JaxFunction(declared) if callable(declared) else None
