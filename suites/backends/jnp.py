"""Adds the backend ``jnp``: the reference of an operator, compiled by XLA."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from suites.backends.backend import Backend, register_backend
from suites.backends.kernel import Kernel


@dataclass(frozen=True)
class JaxFunction(Kernel):
    """A function of JAX arrays."""

    function: Callable[..., Any]

    def build(self, inputs: Sequence[Any], outs: Sequence[Any]) -> Callable[..., Any]:
        """The function itself."""
        return self.function

    @property
    def returns_list(self) -> bool:
        """The reference of an operator returns one."""
        return True


JNP = register_backend(
    Backend(
        id="jnp",
        targets={"cpu": None, "cuda": None},
        accept=lambda kernel: JaxFunction(kernel) if callable(kernel) else None,
        expected="a function of JAX arrays",
        cure="Write it with jax.numpy.",
        takes_any_callable=True,
    )
)
