"""Draws batches of an operator's inputs, for nested ``jax.vmap``."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from hypothesis import strategies as st

from suites.checks.drawn.battery import is_parameter
from suites.checks.drawn.drawn_arrays import Sampled
from suites.checks.drawn.patterns import pattern_names, patterned
from suites.numerics.arrays import Array, Inputs

EXTENTS = (1, 3)
"""Extents of a batch axis. An axis of one element is special: its stride says nothing."""


@dataclass(frozen=True)
class Level:
    """One level of ``jax.vmap``.

    Attributes:
        extent: Elements along the batch axis.
        in_axes: The batch axis of each operand; None if all elements share the operand.
        out_axes: The batch axis of the outputs.
    """

    extent: int
    in_axes: tuple[int | None, ...]
    out_axes: int


@dataclass(frozen=True)
class Batch:
    """Operands for nested ``jax.vmap``, with the inputs of each element.

    Attributes:
        levels: The levels, the outermost first.
        operands: The batched operands.
        elements: The inputs of each element, by its index in each level.
    """

    levels: tuple[Level, ...]
    operands: Inputs
    elements: dict[tuple[int, ...], Inputs]

    def apply(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """The call under ``jax.vmap`` at each level."""
        for level in reversed(self.levels):
            call = jax.vmap(call, in_axes=level.in_axes, out_axes=level.out_axes)
        return call

    def element(self, output: Array, index: tuple[int, ...]) -> Array:
        """The part of an output of the batched call that belongs to one element."""
        for level, place in zip(self.levels, index, strict=True):
            output = np.take(output, place, axis=level.out_axes)
        return output


@st.composite
def batches(
    draw: st.DrawFn, operator: Sampled, dtype: str, size: int, extents: Sequence[int] = EXTENTS, most_levels: int = 2
) -> Batch:
    """Batches of an operator's inputs: samples, or a pattern of values.

    Batch axes are anywhere, counted from either end. At each level at least one operand is batched; all
    elements share the others.
    """
    seed = draw(st.integers(0, 1000))
    pattern = draw(st.none() | st.integers(0, 100))
    example = operator.sample(dtype, size, seed)
    ranks = [array.ndim for array in example]
    least_rank = min(len(out.shape) for out in operator.outputs(*example))
    levels: list[Level] = []
    for _ in range(draw(st.integers(1, most_levels))):  # innermost first: each adds an axis to the operands it batches
        axes = draw(st.tuples(*(st.none() | st.integers(-rank - 1, rank) for rank in ranks)).filter(_any_batched))
        ranks = [rank + (axis is not None) for rank, axis in zip(ranks, axes, strict=True)]
        rank = least_rank + len(levels)
        levels.insert(0, Level(draw(st.sampled_from(extents)), axes, draw(st.integers(-rank - 1, rank))))
    inputs = _Samples(operator, dtype, size, seed, tuple(levels), pattern)
    operands = tuple(inputs.stacked(operand, ()) for operand in range(len(example)))
    indices = itertools.product(*(range(level.extent) for level in levels))
    found = {index: tuple(inputs.one(operand, index) for operand in range(len(example))) for index in indices}
    return Batch(tuple(levels), operands, found)


def _any_batched(axes: tuple[int | None, ...]) -> bool:
    return any(axis is not None for axis in axes)


@dataclass(frozen=True)
class _Samples:
    """Makes the operands of each element. An operand depends only on the indices of levels that batch it."""

    operator: Sampled
    dtype: str
    size: int
    seed: int
    levels: tuple[Level, ...]
    pattern: int | None

    def one(self, operand: int, index: tuple[int, ...]) -> Array:
        seed = self.seed
        for level, place in zip(self.levels, index, strict=True):
            seed = seed * level.extent + (place if level.in_axes[operand] is not None else 0)
        sample = self.operator.sample(self.dtype, self.size, seed)
        array = sample[operand]
        if self.pattern is None or is_parameter(array, sample):
            return array
        names = pattern_names(array.dtype)
        drawn = patterned(names[self.pattern % len(names)], array, np.random.default_rng(seed))
        return self.operator.domain_of(operand).fitted(drawn, array, sample)

    def stacked(self, operand: int, index: tuple[int, ...]) -> Array:
        """The operand of all elements whose index begins with ``index``, stacked along the batch axes."""
        if len(index) == len(self.levels):
            return self.one(operand, index)
        level = self.levels[len(index)]
        axis = level.in_axes[operand]
        if axis is None:
            return self.stacked(operand, (*index, 0))
        return np.stack([self.stacked(operand, (*index, place)) for place in range(level.extent)], axis)
