"""Makes kernels in Pallas, JAX's own kernel language on GPUs, with :func:`elementwise` as its building block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

from suites.kernels.function_kernel import FunctionKernel
from suites.kernels.half_precision import wide
from suites.kernels.kernel import Kernel

triton: Any = None
MISSING: str | None = None
"""Why the building block cannot run; None if it can."""

try:
    from jax.experimental.pallas import triton
except ImportError as error:  # JAX plans to remove it
    MISSING = f"this JAX has no Triton backend of Pallas ({error})"

BLOCK = 1024
"""Elements that one program handles: a power of two, as Triton wants it."""


class PallasKernel(FunctionKernel):
    """A kernel in Pallas: a :class:`suites.FunctionKernel`."""


def elementwise(function: Callable[..., Sequence[jax.Array]], long_inputs: int | None = None) -> PallasKernel:
    """A kernel that applies a function to blocks of its arrays.

    Args:
        function: Takes blocks of the long inputs, and the other inputs as arrays of one element. Returns blocks of the
            outputs.
        long_inputs: How many of the inputs, the first ones, are as long as the outputs; all by default.
    """

    def make(inputs: Sequence[Any], outs: Sequence[Any]) -> Callable[..., list[jax.Array]]:
        size = outs[0].size
        long_count = len(inputs) if long_inputs is None else long_inputs

        def kernel(*references: Any) -> None:
            sources, targets = references[: len(inputs)], references[len(inputs) :]
            # Triton does not cut the last block at the end of the array: elements beyond it belong to other arrays.
            first = pl.program_id(0) * BLOCK
            inside = first + jnp.arange(BLOCK) < size
            here = pl.ds(first, BLOCK)
            values = [triton.load(source.at[here], mask=inside, other=0) for source in sources[:long_count]]
            values += [source[...] for source in sources[long_count:]]
            wider = [value.astype(wide(value.dtype)) for value in values]
            for target, value in zip(targets, function(*wider), strict=True):
                triton.store(target.at[here], value.astype(target.dtype), mask=inside)

        def call(*arrays: jax.Array) -> list[jax.Array]:
            if triton is None:
                raise ImportError(MISSING)
            if not size:
                return [jnp.zeros(out.shape, out.dtype) for out in outs]
            flat = [array.reshape(-1) for array in arrays]
            results = pl.pallas_call(
                kernel,
                grid=(pl.cdiv(size, BLOCK),),
                out_shape=[jax.ShapeDtypeStruct((size,), out.dtype) for out in outs],
                interpret=jax.default_backend() == "cpu",
            )(*flat)
            return [result.reshape(out.shape) for result, out in zip(results, outs, strict=True)]

        return call

    return PallasKernel(make)


def accept(declared: Any) -> Kernel | None:
    """Returns a function of JAX arrays as a kernel, unless it belongs to another language."""
    if isinstance(declared, PallasKernel):
        return declared if callable(declared.make) else None
    of_another_language = isinstance(declared, Kernel) or type(declared).__module__.startswith(("numba.", "warp."))
    if of_another_language or isinstance(declared, type) or not callable(declared):
        return None
    return PallasKernel(_Made(declared))


@dataclass(frozen=True)
class _Made:
    """Returns the same function for each call, changed to return a list."""

    function: Callable[..., Any]

    def __call__(self, inputs: Sequence[Any], outs: Sequence[Any]) -> Callable[..., list[jax.Array]]:
        return lambda *arrays: jax.tree.leaves(self.function(*arrays))


def missing() -> str | None:
    """Why the building block cannot run; None if it can."""
    return MISSING
