"""Declares the base class of all kernels, for authors of a backend with its own kernel class."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

DeclaredDtypes = list[tuple[str | None, ...]]
"""The dtypes of inputs and outputs, None for any dtype, of each signature that a kernel is declared with."""


@dataclass(frozen=True)
class AtLeast:
    """A number of custom calls of which only the least is known.

    Attributes:
        calls: The least number of custom calls in a program that calls the kernel.
        transformed: The least number after a transformation, for which an operator may have a rule without kernels.
    """

    calls: int
    transformed: int

    def __rmul__(self, times: int) -> AtLeast:
        return self

    def __str__(self) -> str:
        return f"at least {self.calls}"


@dataclass(frozen=True)
class Derivative:
    """Says in which modes JAX can differentiate a kernel's callable.

    Attributes:
        reverse: Whether ``jax.vjp`` works.
        forward: Whether ``jax.jvp`` works.
        inputs: The indices of the inputs that have a derivative; None for all inputs of real floats.
        generated: Whether a compiler makes the derivative from the kernel alone. Its author may never have meant it.
    """

    reverse: bool
    forward: bool = False
    inputs: tuple[int, ...] | None = None
    generated: bool = False


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
    def custom_calls(self) -> int | AtLeast:
        """How many custom calls one call of the callable makes."""
        return 1

    @property
    def returns_list(self) -> bool:
        """Whether the callable returns a list of arrays; if not, its results are put into one."""
        return False

    def aliases(self, inputs: Sequence[Any], outs: Sequence[Any]) -> Mapping[int, int]:
        """Pairs of input and output that share a buffer, by index: the kernel updates these inputs in place."""
        return {}

    def derivative(self, inputs: Sequence[Any], outs: Sequence[Any]) -> Derivative | None:
        """How the callable can be differentiated; None if the kernel does not say."""
        return None

    def unsupported(self, platform: str) -> str | None:
        """Why this kernel cannot run on a platform that its backend has code for; None if it can."""
        return None

    @property
    def adds_atomically(self) -> bool:
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


@dataclass(frozen=True)
class LaunchedKernel(Kernel):
    """A kernel with its launch, for a function of the bridge that takes both and values by name.

    Attributes:
        wrapper: The function of the bridge.
        kernel: The object that it takes as the kernel.
        launch: Takes the inputs and outputs of a call. Returns the keyword arguments of the function, and perhaps
            ``arrange``: a function that changes the arrays before the kernel takes them, in the time of the call.
    """

    wrapper: ClassVar[Callable[..., Any]]
    kernel: Any
    launch: Callable[[Sequence[Any], Sequence[Any]], dict[str, Any]]

    def build(self, inputs: Sequence[Any], outs: Sequence[Any]) -> Callable[..., Any]:
        """The callable of the function of the bridge."""
        return arranged(lambda launch: type(self).wrapper(self.kernel, list(outs), **launch), self.launch(inputs, outs))

    @property
    def returns_list(self) -> bool:
        """It does, for the outputs are a list."""
        return True

    def aliases(self, inputs: Sequence[Any], outs: Sequence[Any]) -> Mapping[int, int]:
        """Those among the launch arguments."""
        return self.launch(inputs, outs).get("input_output_aliases") or {}


def arranged(make: Callable[[dict[str, Any]], Callable[..., Any]], launch: Mapping[str, Any]) -> Callable[..., Any]:
    """The call that ``make`` returns for a launch, after the ``arrange`` of the launch."""
    arrange, call = launch.get("arrange"), make({name: launch[name] for name in launch if name != "arrange"})
    return call if arrange is None else lambda *arrays: call(*arrange(*arrays))


@dataclass(frozen=True)
class Same:
    """Returns the same value for every dtype, for fields that are functions of a dtype's name."""

    value: Any

    def __call__(self, dtype: str) -> Any:
        """The value."""
        return self.value
