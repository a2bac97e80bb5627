"""Guesses the domain of an integer input from the author's samples, where the author declares none.

A kernel that is given an index beyond an array reads foreign memory, and no kernel checks that. So integers that look
like indices in every sample are taken for indices. All other values of the dtype are drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from suites.declare.domain import Domain
from suites.numerics.arrays import Array, Inputs
from suites.numerics.precision import precision

SEEDS = (0, 1, 2)
"""Seeds of the samples that a guess is made from."""

_Place = tuple[str, int, int]
"""Where an extent is: in ``inputs``, ``outputs`` or ``constants``, which array, and which axis."""


@dataclass(frozen=True)
class SmallestExtent:
    """Returns the smallest of some extents of a call's inputs and outputs: a ``below`` of a domain."""

    places: tuple[_Place, ...]
    constants: tuple[int, ...]
    outputs: Callable[..., Any]

    def __call__(self, *inputs: Any) -> int:
        arrays = {"inputs": inputs}
        if any(where == "outputs" for where, _, _ in self.places):
            arrays["outputs"] = self.outputs(*inputs)
        found = [int(arrays[where][index].shape[axis]) for where, index, axis in self.places]
        return min([*found, *self.constants])


def guessed(
    index: int,
    sample: Callable[[str, int, int], Inputs],
    outputs: Callable[..., Any],
    reference: Callable[..., Any],
    dtype: str,
    sizes: Sequence[int],
) -> Domain:
    """Returns the domain that samples suggest for an input.

    - Floats, booleans and integers that do not look like indices take any value.
    - Integers that are the same for every seed are fixed, such as the number of steps of a loop.
    - Integers that are never negative, and always less than an extent of an input, an output or a constant array of
      the reference, are indices.
    - Ascending integers that reach such an extent, such as the row pointers of a sparse matrix, are fixed.

    Args:
        index: The index of the input.
        sample: The operator's samples.
        outputs: The specs of its outputs.
        reference: Its reference.
        dtype: The dtype of the samples.
        sizes: The nominal sizes of the samples.
    """
    by_size = [[sample(dtype, size, seed) for seed in SEEDS] for size in sizes]
    if by_size[0][0][index].dtype.kind not in "iu":
        return Domain()
    if all(np.array_equal(each[index], several[0][index]) for several in by_size for each in several):
        return Domain(fixed=True)
    calls = [inputs for several in by_size for inputs in several if inputs[index].size]
    values: list[Array] = [inputs[index] for inputs in calls]
    if any(int(each.min()) < 0 for each in values):
        return Domain()
    ascending = all((np.diff(each, axis=-1) >= 0).all() for each in values) and any(each.size > 4 for each in values)
    extents = [dict(_extents(inputs, outputs)) for inputs in calls]
    constants = tuple(_constants(reference, calls[-1]))

    def places(beyond: int) -> SmallestExtent | None:
        """Returns the extents that no value reaches, or None if there are none."""
        largest = [int(each.max()) for each in values]
        found = [
            place
            for place in extents[0]
            if all(top < each.get(place, 0) + beyond for top, each in zip(largest, extents, strict=True))
        ]
        fixed = tuple(extent for extent in constants if max(largest) < extent + beyond)
        return SmallestExtent(tuple(found), fixed, outputs) if found or fixed else None

    below = places(0)
    if below is not None:
        return Domain(below=below, ascending=ascending)
    return Domain(fixed=True) if ascending and places(1) is not None else Domain()


def _extents(inputs: Inputs, outputs: Callable[..., Any]) -> Iterator[tuple[_Place, int]]:
    for where, arrays in (("inputs", inputs), ("outputs", outputs(*inputs))):
        for index, array in enumerate(arrays):
            for axis, extent in enumerate(array.shape):
                yield (where, index, axis), int(extent)


def _constants(reference: Callable[..., Any], inputs: Inputs) -> Iterator[int]:
    """Yields the extents of the arrays that the reference holds, such as a table that it looks values up in."""
    try:
        with precision(*(array.dtype for array in inputs)):
            closed = jax.make_jaxpr(lambda *arrays: reference(*arrays))(*inputs)
    except Exception:  # a reference that cannot be traced
        return
    for constant in closed.consts:
        yield from (int(extent) for extent in np.shape(constant) if extent > 1)
