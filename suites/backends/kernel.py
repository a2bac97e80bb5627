"""Declares the base class of all kernels, for authors of a backend with its own kernel class."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

DeclaredDtypes = list[tuple[str | None, ...]]
"""The dtypes of inputs and outputs, None for any dtype, of each signature that a kernel is declared with."""


class Kernel(ABC):
    """A kernel together with everything that its backend needs to build a JAX callable from it.

    A new kernel class defines :meth:`build`, and overrides the other members where its kernels differ.
    """

    @abstractmethod
    def build(self, inputs: Sequence[Any], outs: Sequence[Any]) -> Callable[..., Any]:
        """Makes a JAX callable that takes the inputs and returns the outputs.

        Args:
            inputs: Anything with shape and dtype for each input. Empty if they are unknown: then only kernels whose
                launch does not depend on the inputs can be built.
            outs: A ``jax.ShapeDtypeStruct`` for each output.
        """

    @property
    def custom_calls(self) -> int:
        """How many custom calls one call of the callable makes."""
        return 1

    @property
    def direct(self) -> bool:
        """Whether the callable is the bridge's own, rather than a function around it."""
        return True

    @property
    def atomic(self) -> bool:
        """Whether atomic operations add floats up. On a GPU their order varies, and so do the last bits."""
        return False

    def with_bounds_checks(self) -> Kernel | None:
        """A copy of the kernel in which an index out of bounds is an IndexError; None if its language has none."""
        return None

    @property
    def parallel(self) -> bool:
        """Whether Numba runs loops of the kernel on several threads of the CPU."""
        return False

    def declared_dtypes(self) -> DeclaredDtypes | None:
        """The dtypes that the kernel itself declares; None if it takes any."""
        return None

    def generates_adjoint(self, dtype: str) -> bool:
        """Whether the kernel language generates an adjoint of this kernel in a dtype."""
        return False


@dataclass(frozen=True)
class Same:
    """Returns the same value for every dtype, for fields that are functions of a dtype's name."""

    value: Any

    def __call__(self, dtype: str) -> Any:
        """The value."""
        return self.value
