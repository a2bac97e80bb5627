"""Declares a kernel that is a JAX function, the base of the kernels of several backends."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax

from suites.kernels.kernel import Kernel
from suites.numerics.arrays import specs


@dataclass(frozen=True)
class FunctionKernel(Kernel):
    """A JAX function that calls kernels, such as two of them with a temporary array in between.

    Attributes:
        make: Takes the inputs and outputs of a call. Returns a function of arrays that returns the outputs: one array,
            or a list of them.
        calls: How many kernels the function calls.
    """

    make: Callable[[Sequence[Any], Sequence[Any]], Callable[..., Any]]
    calls: int = 1

    def build(self, inputs: Sequence[Any], outs: Sequence[Any]) -> Callable[..., Any]:
        """The function that was made, compiled."""
        return _call(self.make, specs(inputs), specs(outs))

    @property
    def custom_calls(self) -> int:
        """How many kernels the function calls."""
        return self.calls

    @property
    def returns_list(self) -> bool:
        """The compiled function returns one."""
        return True


@functools.lru_cache(maxsize=1024)
def _call(make: Callable[..., Any], inputs: Any, outs: Any) -> Callable[..., Any]:
    function = make(inputs, outs)
    return jax.jit(lambda *arrays: jax.tree.leaves(function(*arrays)))


def accept(declared: Any) -> FunctionKernel | None:
    """Returns a function of JAX arrays that calls the bridge, for a backend without a class of its own."""
    return declared if type(declared) is FunctionKernel and callable(declared.make) else None
