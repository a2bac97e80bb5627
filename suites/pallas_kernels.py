"""Pallas code that the operators' kernels share: an elementwise kernel from a function of blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.experimental import pallas as pl

from suites.backends import PallasKernel

BLOCK = 1024
"""Elements of a block: a power of two, as Triton wants it; the last block may be partly outside, where it is masked."""


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
            values = [source[...] for source in sources]
            for target, value in zip(targets, function(*values), strict=True):
                target[...] = value.astype(target.dtype)

        block = pl.BlockSpec((BLOCK,), lambda i: (i,))
        one = pl.BlockSpec((1,), lambda i: (0,))

        def call(*arrays: jax.Array) -> list[jax.Array]:
            if not size:
                return [jax.numpy.zeros(out.shape, out.dtype) for out in outs]
            flat = [array.reshape(-1) for array in arrays]
            results = pl.pallas_call(
                kernel,
                grid=(pl.cdiv(size, BLOCK),),
                in_specs=[block if index < long_count else one for index in range(len(arrays))],
                out_specs=[block] * len(outs),
                out_shape=[jax.ShapeDtypeStruct((size,), out.dtype) for out in outs],
                interpret=jax.default_backend() == "cpu",
            )(*flat)
            return [result.reshape(out.shape) for result, out in zip(results, outs, strict=True)]

        return call

    return PallasKernel(make)
