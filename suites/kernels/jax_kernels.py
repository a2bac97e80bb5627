"""Makes a function of JAX arrays that calls kernels a kernel of their backend, with the derivative that it declares."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax

from suites.kernels.kernel import AtLeast, Derivative, Kernel


@dataclass(frozen=True)
class JaxKernel(Kernel):
    """A function of JAX arrays that calls kernels of the bridge, such as one with a ``jax.custom_vjp``.

    It takes inputs of every size, so its kernels need a function ``outs``::

        @jax.custom_vjp
        def square(x):
            return bridge.numba_kernel(kernel, lambda x: x)(x)

        kernels={"numba": JaxKernel(square)}

    Attributes:
        function: The function. It returns one array, or a pytree of them. A ``jax.custom_vjp``, a ``jax.custom_jvp``
            and a function under ``jax.jit`` can be declared without this class.
        differentiable: Whether ``jax.grad`` of it must be right. By default it must if the function is a
            ``jax.custom_vjp`` or a ``jax.custom_jvp``.
        calls: How many kernels a call runs; None if at least one.
        atomic: Whether atomic operations add floats up. On a GPU their order varies, and so do the last bits.
    """

    function: Callable[..., Any]
    differentiable: bool | None = None
    calls: int | None = None
    atomic: bool = False

    def build(self, inputs: Sequence[Any], outs: Sequence[Any]) -> Callable[..., Any]:
        """The function, compiled, with its results in a list."""
        return _compiled(self.function)

    @property
    def custom_calls(self) -> int | AtLeast:
        """The declared number. A rule for derivatives may do without kernels."""
        return AtLeast(1, 0) if self.calls is None else self.calls

    @property
    def returns_list(self) -> bool:
        """The compiled function returns one."""
        return True

    def derivative(self, inputs: Sequence[Any], outs: Sequence[Any]) -> Derivative:
        """Reverse mode, if the function has a rule or is declared differentiable; forward mode with ``custom_jvp``."""
        forward = isinstance(self.function, jax.custom_jvp)
        has_rule = forward or isinstance(self.function, jax.custom_vjp)
        return Derivative(reverse=has_rule if self.differentiable is None else self.differentiable, forward=forward)


_JITTED = type(jax.jit(lambda x: x))


def jax_kernel_function(declared: Any) -> JaxKernel | None:
    """Returns an author's declaration as a :class:`JaxKernel`; None if it is none.

    Args:
        declared: A ``JaxKernel``, a ``jax.custom_vjp``, a ``jax.custom_jvp``, or a function under ``jax.jit`` that
            is no wrapper of one kernel.
    """
    if isinstance(declared, JaxKernel):
        return declared if callable(declared.function) else None
    has_rule = isinstance(declared, jax.custom_vjp | jax.custom_jvp)
    if has_rule or (isinstance(declared, _JITTED) and not hasattr(declared, "made_by")):
        return JaxKernel(declared)
    return None


@functools.lru_cache(maxsize=1024)
def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    return jax.jit(lambda *arrays: jax.tree.leaves(function(*arrays)))
