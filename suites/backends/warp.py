"""Adds the backends ``warp`` and ``warp_tile``: kernels of NVIDIA Warp, whose blocks may work on tiles.

It also exports the building blocks of :mod:`suites.backends.warp_blocks` for the files of operators.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax

from bridge import jax_kernel
from bridge.languages.warp.compiled import has_adjoint
from suites.backends.backend import Backend, register_backend
from suites.backends.kernel import DeclaredDtypes, Kernel, Same
from suites.backends.warp_blocks import (
    LANES,
    PARTS,
    PARTS_THREADS,
    SIDE,
    TILE,
    TILE_THREADS,
    add_up,
    add_up_parts,
    blocks,
    part_count,
    per_tile,
    scalar,
    tile_count,
    wp,
    zeros,
)
from suites.numerics.arrays import specs

__all__ = [
    "LANES",
    "PARTS",
    "PARTS_THREADS",
    "SIDE",
    "TILE",
    "TILE_THREADS",
    "WARP",
    "WARP_TILE",
    "WarpCallable",
    "WarpKernel",
    "add_up",
    "add_up_parts",
    "blocks",
    "part_count",
    "per_tile",
    "scalar",
    "tile_count",
    "wp",
    "zeros",
]


@dataclass(frozen=True)
class WarpKernel(Kernel):
    """A Warp kernel and how it is called; it runs on the CPU and on CUDA.

    Attributes:
        kernel: Takes the name of the first input's dtype and returns the ``warp.Kernel``: the same object each time.
            A ``warp.Kernel`` by itself serves all dtypes.
        options: Takes the inputs and outputs of a call (anything with shape and dtype). Returns the options of
            :func:`bridge.jax_kernel`.
        initial: Takes the outputs and returns the initial values of those that the kernel accumulates into
            (``in_out_argnames``). In the kernel these arguments follow the inputs.
        atomic: Whether atomic operations add floats up. On a GPU their order varies, and so do the last bits.
    """

    kernel: Callable[[str], Any]
    options: Callable[[Sequence[Any], Sequence[Any]], dict[str, Any]] = lambda inputs, outs: {}
    initial: Callable[[Sequence[Any]], Sequence[Any]] | None = None
    atomic: bool = False

    def build(self, inputs: Sequence[Any], outs: Sequence[Any]) -> Callable[..., Any]:
        """The callable of :func:`bridge.jax_kernel`, in a function that makes the initial values if there are any."""
        return _kernel_call(self, specs(inputs), specs(outs))

    @property
    def direct(self) -> bool:
        """Whether there are no initial values to be made."""
        return self.initial is None

    def declared_dtypes(self) -> DeclaredDtypes | None:
        """The dtypes of its annotations, if it is one kernel for all dtypes."""
        if not isinstance(self.kernel, Same):
            return None
        return [tuple(_dtype(argument.type) for argument in self.kernel.value.adj.args)]

    def generates_adjoint(self, dtype: str) -> bool:
        """Whether Warp generates an adjoint of the kernel in a dtype."""
        return has_adjoint(self.kernel(dtype))


@functools.lru_cache(maxsize=1024)
def _kernel_call(kernel: WarpKernel, inputs: Any, outs: Any) -> Callable[..., Any]:
    options = {"num_outputs": len(outs)} | kernel.options(inputs, outs)
    call = jax_kernel(kernel.kernel(str(inputs[0].dtype)), **options)
    initial = kernel.initial
    if initial is None:
        return call
    # Made inside the program: an initial value that came as an argument would have to be copied.
    return jax.jit(lambda *arrays: call(*arrays, *initial(outs)))


@dataclass(frozen=True)
class WarpCallable(Kernel):
    """A JAX function that calls Warp kernels, such as two of them with a temporary array in between.

    Attributes:
        make: Takes the inputs and outputs of a call. Returns a function of arrays that returns a list of outputs.
        calls: How many kernels the function calls.
        atomic: Whether atomic operations add floats up. On a GPU their order varies, and so do the last bits.
    """

    make: Callable[[Sequence[Any], Sequence[Any]], Callable[..., Sequence[Any]]]
    calls: int
    atomic: bool = False

    def build(self, inputs: Sequence[Any], outs: Sequence[Any]) -> Callable[..., Any]:
        """The function that was made, compiled."""
        return _function_call(self, specs(inputs), specs(outs))

    @property
    def custom_calls(self) -> int:
        """How many kernels the function calls."""
        return self.calls

    @property
    def direct(self) -> bool:
        """It is a function around calls of the bridge."""
        return False


@functools.lru_cache(maxsize=1024)
def _function_call(kernel: WarpCallable, inputs: Any, outs: Any) -> Callable[..., Any]:
    return jax.jit(kernel.make(inputs, outs))


def _accept(given: Any) -> Kernel | None:
    if isinstance(given, WarpCallable):
        return given
    if isinstance(given, WarpKernel):
        if isinstance(given.kernel, wp.Kernel):
            return replace(given, kernel=Same(given.kernel))
        return given if callable(given.kernel) else None
    if not isinstance(given, wp.Kernel):
        return None
    parameters = [(each.label, _inner_rank(each.type)) for each in given.adj.args]
    return WarpKernel(Same(given), _OutputShapes(tuple(parameters)))


def _accept_tile(given: Any) -> Kernel | None:
    """Refuses a bare kernel: it does not say how its blocks are launched."""
    return None if isinstance(given, wp.Kernel) else _accept(given)


def _inner_rank(given: Any) -> int:
    """Dimensions of an element of a Warp array: 1 for a vector, 2 for a matrix. They come last in the JAX array."""
    return len(getattr(getattr(given, "dtype", None), "_shape_", ()))


def _dtype(given: Any) -> str | None:
    """The dtype of a Warp array, also of vectors or matrices; None if the array is generic."""
    element = getattr(given, "dtype", None)
    name = getattr(getattr(element, "_wp_scalar_type_", element), "__name__", "")
    return name if re.fullmatch(r"bool|u?int\d+|float\d+", name) else None


@dataclass(frozen=True)
class _OutputShapes:
    """Makes the options of a bare kernel: a thread for each element of the first output.

    Attributes:
        parameters: Name, and dimensions of an element, of each parameter of the kernel.
    """

    parameters: tuple[tuple[str, int], ...]

    def __call__(self, inputs: Sequence[Any], outs: Sequence[Any]) -> dict[str, Any]:
        if len(self.parameters) != len(inputs) + len(outs):
            return {}  # jax_kernel says how many it expects
        named = zip(self.parameters[len(inputs) :], outs, strict=True)
        shapes = {name: tuple(out.shape[: len(out.shape) - rank]) or (1,) for (name, rank), out in named}
        return {"launch_dims": next(iter(shapes.values())), "output_dims": shapes}


WARP = register_backend(
    Backend(
        id="warp",
        targets={"cpu": "bridge_cpu", "cuda": "bridge_cuda"},
        accept=_accept,
        expected="a function decorated with warp.kernel, a suites.WarpKernel or a suites.WarpCallable",
        cure="Decorate it with warp.kernel; a function that makes kernels of a dtype goes into suites.WarpKernel.",
        has_adjoints=True,
    )
)
WARP_TILE = register_backend(
    Backend(
        id="warp_tile",
        targets={"cpu": "bridge_cpu", "cuda": "bridge_cuda"},
        accept=_accept_tile,
        expected="a suites.WarpKernel or a suites.WarpCallable",
        cure="Say in suites.WarpKernel(kernel, options) how its blocks are launched.",
        language="warp",
        has_adjoints=True,
    )
)
