"""Pallas code that the operators' kernels share: an elementwise kernel from a function of blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from suites.backends.backend import PallasKernel

BLOCK = 1024
"""Elements that one program handles: a power of two, as Triton wants it."""


def elementwise(function: Callable[..., Sequence[jax.Array]], long_inputs: int | None = None) -> PallasKernel:
    """A kernel that applies a function to blocks of its arrays.

    Args:
        function: Of blocks of the long inputs, and of the others as arrays of one element, to blocks of the outputs.
        long_inputs: How many of the inputs, the first ones, are as long as the outputs; all by default.

    """

    def make(inputs: Sequence[Any], outs: Sequence[Any]) -> Callable[..., list[jax.Array]]:
        size = outs[0].size
        long_count = len(inputs) if long_inputs is None else long_inputs

        def kernel(*references: Any) -> None:
            sources, targets = references[: len(inputs)], references[len(inputs) :]
            # Triton does not cut the last block off where the array ends: elements beyond it would be another array's.
            first = pl.program_id(0) * BLOCK
            inside = first + jnp.arange(BLOCK) < size
            here = pl.ds(first, BLOCK)
            values = [triton.load(source.at[here], mask=inside, other=0) for source in sources[:long_count]]
            values += [source[...] for source in sources[long_count:]]
            for target, value in zip(targets, function(*values), strict=True):
                triton.store(target.at[here], value.astype(target.dtype), mask=inside)

        def call(*arrays: jax.Array) -> list[jax.Array]:
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
